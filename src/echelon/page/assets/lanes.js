"use strict";
// Lanes: one per worker, who is busy when. What is seen is view.from .. view.to in seconds of the stream's clock.

const TOP = 20, AXIS = 24, RIGHT = 10, THICK = 28, THIN = 12, TALLEST = 448;
const FINE = 5; // pixels per round, below which shares of time are drawn instead of single stretches

class Lanes {
  constructor(store, canvas, scroller, spacer) {
    Object.assign(this, { store, canvas, scroller, spacer });
    this.follow = true;
    this.chosen = null; // span in seconds, once somebody has zoomed
    this.view = { from: 0, to: 1 };
    this.cursor = null; // {n, place}: what the keyboard points at
    this.state = null;
    this.drawn = 0;
  }

  /** Where things are, in CSS pixels. */
  measure() {
    const names = this.state.names, count = Math.max(1, names.length);
    this.width = this.scroller.clientWidth;
    this.lane = Math.max(THIN, Math.min(THICK, Math.floor((TALLEST - TOP - AXIS) / count)));
    const whole = TOP + AXIS + count * this.lane;
    this.height = Math.min(whole, TALLEST);
    this.room = this.height - TOP - AXIS; // for lanes
    const spare = `${Math.max(0, whole - this.height)}px`;
    if (this.spacer.style.height !== spare) this.spacer.style.height = spare;
    if (this.named !== names.join("\n") + this.width) {
      this.named = names.join("\n") + this.width;
      this.pen = this.canvas.getContext("2d");
      this.pen.font = `12px ${paint.font}`;
      const most = this.width < 500 ? 74 : 150;
      const needed = names.reduce((widest, name) => Math.max(widest, this.pen.measureText(name.slice(0, 60)).width), 20);
      this.gutter = Math.min(most, Math.ceil(needed) + 14);
      this.labels = names.map((name) => this.shortened(name, this.gutter - 14));
    }
  }

  shortened(name, room) {
    if (this.pen.measureText(name).width <= room) return name;
    let kept = Math.min(name.length, 40);
    while (kept > 1 && this.pen.measureText(`${name.slice(0, kept)}…`).width > room) kept -= 1;
    return `${name.slice(0, kept)}…`;
  }

  x(time) {
    return this.gutter + ((time - this.view.from) * (this.width - this.gutter - RIGHT)) / (this.view.to - this.view.from);
  }

  time(x) {
    return this.view.from + ((x - this.gutter) * (this.view.to - this.view.from)) / (this.width - this.gutter - RIGHT);
  }

  y(place) {
    return TOP + place * this.lane - this.scroller.scrollTop;
  }

  placeAt(y) {
    const place = Math.floor((y - TOP + this.scroller.scrollTop) / this.lane);
    return y >= TOP && y < TOP + this.room && place < this.state.names.length ? place : null;
  }

  /** The span that suits: as many rounds as are easily told apart, or all where there are few. */
  span() {
    if (this.chosen) return this.chosen;
    const extent = this.store.extent();
    if (!extent) return 1;
    const rough = Math.max(3, (this.width - this.gutter) / 75) * this.store.usual() || 1;
    const nice = ticks(0, rough, 1).step;
    return this.state.over ? Math.min(nice, (extent[1] - extent[0]) * 1.04) : nice;
  }

  /** With the newest at the right, where it follows. */
  place(clock) {
    if (!this.follow) return;
    const extent = this.store.extent();
    const newest = this.state.over && extent ? extent[1] : Math.max(clock, extent ? extent[1] : 0);
    const span = this.span();
    this.view = { from: newest - span * 0.98, to: newest + span * 0.02 };
    if (this.view.from < 0 && !this.chosen) this.view = { from: 0, to: Math.max(newest * 1.02, span * 0.5) };
  }

