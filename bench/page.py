"""The page of a stream: how soon things are seen in a browser, what 100 000 rounds take, and what it costs the stream.

    python -m bench.page --pictures docs

also takes pictures of a run on eight workers, light and dark. All of it needs a browser.
"""

import argparse
import resource
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import echelon as ec
from bench.emulated import cluster, equal
from bench.results import markdown_table
from tests.page.asked import Events, answer, connected
from tests.page.eight import SLOW, Tab, browser_path, browsing, eight, job, kill

KILLS = 5
LONG = 100_000  # rounds
PARTS = 16  # of the streams that are compared
COMPARED = (0.01, 50, 24), (0.1, 10, 12)  # seconds of a part, rounds of a turn, turns
READERS = 10


def report() -> str:
    if browser_path() is None:
        return "Not measured: there is no browser here."
    with browsing() as browser:
        return "\n\n".join([_seen(browser), _long(browser), *(_slower(browser, *each) for each in COMPARED)])


# how soon


def _seen(browser: Any) -> str:
    found: dict[str, list[float]] = {"the kill of a worker": [], "its successor": [], "the next round": []}
    stream, workers = eight()
    with stream:
        long = stream.submit(job("fit", 10**6))
        tab = Tab(browser, stream.page_url)
        tab.until("state => state.rounds > 0")
        found["the slow worker's score, from the first round on"] = [_lasted(_is_chronic, tab)]
        for number in range(KILLS):
            place = (number + SLOW + 1) % 8
            found["the kill of a worker"].append(_lasted(_killed, tab, workers, place))
            found["its successor"].append(_lasted(_there, tab, place))
            found["the next round"].append(_lasted(_goes_on, tab))
        long.cancel()
    rows = [[name, f"{statistics.median(each):.2f}", f"{max(each):.2f}"] for name, each in found.items()]
    return (
        f"Eight worker processes, one three times as slow, {KILLS} of them killed; seconds until the page in a browser "
        "(Chromium without a window) shows it. Wanted: 2 at most.\n\n"
        + markdown_table(["what", "median", "longest"], rows)
    )


def _lasted(deed: Callable[..., object], *values: Any) -> float:
    begin = time.perf_counter()
    deed(*values)
    return time.perf_counter() - begin


def _is_chronic(tab: Tab) -> None:
    tab.until("(state, slow) => state.workers[slow].kind === 'chronic'", SLOW)
    tab.frames()


def _killed(tab: Tab, workers: Any, place: int) -> None:
    kill(workers, place)
    tab.until("(state, place) => state.marks.some(mark => mark.kind === 'down' && mark.place === place)", place)
    tab.frames()


def _there(tab: Tab, place: int) -> None:
    tab.until("(state, place) => state.workers[place].state !== 'gone'", place)
    tab.frames()


def _goes_on(tab: Tab) -> None:
    tab.until("(state, rounds) => state.rounds > rounds && state.now !== null", tab.state()["rounds"])
    tab.frames()


# many rounds


def _long(browser: Any) -> str:
    profile = cluster(8, equal(4, "exponential", 1.0))
    with ExitStack() as stack:
        stream = stack.enter_context(
            ec.Stream("virtual", emulate=profile, page=True, progress=False, redundancy=1.25)
        )  # fmt: skip
        tab = Tab(browser, stream.page_url)
        stack.callback(tab.context.close)
        _work(stream, 100)
        begin = _resident_mb()
        took = _lasted(_work, stream, LONG)
        grown = _resident_mb() - begin
        tab.until("state => state.queue.done === 2")
        tab.frames()
        session = tab.context.new_cdp_session(tab.page)
        session.send("Performance.enable")
        session.send("HeapProfiler.collectGarbage")
        heap = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        answers = [_lasted(answer, stream.page_url) for _ in range(50)]
        firsts = [_lasted(_first_state, stream.page_url) for _ in range(20)]
        keys = [_lasted(_zoomed, tab) for _ in range(20)]
    rows = [
        ["memory by which the stream's process grew, page and all", f"{grown:.1f} MB", "60 MB"],
        ["memory of the page in the browser (its heap)", f"{heap['JSHeapUsedSize'] / 1e6:.1f} MB", "60 MB"],
        ["the page itself, longest of 50", f"{1e3 * max(answers):.1f} ms", "100 ms"],
        ["the first state of a new reader, longest of 20", f"{1e3 * max(firsts):.1f} ms", "100 ms"],
        ["a key, until it is drawn, longest of 20", f"{1e3 * max(keys):.1f} ms", "100 ms"],
    ]
    return (
        f"{LONG} rounds on four workers in virtual time, in {took:.0f} s, with the page open all the while.\n\n"
        + markdown_table(["what", "measured", "wanted at most"], rows)
    )


