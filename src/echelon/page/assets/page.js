"use strict";
// The page itself: takes states and rounds from the stream, or from the file it is, and has the parts show them.

class Page {
  constructor() {
    this.store = new Rounds();
    this.state = null;
    this.shown = null; // the state that is drawn: another than the latest while the page is paused
    this.link = "starting"; // starting, live, lost, file
    this.paused = false;
    this.dirty = false;
    readColours();
    this.lanes = new Lanes(this.store, byId("canvas"), byId("lanes"), byId("spacer"));
    this.moved = new Moved(this.lanes, byId("tip"), byId("spoken"), () => this.redraw());
    this.overview = new Overview(this.lanes, byId("overview"), this.moved);
    this.head = new Head();
    this.round = new RoundNow();
    this.workers = new Workers(byId("workers"), () => this.redraw());
    this.jobs = new Jobs(byId("jobs"));
    this.whatIf = new WhatIf(byId("what-if"), byId("ask"), byId("asked"), () => fetch(this.address("what-if")));
    this.listen();
    this.connect();
    setInterval(() => this.tick(), 250);
  }

  listen() {
    const on = (id, deed) => byId(id).addEventListener("click", deed);
    on("in", () => this.moved.zoom(1 / 1.6));
    on("out", () => this.moved.zoom(1.6));
    on("follow", () => this.moved.stay(!this.lanes.follow));
    on("pause", () => this.pause(!this.paused));
    on("theme", () => this.theme(this.dark() ? "light" : "dark"));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    new ResizeObserver(() => this.redraw()).observe(byId("main"));
    document.addEventListener("visibilitychange", () => this.redraw());
    document.addEventListener("keydown", (event) => {
      const free = !event.target.closest("input, textarea, select, pre") && !event.ctrlKey && !event.metaKey && !event.altKey;
      if (!free || (event.key === " " && event.target.closest("button, summary, a"))) return;
      const deeds = {
        " ": () => this.pause(!this.paused),
        "+": () => this.moved.zoom(1 / 1.6),
        "=": () => this.moved.zoom(1 / 1.6),
        "-": () => this.moved.zoom(1.6),
        f: () => this.moved.stay(!this.lanes.follow),
      };
      if (!(event.key in deeds) || (event.key === " " && byId("pause").hidden)) return;
      event.preventDefault();
      deeds[event.key]();
    });
    try {
      const kept = localStorage.getItem("echelon-theme");
      if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
    } catch {
      // a browser may forbid to keep anything
    }
    this.recolour();
  }