  draw(state, clock) {
    this.state = state;
    this.measure();
    if (this.width < 50) return;
    this.place(clock);
    const pen = (this.pen = cleared(this.canvas, this.width, this.height));
    const rounds = this.store.seen(this.view.from, this.view.to);
    this.fine = this.x(this.store.usual()) - this.x(0) >= FINE;
    this.drawGrid(pen);
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter, 0, this.width - this.gutter - RIGHT + 4, this.height - AXIS);
    pen.clip();
    this.drawAbsences(pen, clock);
    this.drawNow(pen, clock);
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / this.lane));
    const last = Math.min(state.names.length, Math.ceil((this.scroller.scrollTop + this.room) / this.lane));
    pen.save();
    pen.beginPath();
    pen.rect(0, TOP, this.width, this.room);
    pen.clip();
    if (this.fine) for (let place = first; place < last; place += 1) this.drawLane(pen, place, rounds);
    else for (let place = first; place < last; place += 1) this.drawShares(pen, place, rounds);
    pen.restore();
    this.drawEnds(pen, rounds);
    this.drawCursor(pen);
    this.drawMarks(pen);
    pen.restore();
    this.drawNames(pen, first, last);
    this.rounds = rounds;
    this.drawn += 1;
  }

  drawGrid(pen) {
    const most = Math.max(2, Math.floor((this.width - this.gutter) / 84));
    const { values, digits } = ticks(this.view.from, this.view.to, most);
    const bottom = this.height - AXIS;
    pen.font = `11px ${paint.font}`;
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    for (const value of values) {
      const x = Math.round(this.x(value)) + 0.5;
      pen.fillStyle = paint.grid;
      pen.fillRect(x - 0.5, TOP, 1, bottom - TOP);
      pen.fillStyle = paint.soft;
      const text = moment(value, digits), half = pen.measureText(text).width / 2;
      if (x - half > this.gutter - 12 && x + half < this.width) pen.fillText(text, x, bottom + 13);
    }
    pen.fillStyle = paint.line;
    pen.fillRect(this.gutter, bottom, this.width - this.gutter - RIGHT, 1);
  }

  /** Times in which nobody sat at a place. */
  drawAbsences(pen, clock) {
    const since = new Map(), gone = [];
    for (const mark of this.state.marks) {
      if (mark.kind === "down") since.set(mark.place, mark.time);
      if (mark.kind === "up" && since.has(mark.place)) {
        gone.push([mark.place, since.get(mark.place), mark.time]);
        since.delete(mark.place);
      }
    }
    for (const [place, from] of since) if (this.state.workers[place]?.state === "gone") gone.push([place, from, Math.max(clock, this.view.to)]);
    pen.fillStyle = paint.lost;
    pen.globalAlpha = 0.1;
    for (const [place, from, to] of gone) {
      if (place !== null && to > this.view.from && from < this.view.to) {
        pen.fillRect(this.x(from), this.y(place) + 1, this.x(to) - this.x(from), this.lane - 2);
      }
    }
    pen.globalAlpha = 1;
  }

  /** The open round, and whose rows are still out. */
  drawNow(pen, clock) {
    const now = this.state.now;
    if (!now || now.start > this.view.to || clock < now.start) return;
    const from = this.x(now.start), wide = Math.max(1, this.x(clock) - from);
    pen.fillStyle = paint.now;
    for (const place of now.missing) {
      if (this.y(place) > TOP - this.lane && this.y(place) < this.height) pen.fillRect(from, this.y(place) + this.lane * 0.18, wide, this.lane * 0.64);
    }
  }

  drawLane(pen, place, rounds) {
    const pad = this.lane > 16 ? 4 : 1.5, y = this.y(place) + pad, high = this.lane - 2 * pad;
    for (const round of rounds) {
      if (place >= round.places) continue;
      for (let i = round.from[place]; i < round.from[place + 1]; i += 1) {
        const left = this.x(round.start + round.begin[i]), right = this.x(round.start + round.stop[i]);
        if (right < this.gutter || left > this.width) continue;
        const wide = Math.max(0.8, right - left - (right - left > 4 ? 0.8 : 0));
        this.drawStretch(pen, round.use[i], round.job, left, y, wide, high);
      }
    }
  }

  drawStretch(pen, use, job, x, y, wide, high) {
    if (use === PURGED) {
      pen.fillStyle = paint.card;
      pen.fillRect(x, y, wide, high);
      pen.fillStyle = wide < 3 ? paint.cut : paint.hatch;
      pen.fillRect(x, y, wide, high);
      if (wide > 3) {
        pen.strokeStyle = paint.cut;
        pen.lineWidth = 1;
        pen.strokeRect(x + 0.5, y + 0.5, wide - 1, high - 1);
      }
      return;
    }
    pen.fillStyle = use === LATE ? paint.late : job % 2 ? paint.useful : paint["useful-b"];
    pen.fillRect(x, y, wide, high);
  }

  /** From afar: in each column as much colour as that share of its time was worked. */
  drawShares(pen, place, rounds) {
    const step = 2, columns = Math.ceil((this.width - this.gutter - RIGHT) / step);
    const shares = [new Float32Array(columns), new Float32Array(columns), new Float32Array(columns)];
    for (const round of rounds) {
      if (place >= round.places) continue;
      for (let i = round.from[place]; i < round.from[place + 1]; i += 1) {
        const left = Math.max(0, (this.x(round.start + round.begin[i]) - this.gutter) / step);
        const right = Math.min(columns, (this.x(round.start + round.stop[i]) - this.gutter) / step);
        const into = shares[round.use[i]];
        for (let column = Math.floor(left); column < right; column += 1) {
          into[column] += Math.min(right, column + 1) - Math.max(left, column);
        }
      }
    }
    const pad = this.lane > 16 ? 3 : 1, high = this.lane - 2 * pad, bottom = this.y(place) + this.lane - pad;
    const colours = [paint.useful, paint.late, paint.cut], base = new Float32Array(columns);
    for (let use = 0; use < 3; use += 1) {
      pen.fillStyle = colours[use];
      for (let column = 0; column < columns; column += 1) {
        const tall = Math.min(1 - base[column], shares[use][column]) * high;
        if (tall > 0.2) pen.fillRect(this.gutter + column * step, bottom - base[column] * high - tall, step, tall);
        base[column] = Math.min(1, base[column] + shares[use][column]);
      }
    }
  }

  drawEnds(pen, rounds) {
    const bottom = this.height - AXIS;
    for (const round of rounds) {
      if (round.gap) {
        const x = this.x(round.start);
        pen.fillStyle = paint.soft;
        for (let y = TOP; y < bottom; y += 6) pen.fillRect(x - 1, y, 2, 3);
      }
      if (!this.fine) continue;
      pen.fillStyle = paint.ink;
      pen.globalAlpha = 0.55;
      pen.fillRect(Math.round(this.x(round.end)), TOP, 1, bottom - TOP);
      pen.globalAlpha = 1;
    }
  }

  drawCursor(pen) {
    if (!this.cursor) return;
    const round = this.store.list.find((one) => one.n === this.cursor.n);
    if (!round) return;
    pen.strokeStyle = paint.ink;
    pen.lineWidth = 2;
    const left = this.x(round.start), y = this.y(this.cursor.place);
    pen.strokeRect(left + 1, y + 1, Math.max(3, this.x(round.end) - left - 2), this.lane - 2);
  }

  drawMarks(pen) {
    const bottom = this.height - AXIS;
    for (const mark of this.state.marks) {
      const x = this.x(mark.time);
      if (x < this.gutter - 8 || x > this.width + 8) continue;
      const y = mark.place === null ? TOP / 2 : this.y(mark.place) + this.lane / 2;
      if (mark.kind === "replan") {
        pen.strokeStyle = paint.replan;
        pen.lineWidth = 1;
        pen.setLineDash([4, 3]);
        pen.beginPath();
        pen.moveTo(x, TOP);
        pen.lineTo(x, bottom);
        pen.stroke();
        pen.setLineDash([]);
      }
      if (mark.place === null || (y > TOP && y < bottom)) drawMark(pen, mark.kind, x, y, Math.min(6, this.lane * 0.34 + 1.5));
    }
  }

  drawNames(pen, first, last) {
    pen.save();
    pen.beginPath();
    pen.rect(0, TOP, this.gutter, this.room);
    pen.clip();
    pen.font = `${this.lane < 15 ? 10 : 12}px ${paint.font}`;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    for (let place = first; place < last; place += 1) {
      const gone = this.state.workers[place]?.state === "gone", y = this.y(place) + this.lane / 2;
      pen.fillStyle = gone ? paint.soft : paint.ink;
      pen.fillText(this.labels[place], 0, y + 0.5);
      if (gone) pen.fillRect(0, y, pen.measureText(this.labels[place]).width, 1);
    }
    pen.restore();
  }
}