def _work(stream: ec.Stream, rounds: int, parts: int = 8) -> None:
    """Do so many rounds of so many parts, which take no time by themselves."""
    data = [1.0] * parts
    stream.submit(ec.SumJob(partial=_same, update=_as_before, state=1.0, chunks=data, iterations=rounds)).result()


def _same(state: float, chunk: float) -> float:
    return chunk


def _as_before(state: float, total: float) -> float:
    return state


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _first_state(url: str) -> None:
    with Events(url) as events:
        next(iter(events))


def _zoomed(tab: Tab) -> None:
    tab.page.keyboard.press("+")
    tab.frames()


# what it costs the stream


def _slower(browser: Any, part_s: float, rounds: int, turns: int) -> str:
    wanted = {
        "no page": "",
        "a page that nobody looks at": "0.1 %",
        "a page in a browser": "1 %",
        f"{READERS} readers, one of which never reads": "1 %",
    }
    kinds = list(wanted)
    profile = cluster(PARTS, equal(8, "shifted_exponential", 0.3)).scaled(part_s)
    given = {"emulate": profile, "progress": False, "redundancy": 1.0, "adapt": False, "split": "uniform"}
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    with ExitStack() as stack:
        streams = {kind: stack.enter_context(ec.Stream(page=kind != kinds[0], **given)) for kind in kinds}
        tab = Tab(browser, streams[kinds[2]].page_url)
        stack.callback(tab.context.close)
        stack.enter_context(_readers(streams[kinds[3]].page_url))
        for stream in streams.values():
            _work(stream, rounds, PARTS)
        begin, order = _resident_mb(), np.random.default_rng(1)
        for _ in range(turns):
            for kind in order.permutation(kinds):
                took[kind].append(_lasted(_work, streams[kind], rounds, PARTS) / rounds)
        grown = _resident_mb() - begin
    rows = []
    for kind, times in took.items():
        slower = 100 * (np.array(times) / took[kinds[0]] - 1)
        error = 2.0 * slower.std(ddof=1) / np.sqrt(turns)
        rows.append([kind, f"{1e3 * np.mean(times):.3f}", f"{slower.mean():+.2f} ± {error:.2f} %", wanted[kind]])
    return (
        f"Eight emulated worker processes, rounds of {PARTS} parts of {1e3 * part_s:.0f} ms; four streams that draw "
        f"the same times, in turns of {rounds} rounds, {turns} of each. ± is twice the standard error of the mean "
        f"ratio. The memory of the process that has all four grew by {grown:.1f} MB meanwhile.\n\n"
        + markdown_table(["stream", "ms per round", "slower than without a page", "wanted at most"], rows)
    )


@contextmanager
def _readers(url: str) -> Iterator[None]:
    """Have ten readers in a process of their own, of which one never reads."""
    process = get_context("spawn").Process(target=_read, args=(url,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _read(url: str) -> None:
    silent = connected(url)
    where, _, query = url.partition("?")
    silent.sendall(f"GET /events?{query} HTTP/1.1\r\nHost: {where.split('/')[2]}\r\n\r\n".encode())
    for _ in range(READERS - 2):
        threading.Thread(target=_all, args=(url,), daemon=True).start()
    _all(url)


def _all(url: str) -> None:
    with Events(url, timeout=600.0) as events:
        for _ in events:
            pass


# pictures


def pictures(folder: Path) -> None:
    """Take pictures of the page of a run on eight workers, of which one is slow and two are killed."""
    with browsing() as browser:
        stream, workers = eight()
        with stream:
            for number in range(6):
                stream.submit(job(f"fit {number}", 30, seed=number + 1))
            tabs = {scheme: Tab(browser, stream.page_url, scheme=scheme) for scheme in ("light", "dark")}
            tabs["light"].until("state => state.queue.done === 3")
            for place in (2, 6):
                _killed(tabs["light"], workers, place)
                _there(tabs["light"], place)
            tabs["light"].until(
                "(state, rounds) => state.rounds > rounds + 6 && state.now !== null && state.now.came > 4",
                tabs["light"].state()["rounds"],
            )
            for scheme, tab in tabs.items():
                tab.frames()
                tab.page.screenshot(path=folder / f"page-{scheme}.png", full_page=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=Path, help="folder for pictures of the page; nothing is measured then")
    arguments = parser.parse_args()
    if arguments.pictures is None:
        print(report())
    else:
        pictures(arguments.pictures)


if __name__ == "__main__":
    main()
