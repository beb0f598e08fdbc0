"""The page in a real browser: what eight live workers do is seen, as the record says it, and nothing else is loaded."""

import json
import re
from urllib.parse import urlsplit

import pytest

from echelon.page.board import Board
from echelon.page.one_file import html
from echelon.stream import read_record
from tests.page import states
from tests.page.eight import SLOW, Tab, browser_path, browsing, eight, job, kill

pytestmark = pytest.mark.skipif(browser_path() is None, reason="no browser here; Debian's package is 'chromium'")

HOSTILE = "<img src=x onerror=alert(1)>"
# the value that each visible element says it shows, beside the one that the state has at that path
DIFFERING = """() => {
  const state = window.echelon.state, found = [];
  for (const node of document.querySelectorAll("[data-of]")) {
    if (node.dataset.value === undefined || !node.checkVisibility()) continue;
    const value = node.dataset.of.split(".").reduce((of, key) => of === null || of === undefined ? of : of[key], state);
    const raw = value === null || value === undefined ? "" : String(value);
    if (raw !== node.dataset.value) found.push([node.dataset.of, raw, node.dataset.value]);
  }
  return found;
}"""
# contrast of texts with what lies behind them, as WCAG has it: [ratio, text] of the least
CONTRAST = """() => {
  const parsed = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (colour) => colour.slice(0, 3).map((c) => linear(c / 255))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parsed(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
      if (colour[3] > 0) return behind(at.parentElement).map((c, i) => colour[i] * colour[3] + c * (1 - colour[3]));
    }
    return [255, 255, 255];
  };
  let least = [21, ""];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest(".hidden, .skip, noscript, script, style, svg")) continue;
    const [a, b] = [light(parsed(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < least[0]) least = [(a + 0.05) / (b + 0.05), node.textContent.trim()];
  }
  return least;
}"""


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


@pytest.fixture
def file(tmp_path):
    """Write a page that is one file, of a run that is made up; return its address."""

    def written(**options):
        data = states.run(**options)
        path = tmp_path / "report.html"
        path.write_text(html(data, title=data["state"]["title"]), encoding="utf-8")
        return path.as_uri(), data

    return written


def test_kills_a_slow_worker_and_the_round_now_are_seen_and_all_numbers_are_those_of_the_record(browser, tmp_path):
    path = tmp_path / "run.jsonl"
    stream, cluster = eight(record=path)
    with stream:
        origin = "http://" + urlsplit(stream.page_url).netloc
        tab = Tab(browser, stream.page_url)
        for number in range(2):
            stream.submit(job(f"short {number}", 5))
        long = stream.submit(job(HOSTILE, 100_000))
        tab.until("(state, name) => state.now !== null && state.now.name === name", HOSTILE)
        tab.until("(state, slow) => state.workers[slow].kind === 'chronic' && state.workers[slow].score > 2", SLOW)
        tab.frames()
        chronic = tab.page.locator("#workers tr.chronic [data-of$=name]").all_text_contents()
        assert tab.state()["names"][SLOW] in chronic  # on a busy machine, others may be late as well
        first = tab.state()["now"]["iteration"]
        tab.until("(state, first) => state.now !== null && state.now.iteration > first", first)
        tab.frames()
        shown = tab.shown()
        assert int(shown["now.iteration"]["value"]) > first
        assert shown["now.needed"]["text"] == "24"
        assert shown["now.name"]["text"] == HOSTILE
        for count, victim in enumerate((2, 6), 1):
            kill(cluster, victim)
            tab.until(
                "(state, count, place) => state.marks.filter(mark => mark.kind === 'down').length === count"
                " && state.workers[place].losses === 1 && state.workers[place].state !== 'gone'",
                count, victim,
            )  # fmt: skip
        tab.frames()
        assert [tab.shown()[f"workers.{place}.losses"]["text"] for place in range(8)] == list("00100010")
        dark = Tab(browser, stream.page_url, scheme="dark")
        dark.until("state => state.rounds > 0")
        dark.page.click("#ask")
        dark.until("state => state.what_if !== null")
        dark.frames()
        assert dark.page.is_visible("#strategies table")
        assert [*map(background, (tab, dark))] == ["light", "dark"]
        long.cancel()
        assert [done.error for done in stream] == [None] * 2
    for one in (tab, dark):
        one.until("state => state.over")
        one.frames()
        assert one.page.text_content("#status") == "over"
        assert one.page.evaluate(DIFFERING) == []
        assert one.complaints == []
        assert {re.sub(r"\?.*", "", url) for url in one.asked} <= {
            f"{origin}{name}" for name in ("/", "/events", "/what-if")
        }
    board = Board()
    for line in path.read_text().splitlines():
        board.take(json.loads(line))
    kept, state = json.loads(json.dumps(board.state())), tab.state()
    for told in ("title", "clock", "cluster", "what_if"):
        kept.pop(told), state.pop(told)
    for mark in (*kept["marks"], *state["marks"]):  # the page has all digits, the record some
        mark["time"] = round(mark["time"], 6)
    assert state == kept
    record, shown = read_record(path), tab.shown()
    assert int(shown["rounds"]["value"]) == len(record.rounds)
    assert [int(shown[f"workers.{place}.losses"]["value"]) for place in range(8)] == [
        sum(where == place for _, where in record.losses) for place in range(8)
    ]
    came = [sum(message[0] == place for seen in record.rounds for message in seen.messages) for place in range(8)]
    told = {name: [int(shown[f"workers.{place}.{name}"]["value"]) for place in range(8)] for name in ("used", "late")}
    assert [sum(both) for both in zip(*told.values(), strict=True)] == came


