"use strict";
// What both canvases share: sharp pixels, colours of the style sheet, hatching, ticks.

const paint = {};

/** Read the colours that hold now; called again when light turns dark. */
function readColours() {
  const probe = make("span", { name: "hidden" });
  document.body.append(probe);
  for (const name of ["card", "line", "grid", "ink", "soft", "accent", "useful", "useful-b", "late", "cut", "lost", "joined", "replan", "now"]) {
    probe.style.color = `var(--${name})`;
    paint[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  const dpr = window.devicePixelRatio || 1, size = Math.round(6 * dpr);
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.strokeStyle = paint.cut;
  pen.lineWidth = 1.1 * dpr;
  for (const shift of [-size, 0, size]) {
    pen.beginPath();
    pen.moveTo(shift - 1, size + 1);
    pen.lineTo(shift + size + 1, -1);
    pen.stroke();
  }
  paint.hatch = pen.createPattern(tile, "repeat");
  paint.hatch.setTransform(new DOMMatrix().scale(6 / size));
  paint.font = getComputedStyle(document.body).fontFamily;
}

/** Make a canvas fit its place on this screen; returns its pen, cleared, in CSS pixels. */
function cleared(canvas, width, height) {
  const dpr = window.devicePixelRatio || 1;
  const across = Math.max(1, Math.round(width * dpr)), down = Math.max(1, Math.round(height * dpr));
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(dpr, 0, 0, dpr, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

/** At most `most` round values between two limits: {step, values, digits}. */
function ticks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  if (!(rough > 0)) return { step: 1, values: [low], digits: 0 };
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough * (1 - 1e-9));
  const values = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) values.push(i * step);
  return { step, values, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

/** A moment on the clock of the stream, as sharp as the distance of ticks asks. */
function moment(value, digits) {
  if (Math.abs(value) < 600) return `${value.toFixed(digits)} s`;
  const minutes = Math.floor(value / 60);
  const rest = (value - 60 * minutes).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  if (minutes < 60) return `${minutes}:${rest}`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

/** The shape of a mark: the colour is never all that tells them apart. */
function drawMark(pen, kind, x, y, size) {
  pen.lineWidth = 2.2;
  pen.beginPath();
  if (kind === "down") {
    const r = size * 0.75;
    pen.moveTo(x - r, y - r);
    pen.lineTo(x + r, y + r);
    pen.moveTo(x + r, y - r);
    pen.lineTo(x - r, y + r);
    pen.strokeStyle = paint.card;
    pen.lineWidth = 5;
    pen.stroke();
    pen.strokeStyle = paint.lost;
    pen.lineWidth = 2.4;
    pen.stroke();
    return;
  }
  if (kind === "up") {
    pen.moveTo(x, y - size);
    pen.lineTo(x + size, y + size * 0.8);
    pen.lineTo(x - size, y + size * 0.8);
  } else if (kind === "replan") {
    pen.moveTo(x, y - size);
    pen.lineTo(x + size * 0.8, y);
    pen.lineTo(x, y + size);
    pen.lineTo(x - size * 0.8, y);
  } else {
    pen.arc(x, y, size * 0.8, 0, 2 * Math.PI);
  }
  pen.closePath();
  pen.strokeStyle = paint.card;
  pen.stroke();
  pen.fillStyle = kind === "up" ? paint.joined : kind === "replan" ? paint.replan : paint.lost;
  pen.fill();
}
