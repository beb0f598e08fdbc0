"use strict";
// The table of workers, the jobs, and what happened. Rows are made once, by place or number, and change in place.

const COLUMNS = [
  // key, title, how it is said, what a bar is relative to, what it means
  ["name", "worker", null, null, "and what it is doing"],
  ["pace_s", "per row", (value, worker) => atLeast(worker) + seconds(value), null, "usual time for one row; at least, where none was ever finished"],
  ["score", "score", (value, worker) => atLeast(worker) + number(value), "score", "usual time over that of the fastest: 1.3 takes 30 % longer"],
  ["own", "own", (value) => number(value), null, "usual time lately over that in its best stretch"],
  ["kind", "lateness", (value) => value || NONE, null, "once, at times or chronic"],
  ["used", "used", count, null, "rows that results were made of"],
  ["late", "late", count, null, "rows that came when others had sent enough"],
  ["purged", "purged", count, null, "rows dropped before they were done"],
  ["wrong", "wrong", count, null, "results that were found to be wrong"],
  ["losses", "losses", count, null, "times that a worker at this place was lost"],
  ["awaited_s", "awaited", seconds, "awaited_s", "time that rounds waited for it"],
  ["busy", "busy", percent, "whole", "share of its time in which it computed"],
];
const STATES = { "at work": "work", idle: "idle", starting: "starting", gone: "gone" };

/** Before what is known of a worker that was always cut short. */
function atLeast(worker) {
  return worker.at_least ? "≥ " : "";
}

class Workers {
  constructor(table, changed) {
    Object.assign(this, { table, changed });
    this.key = null; // by place
    this.down = false;
    this.rows = [];
    this.heads = COLUMNS.map(([key, title, , , meaning]) => {
      const button = make("button", { type: "button", text: title, title: meaning });
      button.addEventListener("click", () => this.sortBy(key));
      return make("th", { scope: "col", "aria-sort": "none", name: key === "name" || key === "kind" ? "left" : "" }, button);
    });
    this.body = make("tbody");
    table.append(make("thead", {}, make("tr", {}, ...this.heads)), this.body);
  }

  sortBy(key) {
    if (this.key !== key) [this.key, this.down] = [key, key !== "name" && key !== "kind"];
    else if (this.down === (key !== "name" && key !== "kind")) this.down = !this.down;
    else this.key = null;
    this.heads.forEach((head, i) => head.setAttribute("aria-sort", COLUMNS[i][0] === this.key ? (this.down ? "descending" : "ascending") : "none"));
    this.changed();
  }

  row(place) {
    const cells = COLUMNS.map(([key, , , relative]) => {
      const shown = make("span", { of: `workers.${place}.${key}` });
      if (key === "name") {
        const state = make("span", { name: "hidden", of: `workers.${place}.state` }), reason = make("span", { name: "reason", of: `workers.${place}.reason` });
        return { shown, state, reason, dot: make("i", { name: "dot" }), cell: make("th", { scope: "row" }) };
      }
      const bar = relative ? make("i") : null;
      const cell = make("td", { name: key === "kind" ? "left" : "" }, ...(bar ? [make("span", { name: `mini ${key}` }, bar)] : []), shown);
      return { shown, bar, cell };
    });
    const first = cells[0];
    first.cell.append(first.dot, first.shown, first.state, first.reason);
    return { node: make("tr", {}, ...cells.map((cell) => cell.cell)), cells };
  }

  show(workers) {
    while (this.rows.length < workers.length) this.rows.push(this.row(this.rows.length));
    // a bar of a score is what it is above that of the fastest
    const greatest = (key) => workers.reduce((most, worker) => Math.max(most, worker[key] || 0), 1e-9);
    const shares = { whole: (share) => share, score: (score) => (score - 1) / Math.max(0.5, greatest("score") - 1), awaited_s: (time) => time / greatest("awaited_s") };
    workers.forEach((worker, place) => {
      const { node, cells } = this.rows[place];
      COLUMNS.forEach(([key, , text, relative], i) => {
        put(cells[i].shown, worker[key], text ? text(worker[key], worker) : worker[key]);
        if (relative) fill(cells[i].bar, known(worker[key]) ? shares[relative](worker[key]) : 0);
      });
      const name = `${STATES[worker.state] || ""} ${worker.kind === "chronic" ? "chronic" : ""}`;
      if (node.className !== name) node.className = name;
      say(cells[0].state, worker.state);
      cells[0].cell.title = worker.state;
      say(cells[0].reason, worker.state === "gone" ? worker.reason || "gone" : worker.state === "starting" ? "starting" : "");
    });
    this.order(workers);
  }

  order(workers) {
    const places = workers.map((_, place) => place);
    if (this.key) {
      const way = this.down ? -1 : 1, key = this.key;
      places.sort((a, b) => {
        const left = workers[a][key], right = workers[b][key];
        if (left === null || right === null) return (left === null) - (right === null) || a - b;
        if (typeof left === "string") return way * left.localeCompare(right, undefined, { numeric: true }) || a - b;
        return way * (left - right) || a - b;
      });
    }
    const wanted = places.map((place) => this.rows[place].node);
    if (wanted.length !== this.body.children.length || wanted.some((node, i) => this.body.children[i] !== node)) this.body.replaceChildren(...wanted);
  }
}