  dark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  }

  theme(name) {
    document.documentElement.dataset.theme = name;
    try {
      localStorage.setItem("echelon-theme", name);
    } catch {
      // as above
    }
    this.recolour();
  }

  recolour() {
    readColours();
    say(byId("theme"), this.dark() ? "Light" : "Dark");
    this.redraw();
  }

  /** Where the stream answers, with the token that this page was opened with. */
  address(path) {
    const token = new URLSearchParams(location.search).get("token");
    return token === null ? path : `${path}?token=${encodeURIComponent(token)}`;
  }

  connect() {
    const given = JSON.parse(byId("data").textContent);
    if (given !== null) {
      this.link = "file";
      byId("data").textContent = "null"; // read once; no need to hold it twice
      if (given.state) this.take(given.state);
      this.feed(given.rounds || []);
      return;
    }
    const source = new EventSource(this.address("events"));
    const heard = (kind, deed) => source.addEventListener(kind, (event) => {
      this.link = "live";
      deed(JSON.parse(event.data));
    });
    heard("state", (state) => this.take(state));
    heard("rounds", (rounds) => this.feed(rounds));
    heard("gap", (number) => this.store.missed(number));
    source.addEventListener("open", () => {
      this.link = "live";
      this.redraw();
    });
    source.addEventListener("error", () => {
      this.link = "lost";
      this.redraw();
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.connect(), 3000); // a refusal ends it; lost lines it mends itself
    });
  }

  /** A new state of the stream. */
  take(state) {
    if (this.state && state.rounds < this.state.rounds && state.clock < this.state.clock) this.store.clear(); // another stream at this address
    this.state = state;
    this.taken = performance.now();
    if (!this.paused || !this.shown) this.shown = state;
    this.redraw();
  }

  feed(rounds) {
    this.store.add(rounds);
    this.redraw();
  }

  pause(paused) {
    this.paused = paused;
    this.pausedAt = this.clock();
    this.store.pause(paused);
    if (!paused) this.shown = this.state;
    this.redraw();
  }

  /** The clock of the stream now, counted on since its last state. */
  clock() {
    const state = this.shown;
    if (!state) return 0;
    if (this.paused) return this.pausedAt;
    const on = state.running && !state.over && this.link === "live" ? (performance.now() - this.taken) / 1000 : 0;
    return state.clock + on;
  }

  tick() {
    if (!document.hidden && !this.paused && this.shown && this.shown.running && !this.shown.over && this.link === "live") this.redraw();
  }

  redraw() {
    if (this.dirty || document.hidden) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      this.draw();
    });
  }

  draw() {
    this.tell();
    const state = this.shown;
    if (!state) return;
    const clock = this.clock();
    if (this.drawn !== state) {
      this.drawn = state;
      document.body.classList.toggle("running", state.running && !state.over); // room for a round that may open
      this.head.show(state, state.over ? (state.clock > 0 ? state.rounds / state.clock : null) : this.store.rate(state.clock, 10));
      this.round.show(state);
      const advice = document.querySelector("[data-of='advice']");
      say(advice, state.advice || "Nothing to advise yet: too few rounds have ended.");
      this.whatIf.show(state.what_if);
      hide(this.whatIf.button, this.link === "file");
      this.showChronic(state);
      this.jobs.show(state.jobs);
      showMarks(byId("marks"), state.marks);
      this.countJobs(state.queue);
    }
    this.workers.show(state.workers);
    showHistogram(byId("round_s"), state.round_s, "time from start to end of a round");
    showHistogram(byId("delay_s"), state.delay_s, "time from arrival to delivery of a job");
    showQueue(byId("queue"), state.queue, clock);
    showPrice(byId("price"), state.price);
    showErrors(byId("errors"), state.errors);
    this.head.tick(clock);
    // states come four times a second: only a round that lasts longer than that is counted on between them
    const still = performance.now() - this.taken > 600 || !(state.now && state.now.expected_s < 0.5);
    const counted = still ? clock : Math.min(clock, state.clock);
    this.round.tick(state, counted);
    this.lanes.draw(state, clock);
    this.overview.draw(clock);
    say(document.querySelector("[data-from='span']"), `${seconds(this.lanes.view.to - this.lanes.view.from)} in view`);
    this.label();
  }

  /** What the page is: live, over, paused, lost. */
  tell() {
    const over = this.state && this.state.over;
    if (over) this.head.say("over", "over");
    else if (this.link === "lost") this.head.say("lost", "connection lost");
    else if (this.paused) this.head.say("paused", "paused");
    else if (this.link === "live" && this.state) this.head.say("live", "live");
    else this.head.say("starting", this.link === "file" ? "record" : "connecting");
    const notice = byId("notice");
    const missed = this.state ? this.state.lost : 0;
    hide(notice, !missed && (over || this.link !== "lost"));
    if (missed) say(notice, `So much happened that the page could not keep up: ${count(missed)} messages and other events are missing in its counts. A record has them all.`);
    else if (!notice.hidden) say(notice, this.state ? "The stream is not there any more; what it last said stays." : "The stream does not answer: it is over, or the address lacks its token.");
    hide(byId("pause"), this.link === "file" || Boolean(over && !this.paused));
    for (const [id, pressed, text] of [["pause", this.paused, this.paused ? "Go on" : "Pause"], ["follow", this.lanes.follow, null]]) {
      const button = byId(id);
      if (button.getAttribute("aria-pressed") !== String(pressed)) button.setAttribute("aria-pressed", pressed);
      if (text) say(button, text);
    }
  }

  showChronic(state) {
    const late = state.workers.map((worker, place) => [worker, place]).filter(([worker]) => worker.kind === "chronic");
    const names = late.map(([worker]) => `${worker.name} (${atLeast(worker)}${number(worker.score)})`);
    say(byId("chronic"), names.length ? `Chronically late: ${listed(names, 6)}.` : state.workers.some((worker) => worker.kind) ? "Nobody is chronically late." : "");
    byId("chronic").classList.toggle("some", names.length > 0);
  }

  countJobs(queue) {
    const host = byId("job-counts"), keys = ["submitted", "open", "done", "failed", "cancelled"];
    if (!host.children.length) host.append(...keys.map((key) => make("span", { name: "part" }, make("span", { of: `queue.${key}` }), ` ${key}`)));
    keys.forEach((key, i) => {
      const value = host.children[i].firstChild;
      if (key === "open") value.dataset.of = "queue.open";
      put(value, queue[key], count(queue[key]));
      hide(host.children[i], !queue[key] && key !== "submitted");
    });
  }

  /** The words for the lanes, not more often than somebody could listen to. */
  label() {
    const now = performance.now();
    if (this.labelled && now - this.labelled < 1500 && this.link === "live") return;
    this.labelled = now;
    const told = toldView(this.lanes);
    if (this.lanes.canvas.getAttribute("aria-label") !== told) this.lanes.canvas.setAttribute("aria-label", told);
  }
}

const page = new Page();
window.echelon = {
  page,
  get state() {
    return page.state;
  },
};
