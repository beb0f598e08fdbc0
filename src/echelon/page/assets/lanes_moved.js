"use strict";
// Zoom, pan, follow and the pointer over the lanes.

class Moved {
  constructor(lanes, tip, spoken, changed) {
    Object.assign(this, { lanes, tip, spoken, changed });
    this.pointers = new Map();
    const { canvas, scroller } = lanes;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => this.hide());
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => {
      lanes.cursor = null;
      this.hide();
      changed();
    });
    scroller.addEventListener("scroll", () => changed());
  }

  /** Show more or less time around one moment, or up to the newest where that is followed. */
  zoom(factor, around = null) {
    const { lanes } = this, { view } = lanes, extent = lanes.store.extent() || [0, 1];
    const span = Math.min(Math.max((view.to - view.from) * factor, 1e-4), Math.max(2, 1.5 * (extent[1] - extent[0])));
    const anchor = around === null ? (view.from + view.to) / 2 : around;
    const part = (anchor - view.from) / (view.to - view.from);
    lanes.chosen = span;
    if (!lanes.follow) lanes.view = { from: anchor - part * span, to: anchor + (1 - part) * span };
    this.changed();
  }

  pan(time) {
    const { lanes } = this, { view } = lanes, span = view.to - view.from, extent = lanes.store.extent() || [0, 1];
    const from = Math.min(Math.max(view.from + time, extent[0] - 0.9 * span), extent[1] - 0.1 * span);
    lanes.chosen = span;
    lanes.follow = false;
    lanes.view = { from, to: from + span };
    this.changed();
  }

  stay(follow) {
    this.lanes.follow = follow;
    this.changed();
  }

  wheel(event) {
    const { lanes } = this, unit = event.deltaMode === 1 ? 16 : 1;
    const across = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey || (document.activeElement === lanes.canvas && !event.shiftKey && Math.abs(event.deltaY) > Math.abs(event.deltaX))) {
      event.preventDefault();
      this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY * unit)) * 0.006), lanes.time(event.offsetX));
    } else if (Math.abs(across) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      this.pan(lanes.time(across * unit) - lanes.time(0));
    }
  }

  down(event) {
    this.pointers.set(event.pointerId, event.offsetX);
    this.lanes.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    const { lanes, pointers } = this;
    if (!pointers.has(event.pointerId)) {
      this.point(event.offsetX, event.offsetY);
      return;
    }
    const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
    const before = pointers.get(event.pointerId);
    pointers.set(event.pointerId, event.offsetX);
    if (others.length) {
      const was = Math.abs(before - others[0]), is = Math.abs(event.offsetX - others[0]);
      if (was > 8 && is > 8) this.zoom(was / is, lanes.time((event.offsetX + others[0]) / 2));
    } else if (event.offsetX !== before) {
      this.hide();
      this.pan(lanes.time(before) - lanes.time(event.offsetX));
    }
  }

  point(x, y) {
    const told = this.lanes.state && toldPoint(this.lanes, x, y);
    if (told) this.show(told, x, y);
    else this.hide();
  }

  show([title, lines], x, y) {
    const { tip, lanes } = this;
    tip.replaceChildren(make("strong", { text: title }), ...lines.map((text) => make("span", { text })));
    tip.hidden = false;
    const box = lanes.scroller;
    const left = Math.max(4, Math.min(x + 14, box.clientWidth - tip.offsetWidth - 4));
    const over = y + 18 + tip.offsetHeight > box.clientHeight + 40;
    tip.style.left = `${box.offsetLeft + left}px`;
    tip.style.top = `${box.offsetTop + (over ? Math.max(0, y - tip.offsetHeight - 12) : y + 18)}px`;
  }

  hide() {
    this.tip.hidden = true;
  }

  /** Go to another round or worker by keyboard, and say what is there. */
  step(rounds, places) {
    const { lanes } = this, { list } = lanes.store;
    if (!list.length) return;
    let at = lanes.cursor ? list.findIndex((round) => round.n === lanes.cursor.n) : list.length - 1;
    if (lanes.cursor) at = at < 0 ? 0 : Math.min(list.length - 1, Math.max(0, at + rounds));
    const place = Math.min(lanes.state.names.length - 1, Math.max(0, (lanes.cursor ? lanes.cursor.place : 0) + places));
    const round = list[at];
    lanes.cursor = { n: round.n, place };
    lanes.follow = false;
    const span = lanes.view.to - lanes.view.from;
    if (round.start < lanes.view.from) lanes.view = { from: round.start - 0.05 * span, to: round.start + 0.95 * span };
    if (round.end > lanes.view.to) lanes.view = { from: round.end - 0.95 * span, to: round.end + 0.05 * span };
    const y = lanes.y(place);
    if (y < TOP) lanes.scroller.scrollTop -= TOP - y;
    if (y + lanes.lane > TOP + lanes.room) lanes.scroller.scrollTop += y + lanes.lane - TOP - lanes.room;
    const told = toldRound(lanes.state, round, place);
    say(this.spoken, `${told[0]}: ${told[1].join("; ")}`);
    this.show(told, Math.max(lanes.gutter, lanes.x((round.start + round.end) / 2)), lanes.y(place) + lanes.lane);
    this.changed();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const span = this.lanes.view.to - this.lanes.view.from, extent = this.lanes.store.extent();
    const deeds = {
      ArrowLeft: () => this.pan(-0.15 * span),
      ArrowRight: () => this.pan(0.15 * span),
      ArrowUp: () => this.step(0, -1),
      ArrowDown: () => this.step(0, 1),
      ",": () => this.step(-1, 0),
      ".": () => this.step(1, 0),
      Home: () => extent && this.pan(extent[0] - 0.02 * span - this.lanes.view.from),
      End: () => this.stay(true),
      Escape: () => {
        this.lanes.cursor = null;
        this.hide();
        this.changed();
      },
    };
    if (!(event.key in deeds)) return;
    event.preventDefault();
    deeds[event.key]();
  }
}
