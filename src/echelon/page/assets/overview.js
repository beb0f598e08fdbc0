"use strict";
// The strip below the lanes.

/** All rounds that are kept, as bars of how long they took, with a frame about those in view; drag to go elsewhere. */
class Overview {
  constructor(lanes, canvas, moved) {
    Object.assign(this, { lanes, canvas, moved });
    const go = (event) => {
      if (!event.buttons || !this.extent) return;
      const { view } = lanes, middle = (view.from + view.to) / 2;
      moved.pan(this.extent[0] + (event.offsetX / canvas.clientWidth) * (this.extent[1] - this.extent[0]) - middle);
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    canvas.addEventListener("pointermove", go);
  }

  draw(clock) {
    const { lanes } = this, width = this.canvas.clientWidth, height = 34, pen = cleared(this.canvas, width, height);
    const extent = lanes.store.extent();
    hide(this.canvas, !extent);
    if (!extent || width < 50) return;
    this.extent = [extent[0], lanes.state.over ? extent[1] : Math.max(extent[1], clock)];
    const scale = width / (this.extent[1] - this.extent[0]), list = lanes.store.list;
    const lasted = list.map((round) => round.end - round.start).sort((a, b) => a - b);
    const tallest = lasted[Math.floor(0.98 * (lasted.length - 1))] * 1.15 || 1;
    pen.fillStyle = paint.accent;
    pen.globalAlpha = 0.55;
    for (const round of list) {
      const x = (round.start - this.extent[0]) * scale, wide = Math.max(1, (round.end - round.start) * scale - 0.5);
      const high = Math.min(1, (round.end - round.start) / tallest) * (height - 6);
      pen.fillRect(x, height - high, wide, high);
    }
    pen.globalAlpha = 1;
    for (const mark of lanes.state.marks) {
      if (mark.kind !== "down" && mark.kind !== "up") continue;
      pen.fillStyle = mark.kind === "down" ? paint.lost : paint.joined;
      pen.fillRect((mark.time - this.extent[0]) * scale - 1, 0, 2, height);
    }
    const left = Math.max(0, (lanes.view.from - this.extent[0]) * scale), right = Math.min(width, (lanes.view.to - this.extent[0]) * scale);
    pen.fillStyle = paint.card;
    pen.globalAlpha = 0.6;
    pen.fillRect(0, 0, left, height);
    pen.fillRect(right, 0, width - right, height);
    pen.globalAlpha = 1;
    pen.strokeStyle = paint.ink;
    pen.lineWidth = 1;
    pen.strokeRect(left + 0.5, 0.5, Math.max(2, right - left - 1), height - 1);
  }
}