const MOST_JOBS = 120;

class Jobs {
  constructor(host) {
    this.host = host;
    this.rows = new Map();
    this.rest = make("p", { name: "soft empty" });
  }

  row(at, job) {
    const id = `jobs.${at}`;
    const row = {
      at,
      number: make("span", { name: "soft", of: `${id}.job` }), name: make("strong", { of: `${id}.name` }), state: make("span", { name: "pill", of: `${id}.state` }),
      bar: make("i"), done: make("span", { of: `${id}.iteration` }), of: make("span", { of: `${id}.iterations` }), eta: make("span", { of: `${id}.eta_s` }),
      times: make("span", { name: "soft" }), error: null,
    };
    row.whole = make("span", {}, make("span", { name: "soft", text: " of " }), row.of);
    row.left = make("span", {}, row.eta, make("span", { name: "soft", text: " left" }));
    row.track = make("div", { name: "bar", role: "img" }, row.bar);
    row.node = make("div", { name: "job" },
      make("div", { name: "job-name" }, row.number, row.name),
      row.state,
      row.track,
      make("div", { name: "job-done" }, row.done, row.whole, make("span", { name: "soft", text: " iterations" })),
      make("div", { name: "job-time" }, row.left, row.times));
    return row;
  }

  /** Where a job lies in the list changes when others end; what its values are called changes with it. */
  renumber(row, at) {
    if (row.at === at) return;
    row.at = at;
    for (const node of row.node.querySelectorAll("[data-of]")) node.dataset.of = node.dataset.of.replace(/^jobs\.\d+/, `jobs.${at}`);
  }

  show(jobs) {
    const shown = jobs.slice(0, MOST_JOBS), seen = new Set();
    const nodes = shown.map((job, at) => {
      let row = this.rows.get(job.job);
      if (!row) this.rows.set(job.job, (row = this.row(at, job)));
      seen.add(job.job);
      this.renumber(row, at);
      this.update(row, job);
      return row.node;
    });
    for (const key of this.rows.keys()) if (!seen.has(key)) this.rows.delete(key);
    say(this.rest, jobs.length ? `${count(jobs.length - shown.length)} more jobs are not listed.` : "No job has been submitted yet.");
    if (jobs.length > shown.length || !jobs.length) nodes.push(this.rest);
    if (nodes.length !== this.host.children.length || nodes.some((node, i) => this.host.children[i] !== node)) this.host.replaceChildren(...nodes);
  }

  update(row, job) {
    put(row.number, job.job, count(job.job));
    put(row.name, job.name, job.name);
    put(row.state, job.state, job.state);
    if (row.state.className !== `pill ${job.state}`) row.state.className = `pill ${job.state}`;
    const share = job.iterations ? job.iteration / job.iterations : job.state === "done" ? 1 : 0;
    fill(row.bar, share);
    row.track.classList.toggle("unknown", !job.iterations && job.state === "running");
    row.track.setAttribute("aria-label", job.iterations ? percent(share) : "length unknown");
    put(row.done, job.iteration, count(job.iteration));
    put(row.of, job.iterations, count(job.iterations));
    hide(row.whole, !known(job.iterations));
    put(row.eta, job.eta_s, seconds(job.eta_s));
    hide(row.left, !known(job.eta_s));
    say(row.times, known(job.ended) ? `took ${seconds(job.ended - job.arrived)}` : known(job.eta_s) ? "" : `since ${clockText(job.arrived)}`);
    if (job.error && !row.error) {
      row.error = { last: make("summary"), text: make("pre", { of: `jobs.${row.at}.error`, tabindex: "0" }) };
      row.node.append(make("details", {}, row.error.last, row.error.text));
    }
    if (row.error && job.error) {
      say(row.error.text, job.error);
      const lines = job.error.trim().split("\n");
      say(row.error.last, lines[lines.length - 1].slice(0, 300));
    }
  }
}

/** What happened, latest first. */
function showMarks(host, marks) {
  const key = marks.length ? `${marks.length} ${marks[marks.length - 1].time} ${marks[marks.length - 1].text}` : "none";
  if (host.shownKey === key) return;
  host.shownKey = key;
  if (!marks.length) {
    host.replaceChildren(make("li", { name: "soft", text: "Nothing out of the ordinary." }));
    return;
  }
  const last = marks.length - 1;
  host.replaceChildren(...marks.map((_, i) => {
    const at = last - i, mark = marks[at];
    return make("li", {}, make("i", { name: `sign ${mark.kind}` }), make("span", { of: `marks.${at}.text`, text: mark.text }),
      make("span", { name: "soft when", of: `marks.${at}.time`, text: clockText(mark.time) }));
  }));
}
