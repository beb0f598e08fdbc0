"use strict";
// Rounds that the page keeps: packed in typed arrays, the last few hundred of them.

const USEFUL = 0, LATE = 1, PURGED = 2;
const KEEP = 600; // rounds
const STRETCHES = 600000; // of work, over all rounds: 10 MB

/** A round with its stretches sorted by worker: those of worker p are from[p] up to from[p + 1]. */
function packed(round) {
  const tasks = round.tasks;
  let places = 0;
  for (const task of tasks) places = Math.max(places, task[0] + 1);
  const from = new Uint32Array(places + 1);
  for (const task of tasks) from[task[0] + 1] += 1;
  for (let place = 0; place < places; place += 1) from[place + 1] += from[place];
  const next = from.slice(0, places);
  const begin = new Float32Array(tasks.length), stop = new Float32Array(tasks.length);
  const use = new Uint8Array(tasks.length), rows = new Uint16Array(tasks.length);
  for (const [place, first, last, how, many] of tasks) {
    const at = next[place]++;
    begin[at] = first;
    stop[at] = last;
    use[at] = how;
    rows[at] = many;
  }
  const { n, job, name, iteration, start, end } = round;
  return { n, job, name, iteration, start, end, places, from, begin, stop, use, rows, gap: 0 };
}

class Rounds {
  constructor() {
    this.list = []; // in order of their numbers
    this.held = []; // came while the page was paused
    this.paused = false;
    this.lost = 0; // rounds that the page was too slow for, before the next that comes
    this.stretches = 0;
  }

  add(rounds) {
    for (const round of rounds) {
      const before = this.held.length ? this.held[this.held.length - 1] : this.list[this.list.length - 1];
      if (before && round.n <= before.n) continue; // sent again after a lost connection
      const one = packed(round);
      one.gap = this.lost;
      this.lost = 0;
      if (this.paused) {
        this.held.push(one);
        if (this.held.length > KEEP / 3) {
          const dropped = this.held.shift();
          this.held[0].gap += dropped.gap + 1;
        }
      } else {
        this.append(one);
      }
    }
  }

  append(one) {
    this.list.push(one);
    this.stretches += one.use.length;
    let drop = 0;
    while (this.list.length - drop > (this.paused ? (2 * KEEP) / 3 : KEEP) || (this.stretches > STRETCHES && drop < this.list.length - 1)) {
      this.stretches -= this.list[drop].use.length;
      drop += 1;
    }
    if (drop) this.list.splice(0, drop);
  }

  missed(number) {
    this.lost += number;
  }

  pause(paused) {
    this.paused = paused;
    if (paused) {
      while (this.list.length > (2 * KEEP) / 3) this.stretches -= this.list.shift().use.length;
    } else {
      for (const one of this.held) this.append(one);
      this.held = [];
    }
  }

  clear() {
    this.list = [];
    this.held = [];
    this.stretches = 0;
    this.lost = 0;
  }

  /** From when on and until when there are rounds. */
  extent() {
    let from = Infinity, to = -Infinity;
    for (const round of this.list) {
      from = Math.min(from, round.start);
      to = Math.max(to, round.end);
    }
    return from < to ? [from, to] : null;
  }

  /** How long a round in the middle of those kept takes; 0 where there are none. */
  usual() {
    const lasted = this.list.slice(-60).map((round) => round.end - round.start).sort((a, b) => a - b);
    return lasted.length ? lasted[lasted.length >> 1] : 0;
  }

  /** Rounds a second over those kept, whose ends lie within the last `span` seconds; null where too few. */
  rate(now, span) {
    let number = 0, first = now;
    for (let i = this.list.length - 1; i >= 0 && this.list[i].end > now - span; i -= 1) {
      number += 1 + this.list[i].gap;
      first = Math.min(first, this.list[i].start);
    }
    return number > 1 && now > first ? number / (now - first) : null;
  }

  seen(from, to) {
    return this.list.filter((round) => round.end >= from && round.start <= to);
  }
}
