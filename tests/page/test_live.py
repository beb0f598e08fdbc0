"""A stream with a page: what readers see is what its record says, and nobody listens unless asked."""

import json
import socket
import threading
from urllib.parse import urlsplit

import pytest

import echelon as ec
from echelon.errors import ArgumentError
from echelon.page import live
from echelon.page.board import Board
from echelon.page.metrics import Metrics
from echelon.stream.monitors import page_at
from tests.page.asked import Events, answer
from tests.page.parsed import totals
from tests.page.test_metrics import faulty
from tests.stream.jobs import sum_job


def last_seen(stream, seen):
    """Read a stream's page to its end, in a thread of its own."""
    events = Events(stream.page_url)

    def read():
        with events:
            for kind, value in events:
                if kind == "rounds":
                    seen.setdefault("rounds", []).extend(value)
                elif kind == "state":
                    seen["state"] = value

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def page_threads():
    return [thread for thread in threading.enumerate() if "echelon-page" in thread.name and thread.is_alive()]


@pytest.mark.parametrize("where", ["processes", "threads", "virtual with faults"])
def test_what_a_reader_sees_at_the_end_is_what_the_record_says(where, tmp_path, capsys):
    path, seen = tmp_path / "run.jsonl", {}
    options = {"workers": 3} if where in ("processes", "threads") else {"patience_s": 5.0}
    cluster = where if where in ("processes", "threads") else faulty()
    with ec.Stream(cluster, page=True, record=path, redundancy=1.5, progress=False, **options) as stream:
        url = stream.page_url
        reader = last_seen(stream, seen)
        for seed in range(3):
            stream.submit(sum_job(seed))
        assert [done.error for done in stream] == [None] * 3
        assert answer(url)[0] == 200
    reader.join(10.0)
    assert not reader.is_alive()
    assert url in capsys.readouterr().err
    board = Board()
    for line in path.read_text().splitlines():
        board.take(json.loads(line))
    shown, kept = seen["state"], json.loads(json.dumps(board.state()))
    for told in ("title", "clock", "cluster", "names"):
        shown.pop(told), kept.pop(told)
    for told in (*shown["marks"], *kept["marks"]):  # arrivals of workers may be told before the page is there
        told["time"] = round(told["time"], 6)
    assert shown == kept
    assert [one["n"] for one in seen["rounds"]] == list(range(24))
    assert {
        (thread.name, thread.is_alive()) for thread in threading.enumerate() if "echelon-page" in thread.name
    } == set()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=5)


def test_the_round_now_says_what_came_and_who_is_missing():
    gates, states = threading.Event(), {}

    def partial(state, chunk):
        if chunk == 3:
            gates.wait(30)
        return chunk

    job = ec.SumJob(
        partial=partial, update=lambda state, total: total, state=0, chunks=[1, 2, 3], iterations=1, name="a"
    )
    with ec.Stream("threads", workers=3, page=True, redundancy=1.0, progress=False, patience_s=60.0) as stream:
        handle = stream.submit(job)
        with Events(stream.page_url) as events:
            states["now"], _ = events.until(lambda state: state["now"] is not None and state["now"]["came"] == 2)
            gates.set()
            states["over"], _ = events.until(lambda state: state["rounds"] == 1 and state["now"] is None)
        assert handle.result(timeout=30) == 6
    now = states["now"]["now"]
    assert (now["name"], now["iteration"], now["iterations"], now["needed"]) == ("a", 0, 1, 3)
    assert len(now["missing"]) == 1
    at_work = [worker["state"] for worker in states["now"]["workers"]]
    assert at_work.count("at work") == 1
    assert at_work[now["missing"][0]] == "at work"
    assert states["over"]["queue"]["done"] == 1


def test_metrics_of_a_page_are_those_that_an_observer_of_the_stream_counts():
    counted = Metrics(["w1", "w2", "w3"])
    with ec.Stream("virtual", workers=3, page=True, redundancy=1.5, observers=[counted], progress=False) as stream:
        stream.submit(sum_job(1)).result()  # from now on the virtual clock stands still
        with Events(stream.page_url) as events:
            events.until(lambda state: state["queue"]["done"] == 1)
        shown = answer(stream.page_url, "/metrics")[2]
        assert shown == counted.text()
    assert totals(shown)["echelon_jobs_ended_total"] == 1


def test_nothing_listens_unless_asked():
    with ec.Stream("threads", workers=2, progress=False) as stream:
        assert stream.page_url is None
        assert not page_threads()


@pytest.mark.parametrize(
    "page", [None, 1, 8765, 1.5, "", "somewhere", "1:2:x", "65536", "127.0.0.1:", "-1", "²", b"1", []]
)
def test_odd_places_for_a_page_are_one_clear_line(page):
    with pytest.raises(ArgumentError, match=r"page: .* must be True, False, a port, or an address and a port"):
        ec.Stream("threads", workers=1, page=page)
    assert not page_threads()


def test_a_port_that_is_taken_closes_what_was_opened():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ArgumentError, match="Address already in use"):
            ec.Stream("threads", workers=1, page=str(port), progress=False)
    with ec.Stream("threads", workers=1, page=str(port), progress=False) as stream:
        assert urlsplit(stream.page_url).port == port


def test_places_are_read_with_and_without_an_address():
    assert page_at("[::1]:80") == ("::1", 80)
    assert page_at("0.0.0.0:0") == ("0.0.0.0", 0)


@pytest.mark.parametrize(("cluster", "wait_s"), [("threads", 0.5), ("virtual", 0.02)])
def test_a_page_that_can_not_keep_up_says_what_it_lost_and_in_virtual_time_it_loses_nothing(
    cluster, wait_s, monkeypatch
):
    """Live, more happens than there is room for before the page looks for the first time: 20 jobs come."""
    monkeypatch.setattr(live, "BEHIND", 10)
    monkeypatch.setattr(live, "WAIT_S", wait_s)
    with ec.Stream(cluster, workers=3, page=True, redundancy=1.5, progress=False) as stream:
        handles = [stream.submit(sum_job(seed)) for seed in range(20)]
        assert [handle.exception() for handle in handles] == [None] * 20
        with Events(stream.page_url) as events:
            state, _ = events.until(lambda state: state["queue"]["done"] == 20 or state["lost"] > 0)
    assert state["lost"] == 0 if cluster == "virtual" else state["lost"] > 0


def test_a_page_that_fails_leaves_the_stream_alone(monkeypatch, caplog):
    monkeypatch.setattr(Board, "take", lambda self, entry: 1 / 0 if self.begun else self._reader.take(entry))
    with ec.Stream("virtual", workers=3, page=True, redundancy=1.5, progress=False) as stream:
        assert stream.submit(sum_job(1)).exception() is None
        assert answer(stream.page_url)[0] == 200
    assert "the page ends here; the stream goes on" in caplog.text
