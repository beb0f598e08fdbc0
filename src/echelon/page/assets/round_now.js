"use strict";
// The round now, and the head of the page: what changes with the clock.

class RoundNow {
  constructor() {
    this.empty = byId("no-round");
    this.open = byId("open-round");
    const find = (key) => this.open.querySelector(`[data-of='now.${key}']`);
    this.shown = Object.fromEntries(["name", "iteration", "iterations", "came", "needed"].map((key) => [key, find(key)]));
    this.bar = byId("came-bar");
    this.ends = byId("ends");
    this.expected = make("span", { of: "now.expected_s" });
    this.told = make("span");
    this.ends.append(this.told, this.expected);
    this.who = make("span");
    byId("missing").append(make("span", { name: "soft", text: "waiting for " }), this.who);
  }

  show(state) {
    const { now } = state;
    hide(this.empty, now !== null);
    hide(this.open, now === null);
    if (now === null) {
      say(this.empty, state.over ? "The stream is closed; no round is open." : state.running ? "No round is open." : "No round is open on this record.");
      return;
    }
    put(this.shown.name, now.name, now.name);
    for (const key of ["iteration", "iterations", "came", "needed"]) put(this.shown[key], now[key], count(now[key]));
    hide(byId("of-iterations"), !known(now.iterations));
    fill(this.bar.firstElementChild, now.came / now.needed);
    if (this.bar.getAttribute("aria-valuenow") !== String(now.came)) {
      this.bar.setAttribute("aria-valuemax", now.needed);
      this.bar.setAttribute("aria-valuenow", now.came);
    }
    const names = now.missing.map((place) => state.names[place]);
    byId("missing").classList.toggle("none", !names.length);
    say(this.who, listed(names, 7));
    this.who.title = names.slice(0, 200).join(", ");
  }

  /** The part that counts on between states. */
  tick(state, clock) {
    const { now } = state;
    if (now === null) return;
    const passed = Math.max(0, clock - now.start), late = known(now.expected_s) && passed > now.expected_s;
    put(this.expected, now.expected_s, known(now.expected_s) ? seconds(now.expected_s) : "");
    const lead = `open for ${seconds(passed)}`;
    if (!known(now.expected_s)) say(this.told, `${lead}; how long it should take is not known yet`);
    else say(this.told, late ? `${lead}, ${seconds(passed - now.expected_s)} longer than expected: ` : `${lead}, should end in ${seconds(now.expected_s - passed)}: expected `);
    this.ends.classList.toggle("overdue", late && passed > 2 * now.expected_s);
  }
}

class Head {
  constructor() {
    const find = (name) => document.querySelector(`.head [data-${name}]`);
    this.title = find("of='title'");
    this.clock = find("of='clock'");
    this.rounds = find("of='rounds'");
    this.rate = find("from='rate'");
    this.there = find("from='there'");
    this.status = byId("status");
    const part = (of, before, after = "") => {
      const value = make("span", { of }), whole = make("span", { name: "part" }, before, value, after);
      byId("setup").append(whole);
      return { value, whole };
    };
    this.setup = { cluster: part("cluster", ""), split: part("split", "split "), redundancy: part("redundancy", "redundancy ") };
  }

  show(state, rate) {
    put(this.title, state.title, state.title);
    if (document.title !== state.title) document.title = state.title;
    put(this.rounds, state.rounds, count(state.rounds));
    say(this.rate, number(rate));
    const there = state.workers.filter((worker) => worker.state !== "gone" && worker.state !== "starting").length;
    say(this.there, `${count(there)} of ${count(state.workers.length)}`);
    this.there.classList.toggle("fewer", state.workers.some((worker) => worker.state === "gone"));
    for (const [key, { value, whole }] of Object.entries(this.setup)) {
      const given = state[key];
      hide(whole, given === null || given === undefined || given === "");
      put(value, given, typeof given === "number" ? number(given) : given || "");
    }
  }

  tick(clock) {
    put(this.clock, clock, clockText(clock));
  }

  say(kind, text) {
    say(this.status, text);
    if (this.status.className !== `pill ${kind}`) this.status.className = `pill ${kind}`;
  }
}