def background(tab):
    """Return whether a tab is light or dark, by what one sees."""
    red, green, blue = map(
        int, re.findall(r"\d+", tab.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    )
    return "light" if red + green + blue > 3 * 200 else "dark" if red + green + blue < 3 * 60 else "neither"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_opens_from_disk_and_shows_its_numbers(browser, file, scheme):
    url, data = file(workers=8, slow=3, killed={5: 60, 6: 100}, back=(6,), failed=1)
    tab = Tab(browser, url, scheme=scheme)
    tab.frames()
    assert tab.asked == [url]
    assert tab.complaints == []
    assert tab.state() == json.loads(json.dumps(data["state"]))
    assert tab.page.evaluate(DIFFERING) == []
    shown = tab.shown()
    for place, worker in enumerate(data["state"]["workers"]):
        assert shown[f"workers.{place}.name"]["text"] == worker["name"]
        assert shown[f"workers.{place}.used"]["text"].replace("\u202f", "") == str(worker["used"])
        assert float(shown[f"workers.{place}.score"]["text"]) == pytest.approx(worker["score"], rel=6e-3)
    assert background(tab) == scheme
    ratio, text = tab.page.evaluate(CONTRAST)
    assert ratio >= 4.5, text
    tab.page.click("#theme")
    tab.frames()
    assert background(tab) != scheme


def test_what_users_call_things_stays_text_in_a_browser(browser, file):
    url, data = file(workers=4, rounds=30, hostile=True, failed=1)
    tab = Tab(browser, url)
    tab.frames()
    assert tab.complaints == []
    assert tab.asked == [url]
    assert tab.shown()["workers.0.name"]["text"] == data["state"]["names"][0]
    assert tab.page.evaluate("document.querySelectorAll('img').length") == 0
    assert tab.page.title() == data["state"]["title"]


def test_lanes_are_drawn_in_their_colours_and_moved_by_keys(browser, file):
    url, _ = file(workers=6, rounds=12, jobs=2, slow=2, killed={4: 8})
    tab = Tab(browser, url)
    tab.frames()
    drawn = set(map(tuple, tab.page.evaluate(
        """() => {
          const canvas = document.getElementById("canvas"), found = new Set();
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          for (let i = 0; i < data.length; i += 4) found.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
          return [...found].map((one) => one.split(",").map(Number));
        }"""
    )))  # fmt: skip
    colours = tab.page.evaluate(
        "['useful', 'useful-b', 'late', 'cut', 'lost'].map((name) => paint[name].match(/\\d+/g).map(Number))"
    )
    assert set(map(tuple, colours)) <= drawn
    view = "[page.lanes.view.from, page.lanes.view.to]"
    begin, end = tab.page.evaluate(view)
    tab.page.keyboard.press("+")
    tab.frames()
    closer = tab.page.evaluate(view)
    assert closer[1] - closer[0] == pytest.approx((end - begin) / 1.6, rel=0.05)
    tab.page.focus("#canvas")
    tab.page.keyboard.press("ArrowLeft")
    tab.frames()
    assert tab.page.evaluate(view)[0] < closer[0]
    for key in (",", "ArrowUp"):
        tab.page.keyboard.press(key)
    tab.frames()
    assert tab.page.text_content("#spoken").strip() != ""
    assert tab.complaints == []


def test_small_screens_need_no_scrolling_to_the_side(browser, file):
    url, _ = file(workers=12, slow=3, killed={5: 60})
    for width in (320, 400, 768):
        tab = Tab(browser, url, width=width, height=700)
        tab.frames()
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.complaints == []


def test_a_page_whose_stream_is_gone_says_so_and_keeps_what_it_showed(browser):
    stream, _ = eight()
    with stream:
        stream.submit(job("a", 3)).result()
        tab = Tab(browser, stream.page_url)
        tab.until("state => state.queue.done === 1")
        url = stream.page_url
    tab.until("state => state.over")
    tab.frames()
    assert tab.page.text_content("#status") == "over"
    assert tab.shown()["rounds"]["text"] == "3"
    with pytest.raises(Exception, match="ERR_CONNECTION_REFUSED"):
        tab.page.goto(url)
