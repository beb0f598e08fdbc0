"use strict";
// What other strategies would have taken on the recorded times: asked for by a button, or given with a report.

class WhatIf {
  constructor(card, button, asked, ask) {
    Object.assign(this, { card, button, asked });
    button.addEventListener("click", () => this.fetch(ask));
  }

  async fetch(ask) {
    this.button.disabled = true;
    say(this.asked, "Replaying the recorded times …");
    try {
      const answer = await ask();
      if (answer.ok) {
        this.show(await answer.json());
        say(this.asked, "");
        this.card.scrollIntoView({ block: "nearest" });
      } else {
        say(this.asked, (await answer.text()).trim().slice(0, 300) || `No answer (${answer.status}).`);
      }
    } catch {
      say(this.asked, "No answer: the stream is not there any more.");
    }
    this.button.disabled = false;
  }

  show(found) {
    if (!found) return;
    const key = JSON.stringify(found);
    if (key === this.key) return;
    this.key = key;
    hide(this.card, false);
    say(this.card.querySelector("[data-of='what_if.sentence']"), found.sentence);
    const fastest = Math.max(...found.strategies.map((one) => one.seconds || 0), found.seconds || 0);
    const rows = found.strategies.map((one, i) => this.row(one, `what_if.strategies.${i}`, fastest));
    const was = this.row({ name: "as it was", family: "", seconds: found.seconds, saved: null, error: null }, null, fastest);
    was.className = "was";
    was.querySelector("td [data-value]").dataset.of = "what_if.seconds";
    const head = ["strategy", "would have taken", "saved"].map((text, i) => make("th", { scope: "col", text, name: i ? "" : "left", colspan: i === 1 ? 2 : 1 }));
    byId("strategies").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, was, ...rows)));
    this.showWaited(found);
    byId("notes").replaceChildren(...(found.notes || []).map((text, i) => make("li", { of: `what_if.notes.${i}`, text })));
  }

  row(one, of, most) {
    const cell = (key, text) => {
      const shown = make("span", of ? { of: `${of}.${key}` } : {});
      put(shown, one[key], text);
      return shown;
    };
    const bar = make("i"), error = known(one.error) && one.error > 0 ? make("span", { name: "soft", text: ` ± ${seconds(one.error)}` }) : "";
    fill(bar, known(one.seconds) ? one.seconds / most : 0);
    return make("tr", {},
      make("th", { scope: "row" }, cell("name", one.name), make("span", { name: "reason", text: one.family || "" })),
      make("td", { name: "left" }, make("span", { name: "mini" }, bar)),
      make("td", {}, cell("seconds", seconds(one.seconds)), error),
      make("td", {}, cell("saved", seconds(one.saved))));
  }

  showWaited(found) {
    const waited = (found.waited || []).map((one, i) => [one, i]).filter(([one]) => one.seconds > 0);
    const most = Math.max(1e-9, ...waited.map(([one]) => one.seconds));
    const rows = waited.slice(0, 8).map(([one, i]) => {
      const of = `what_if.waited.${i}`, bar = make("i"), time = make("span", { of: `${of}.seconds` });
      put(time, one.seconds, seconds(one.seconds));
      fill(bar, one.seconds / most);
      return make("li", {}, make("span", { of: `${of}.name`, text: one.name }), make("span", { name: "mini awaited_s" }, bar), time);
    });
    const said = make("p", { name: "soft says" }, "Replayed ", make("span", { of: "what_if.replayed", text: count(found.replayed) }), " of ",
      make("span", { of: "what_if.rounds", text: count(found.rounds) }), " rounds.");
    const listed = rows.length ? [make("h3", { text: "Rounds waited for" }), make("ol", { name: "waited" }, ...rows)] : [];
    byId("waited").replaceChildren(...listed, said);
  }
}
