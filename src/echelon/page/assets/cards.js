"use strict";
// The cards with small pictures: histograms, queue, price, errors. Each is built once; then only its values change.

/** A card's parts, made on the first call: a picture, a row of facts, a sentence. */
function parts(host, facts, { before = [] } = {}) {
  if (!host.parts) {
    const shown = make("div", { name: "picture" }), said = make("p", { name: "soft says" }), list = make("dl", { name: "facts" });
    const cells = {};
    for (const [key, title] of facts) {
      cells[key] = make("dd", { of: `${host.id}.${key}`, text: NONE });
      list.append(make("div", {}, make("dt", { text: title }), cells[key]));
    }
    const empty = make("p", { name: "soft empty", text: "Nothing has been measured yet." });
    host.append(...before, shown, empty, list, said);
    host.parts = { shown, said, list, cells, empty };
  }
  return host.parts;
}

function swatches(...named) {
  return make("ul", { name: "legend" }, ...named.map(([name, text, of]) => {
    const words = make("span", of ? { of, text } : { text });
    return make("li", {}, make("i", { name: `sw ${name}` }), words);
  }));
}

function hide(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

function showHistogram(host, seen, title) {
  const before = host.parts ? [] : [swatches(["bars", "measured"], ["law", "", `${host.id}.says`])];
  const { shown, said, list, cells, empty } = parts(host, [["mean", "mean"], ["p50", "half within"], ["p95", "95 % within"], ["count", "measured"]], { before });
  const some = seen !== null && seen.count > 0;
  hide(host.firstChild, !some);
  hide(shown, !some);
  hide(list, !some);
  hide(empty, some);
  hide(said, true);
  if (!some) return;
  for (const key of ["mean", "p50", "p95"]) put(cells[key], seen[key], seconds(seen[key]));
  put(cells.count, seen.count, count(seen.count));
  const law = host.querySelector(".legend li:last-child");
  hide(law, !seen.says);
  law.firstChild.className = seen.law ? "sw law" : "hidden";
  say(law.lastChild, seen.says || "");
  const label = `Histogram of ${count(seen.count)} values, mean ${seconds(seen.mean)}, 95 % within ${seconds(seen.p95)}`;
  picture(shown, [seen.edges, seen.counts, seen.law], label, (node, width) => drawHistogram(node, width, seen, title));
}

function showQueue(host, queue, clock) {
  const { shown, said, cells, empty } = parts(host, [
    ["open", "open now"], ["arrivals_per_s", "arrivals a second"], ["service_s", "a job takes"], ["load", "load"],
  ], { before: host.parts ? [] : [swatches(["bars", "open jobs"])] });
  put(cells.open, queue.open, count(queue.open));
  put(cells.arrivals_per_s, queue.arrivals_per_s, number(queue.arrivals_per_s));
  put(cells.service_s, queue.service_s, seconds(queue.service_s));
  put(cells.load, queue.load, percent(queue.load));
  said.dataset.of = "queue.says";
  say(said, queue.says || "");
  const some = queue.series.length > 0;
  hide(host.firstChild, !some);
  hide(shown, !some);
  hide(empty, some);
  if (!some) return;
  const from = queue.series[0][0], last = queue.series[queue.series.length - 1], until = Math.max(last[0], Math.floor(clock), from + 1e-3);
  const points = [...queue.series, [until, last[1]]], most = Math.max(...points.map((point) => point[1]));
  picture(shown, points, `Open jobs over time: now ${count(queue.open)}, at most ${count(most)}`, (node, width) =>
    drawSeries(node, width, [{ points, name: "line a", area: true }], timeAxis(from, until, "the stream's clock", width / 70), wholeAxis(most), { steps: true }));
}

function showPrice(host, price) {
  if (!host.rows) {
    host.rows = ["s", "bytes"].map((unit) => {
      const bar = make("div", { name: "stacked", role: "img" });
      const uses = unit === "s" ? [["useful_s", "useful"], ["late_s", "late"], ["purged_s", "purged", "cut"]] : [["useful_bytes", "useful"], ["wasted_bytes", "wasted", "late"]];
      const facts = make("dl", { name: "facts" }), cells = {};
      for (const [key, title, swatch] of uses) {
        cells[key] = make("dd", { of: `price.${key}` });
        facts.append(make("div", {}, make("dt", {}, make("i", { name: `sw ${swatch || title}` }), title), cells[key]));
      }
      const share = make("span", { name: "soft", from: `wasted_${unit}` });
      const row = make("div", { name: "price" }, make("p", { name: "line" }, make("strong", { text: unit === "s" ? "Time of workers" : "Bytes sent" }), " ", share), bar, facts);
      host.append(row);
      return { unit, row, bar, uses, cells, share };
    });
    host.said = make("p", { name: "soft says", of: "price.says" });
    host.append(host.said);
  }
  for (const { unit, row, bar, uses, cells, share } of host.rows) {
    const values = uses.map(([key]) => price[key]);
    hide(row, values.every((value) => !known(value)));
    const whole = stacked(bar, uses.map(([key, name, swatch]) => ({ name: swatch || name, value: price[key] || 0 })));
    for (const [key] of uses) put(cells[key], price[key], unit === "s" ? seconds(price[key]) : bytes(price[key]));
    const told = whole ? `${percent(1 - (values[0] || 0) / whole)} was not needed` : "nothing yet";
    say(share, told);
    if (bar.getAttribute("aria-label") !== told) bar.setAttribute("aria-label", told);
  }
  say(host.said, price.says || "");
}

function showErrors(host, errors) {
  const before = host.parts ? [] : [swatches(["line-b", "residual: how far from the exact result"], ["line-a", "decoding: rounding, estimated"])];
  const { shown, cells, empty, said, list } = parts(host, [
    ["residual", "residual, last"], ["residual_most", "most"], ["decoding", "decoding, last"], ["decoding_most", "most"],
  ], { before });
  const some = errors.series.length > 0;
  for (const key of ["residual", "residual_most", "decoding", "decoding_most"]) put(cells[key], errors[key], scientific(errors[key]));
  const positive = errors.series.flatMap((point) => point.slice(1)).filter((value) => known(value) && value > 0);
  hide(shown, !positive.length);
  hide(host.firstChild, !positive.length);
  hide(list, !some && !known(errors.residual));
  hide(empty, some);
  say(said, some && !errors.series.some((point) => point[1] > 0) ? "Every result so far is exact: no residual." : "");
  if (!positive.length) return;
  const low = Math.floor(Math.log10(Math.min(...positive))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...positive))));
  const decades = [], stride = Math.max(1, Math.ceil((high - low) / 4));
  for (let power = low; power <= high; power += stride) decades.push(power);
  const y = { low, high, ticks: decades, say: (power) => `1e${power}`.replace("-", "−") };
  const lines = [[1, "line b"], [2, "line a"]].map(([at, name]) => ({
    name,
    points: errors.series.filter((point) => point[at] > 0).map((point) => [point[0], Math.log10(point[at])]),
  }));
  const from = errors.series[0][0], until = Math.max(errors.series[errors.series.length - 1][0], from + 1e-3);
  picture(shown, errors.series, `Errors over time: last residual ${scientific(errors.residual)}, last of decoding ${scientific(errors.decoding)}`, (node, width) =>
    drawSeries(node, width, lines, timeAxis(from, until, "the stream's clock", width / 70), y));
}
