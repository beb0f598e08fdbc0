"use strict";
// What lanes tell in words: of the stretch under the pointer, of the round that the keyboard points at, of all in view.

const USES = ["useful", "late", "purged"];

/** What one worker did in one round: [title, lines]. */
function toldRound(state, round, place, title) {
  const rows = [0, 0, 0], spent = [0, 0, 0];
  if (place < round.places) {
    for (let i = round.from[place]; i < round.from[place + 1]; i += 1) {
      rows[round.use[i]] += round.rows[i];
      spent[round.use[i]] += round.stop[i] - round.begin[i];
    }
  }
  const digits = Math.max(1, Math.min(6, 2 - Math.floor(Math.log10(Math.max(1e-6, round.end - round.start)))));
  const lines = [
    `round ${count(round.n)}: ${round.name}, iteration ${count(round.iteration)}`,
    `${round.start.toFixed(digits)} to ${round.end.toFixed(digits)} s, ${seconds(round.end - round.start)}`,
  ];
  for (const use of [USEFUL, LATE, PURGED]) {
    if (rows[use]) lines.push(`${USES[use]}: ${count(rows[use])} ${rows[use] === 1 ? "row" : "rows"} in ${seconds(spent[use])}`);
  }
  if (rows[0] + rows[1] + rows[2] === 0) lines.push("no work in this round");
  if (round.gap) lines.push(`${count(round.gap)} rounds before it are not shown`);
  return [title || state.names[place], lines];
}

/** What is at a point of the canvas: [title, lines], or null. */
function toldPoint(lanes, x, y) {
  const { state } = lanes, time = lanes.time(x);
  if (!state || x < lanes.gutter) return null;
  for (const mark of state.marks) {
    const at = mark.place === null ? TOP / 2 : lanes.y(mark.place) + lanes.lane / 2;
    if (Math.hypot(lanes.x(mark.time) - x, at - y) < 9) return [mark.text, [`at ${mark.time.toFixed(2)} s`]];
  }
  const place = lanes.placeAt(y);
  if (place === null) return null;
  let within = null;
  for (const round of lanes.rounds || []) {
    if (time >= round.start && time <= round.end) within = round;
    if (place >= round.places) continue;
    for (let i = round.from[place]; i < round.from[place + 1]; i += 1) {
      if (time >= round.start + round.begin[i] && time <= round.start + round.stop[i]) {
        return toldRound(state, round, place, `${state.names[place]}: ${USES[round.use[i]]}`);
      }
    }
  }
  if (within) return toldRound(state, within, place, `${state.names[place]}: idle`);
  const now = state.now;
  if (now && time >= now.start) {
    const out = now.missing.includes(place) ? "rows are still out" : "all its rows are in";
    return [state.names[place], [`the open round: ${now.name}, iteration ${count(now.iteration)}`, out]];
  }
  return null;
}

/** All in view, for those who do not see it. */
function toldView(lanes) {
  const { state, view } = lanes, rounds = lanes.rounds || [], spent = [0, 0, 0];
  for (const round of rounds) {
    for (let i = 0; i < round.use.length; i += 1) spent[round.use[i]] += round.stop[i] - round.begin[i];
  }
  const worked = spent[0] + spent[1] + spent[2];
  const marks = state.marks.filter((mark) => mark.time >= view.from && mark.time <= view.to);
  const shares = worked ? `; of the work ${USES.map((use, i) => `${percent(spent[i] / worked)} ${use}`).join(", ")}` : "";
  const seen = marks.length ? `; ${marks.slice(-5).map((mark) => mark.text).join("; ")}` : "";
  return (
    `Lanes of ${count(state.names.length)} workers, ${Math.max(0, view.from).toFixed(2)} to ${view.to.toFixed(2)} s: ` +
    `${count(rounds.length)} rounds${shares}${seen}`
  );
}
