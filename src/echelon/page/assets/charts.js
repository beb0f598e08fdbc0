"use strict";
// Small pictures in SVG, whose colours are those of the style sheet: histograms, lines over time, stacked bars.

const SVG = "http://www.w3.org/2000/svg";
const PAD = { left: 44, right: 12, top: 8, bottom: 34 };
const TALL = 168;

function svg(tag, { name, text, ...attributes } = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  if (name) node.setAttribute("class", name);
  if (text !== undefined) node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** Draw a picture anew only where what it shows, or its width, is another. */
function picture(host, shown, label, draw) {
  const width = Math.max(220, Math.floor(host.clientWidth));
  const key = `${width} ${JSON.stringify(shown)}`;
  if (host.shownKey === key) return;
  host.shownKey = key;
  const node = svg("svg", { width, height: TALL, viewBox: `0 0 ${width} ${TALL}`, role: "img", "aria-label": label });
  draw(node, width);
  host.replaceChildren(node);
}

/** Axes with their ticks: functions from values to pixels. `log` asks for decades at the left. */
function frame(node, width, x, y) {
  const right = width - PAD.right, bottom = TALL - PAD.bottom;
  const scale = (low, high, from, to) => (value) => from + ((value - low) * (to - from)) / (high - low || 1);
  const across = scale(x.low, x.high, PAD.left, right), up = scale(y.low, y.high, bottom, PAD.top);
  for (const value of y.ticks) {
    const at = Math.round(up(value)) + 0.5;
    node.append(svg("line", { name: "grid", x1: PAD.left, x2: right, y1: at, y2: at }));
    node.append(svg("text", { name: "tick", x: PAD.left - 6, y: at + 3.5, "text-anchor": "end", text: y.say(value) }));
  }
  node.append(svg("line", { name: "axis", x1: PAD.left, x2: right, y1: bottom + 0.5, y2: bottom + 0.5 }));
  for (const value of x.ticks) {
    const at = across(value);
    node.append(svg("line", { name: "axis", x1: at, x2: at, y1: bottom, y2: bottom + 4 }));
    const anchor = at > right - 14 ? "end" : "middle";
    node.append(svg("text", { name: "tick", x: at, y: bottom + 15, "text-anchor": anchor, text: x.say(value) }));
  }
  node.append(svg("text", { name: "tick", x: (PAD.left + right) / 2, y: TALL - 3, "text-anchor": "middle", text: x.title }));
  return [across, up, bottom];
}

/** An axis of seconds in the unit that suits. */
function timeAxis(low, high, title, most = 6) {
  const [factor, unit] = timeUnit(Math.max(Math.abs(high), 1e-9)), chosen = ticks(low * factor, high * factor, most);
  const values = chosen.values.map((value) => value / factor);
  return { low, high, ticks: values, say: (value) => (value * factor).toFixed(chosen.digits), title: `${title} (${unit})` };
}

function wholeAxis(high, most = 4) {
  const chosen = ticks(0, Math.max(1, high), most);
  const step = Math.max(1, chosen.step), values = [];
  for (let value = 0; value <= Math.max(1, high) + 1e-9; value += step) values.push(value);
  return { low: 0, high: Math.max(1, high) * 1.06, ticks: values, say: (value) => (value >= 1e4 ? `${number(value / 1000)}k` : count(value)) };
}

function polyline(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

function drawHistogram(node, width, seen, title) {
  const { edges, counts, law } = seen;
  const most = Math.max(...counts, ...(law || [0]));
  const [across, up, bottom] = frame(node, width, timeAxis(edges[0], edges[edges.length - 1], title, width / 70), wholeAxis(most));
  const bars = counts.map((high, i) => {
    const left = across(edges[i]), wide = Math.max(0.5, across(edges[i + 1]) - left - 1);
    return `M${(left + 0.5).toFixed(1)} ${bottom}V${up(high).toFixed(1)}h${wide.toFixed(1)}V${bottom}z`;
  });
  node.append(svg("path", { name: "bars", d: bars.join("") }));
  if (law) {
    const middles = law.map((value, i) => [across((edges[i] + edges[i + 1]) / 2), up(value)]);
    node.append(svg("path", { name: "law", d: polyline(middles) }));
  }
}

/** Lines over time: steps for what is counted. */
function drawSeries(node, width, lines, x, y, { steps = false } = {}) {
  const [across, up, bottom] = frame(node, width, x, y);
  for (const { points, name, area } of lines) {
    const thin = thinned(points, width);
    const placed = [];
    for (const [time, value] of thin) {
      if (steps && placed.length) placed.push([across(time), placed[placed.length - 1][1]]);
      placed.push([across(time), up(Math.max(y.low, Math.min(y.high, value)))]);
    }
    if (!placed.length) continue;
    const d = polyline(placed);
    if (area) node.append(svg("path", { name: `${name} area`, d: `${d}L${placed[placed.length - 1][0].toFixed(1)} ${bottom}L${placed[0][0].toFixed(1)} ${bottom}z` }));
    node.append(svg("path", { name, d }));
    if (placed.length === 1) node.append(svg("circle", { name: `${name} dot`, cx: placed[0][0], cy: placed[0][1], r: 2.5 }));
  }
}

/** At most two points per pixel: the least and the most of each stretch. */
function thinned(points, width) {
  if (points.length <= 2 * width) return points;
  const kept = [], stretch = Math.ceil(points.length / width);
  for (let i = 0; i < points.length; i += stretch) {
    let least = i, most = i;
    for (let j = i; j < Math.min(points.length, i + stretch); j += 1) {
      if (points[j][1] < points[least][1]) least = j;
      if (points[j][1] > points[most][1]) most = j;
    }
    for (const at of least < most ? [least, most] : least === most ? [most] : [most, least]) kept.push(points[at]);
  }
  return kept;
}

/** Parts of a whole as one bar; each part {name, value}. */
function stacked(bar, parts) {
  const whole = parts.reduce((sum, part) => sum + (part.value || 0), 0);
  while (bar.children.length < parts.length) bar.append(make("i"));
  parts.forEach((part, i) => {
    bar.children[i].className = part.name;
    fill(bar.children[i], whole ? part.value / whole : 0);
  });
  return whole;
}
