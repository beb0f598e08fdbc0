"""What the page's board says of a run is what its record says, added up in another way."""

import json
import pickle
from collections import Counter

import numpy as np
import pytest

import echelon as ec
from echelon.errors import ArgumentError
from echelon.page import board as board_module
from echelon.page.board import Board
from echelon.page.drawn import drawn_round
from echelon.page.showing import as_json
from echelon.stream import read_record
from echelon.stream.recorded import busy
from echelon.stream.waiting import waiting
from tests.page.test_metrics import faulty
from tests.stream.jobs import sum_job
from tests.stream.test_recorded import exponential, purged_run

RUN = {"kind": "run", "format": 1, "names": ["a", "b"], "split": "uniform", "redundancy": None}


def told(path):
    board = Board()
    for line in path.read_text().splitlines():
        board.take(json.loads(line))
    return board


def one_round(number, *, start=None, lasted=1.0, lanes=(2, 2), late=None, job=0, **more):
    """Return the entry of a round in which all rows come, evenly; place `late` takes three times as long."""
    start = float(number) if start is None else start
    messages, row = [], 0
    for place, rows in enumerate(lanes):
        for turn in range(rows):
            took = lasted / rows / (1 if place == late or late is None else 3)
            messages.append([place, 0, row, took * (turn + 1), took, 1.0])
            row += 1
    messages.sort(key=lambda message: message[3])
    return {
        "kind": "round", "job": job, "round": number + 1, "iteration": number, "start": start, "end": start + lasted,
        "needed": [row], "lanes": {str(place): [1.0] * rows for place, rows in enumerate(lanes)}, "messages": messages,
        **more,
    }  # fmt: skip


def begun(*entries, job=True):
    board = Board()
    board.take(RUN)
    if job:
        board.take({"kind": "job", "time": 0.0, "job": 0, "name": "fit", "iterations": 100})
    for entry in entries:
        board.take(entry)
    return board


@pytest.fixture(scope="module")
def faulty_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("board") / "run.jsonl"
    with ec.Stream(faulty(), record=path, redundancy=1.5, patience_s=5.0) as stream:
        for seed in range(3):
            stream.submit(sum_job(seed))
        assert [done.error for done in stream] == [None] * 3
    return path


def test_a_board_adds_up_to_what_the_record_holds(faulty_run):
    record, state = read_record(faulty_run), told(faulty_run).state()
    rounds, workers = record.rounds, state["workers"]
    assert state["rounds"] == state["round_s"]["count"] == len(rounds)
    assert state["round_s"]["mean"] == pytest.approx(np.mean([seen.end - seen.start for seen in rounds]))
    assert sum(state["round_s"]["counts"]) == len(rounds)
    came = Counter(message[0] for seen in rounds for message in seen.messages)
    assert [worker["used"] + worker["late"] for worker in workers] == [came[place] for place in range(3)]
    assert sum(worker["late"] for worker in workers) > 0
    assert [worker["losses"] for worker in workers] == [0, 2, 0]
    assert workers[1]["reason"]
    assert [worker["awaited_s"] for worker in workers] == pytest.approx([one.seconds for one in waiting(record)])
    price = state["price"]
    assert price["useful_s"] + price["late_s"] + price["purged_s"] == pytest.approx(busy(record).sum())
    sizes = [size for seen in rounds for size in seen.sizes]
    assert len(sizes) == sum(came.values())
    assert price["useful_bytes"] + price["wasted_bytes"] == sum(sizes)
    assert price["wasted_bytes"] > 0
    delays = [record.departures[job] - record.arrivals[job] for job in record.arrivals]
    assert state["delay_s"]["mean"] == pytest.approx(np.mean(delays))
    assert [state["queue"][name] for name in ("submitted", "done", "failed", "open")] == [3, 3, 0, 0]
    assert [mark["kind"] for mark in state["marks"]].count("down") == 2
    assert state["over"]
    assert state["errors"]["decoding_most"] == max(seen.error for seen in rounds) > 0


def test_purged_rows_are_those_that_were_planned_and_never_came(tmp_path):
    purged_run(tmp_path / "run", [exponential(1.0), exponential(2.0)], [[1.0] * 6, [1.0] * 4], 8, rounds=50)
    record, state = read_record(tmp_path / "run"), told(tmp_path / "run").state()
    planned = [sum(len(seen.lanes.get(place, ())) for seen in record.rounds) for place in range(2)]
    workers = state["workers"]
    assert [one["used"] + one["late"] + one["purged"] for one in workers] == planned
    assert sum(one["used"] for one in workers) == 8 * 50


def test_the_law_that_is_drawn_fits_rounds_of_its_kind_at_99_per_cent(tmp_path):
    """A chi-squared test on bars with enough rounds; the speeds are measured on the same 400 rounds."""
    laws = [exponential(1.0), exponential(2.0), exponential(3.0)]
    purged_run(tmp_path / "run", laws, [[1.0] * 8, [1.0] * 6, [1.0] * 4], 14, rounds=400, link=0.05, seed=5)
    shown = told(tmp_path / "run").state()["round_s"]
    law, counts = np.array(shown["law"]), np.array(shown["counts"])
    assert law.sum() == pytest.approx(counts.sum()) == 400
    many = law >= 5
    expected, seen = np.append(law[many], law[~many].sum()), np.append(counts[many], counts[~many].sum())
    from scipy.stats import chi2

    assert ((seen - expected) ** 2 / expected).sum() < chi2.ppf(0.99, len(expected) - 1)
    assert shown["says"].startswith("Line: the exact law of 14 of 18 rows")


def test_a_worker_three_times_as_slow_is_chronic_and_awaited():
    state = begun(*(one_round(number, late=1) for number in range(60))).state()
    fast, slow = state["workers"]
    assert (slow["score"], slow["kind"], fast["kind"]) == (pytest.approx(3.0), "chronic", "on time")
    assert slow["awaited_s"] > 30 > fast["awaited_s"] == 0
    assert "for b alone, which takes 3 times as long as the fastest: share rows out by speed." in state["advice"]


def test_a_worker_that_is_always_cut_short_has_a_score_at_least(tmp_path):
    """Rounds take 8 s, in which the slow worker is still at its first row: of one part, and then of twenty."""
    laws = [lambda draw, size, mean=mean: np.full(size, mean) for mean in (1.0, 30.0)]
    purged_run(tmp_path / "run", laws, [[1.0] * 8, [1.0, 1.0]], 8, rounds=40)
    fast, slow = told(tmp_path / "run").state()["workers"]
    assert (fast["score"], fast["at_least"]) == (1.0, False)
    assert (slow["used"], slow["kind"], slow["at_least"], slow["own"]) == (0, "chronic", True, None)
    assert (slow["score"], slow["pace_s"]) == pytest.approx((8.0, 8.0), rel=0.02)
    purged_run(tmp_path / "other", laws, [[1.0] * 8, [20.0]], 8, rounds=40)
    slow = told(tmp_path / "other").state()["workers"][1]
    assert (slow["score"], slow["kind"], slow["at_least"]) == (None, None, False)


def test_a_worker_that_is_slow_in_one_round_is_slow_once_and_one_that_became_slower_is_told_by_itself():
    once = begun(*(one_round(number, late=1 if number == 7 else None) for number in range(100))).state()
    assert [worker["kind"] for worker in once["workers"]] == ["on time", "once"]
    slower = begun(*(one_round(number, late=1 if number > 120 else None) for number in range(240))).state()
    # before, both take as long; then the other one is three times as quick as this one
    assert slower["workers"][0]["own"] == pytest.approx(1.0)
    assert slower["workers"][1]["kind"] == "chronic"


def test_new_shares_losses_and_joins_are_marks_in_the_order_of_time():
    board = begun(
        {"kind": "up", "time": 0.0, "worker": 0, "place": 0},
        one_round(0),
        one_round(1, lanes=(3, 1)),
        {"kind": "down", "time": 2.5, "worker": 0, "place": 0, "reason": "killed by signal 9"},
        {"kind": "wrong", "time": 2.6, "place": None, "round": 2, "slot": 0, "row": 1},
        {"kind": "up", "time": 2.7, "worker": 2, "place": 0},
    )
    state = board.state()
    assert [(mark["time"], mark["kind"], mark["place"]) for mark in state["marks"]] == [
        (0.0, "up", 0), (1.0, "replan", None), (2.5, "down", 0), (2.6, "wrong", None), (2.7, "up", 0)
    ]  # fmt: skip
    assert state["marks"][2]["text"] == "a was lost: killed by signal 9"
    assert state["clock"] == 2.7
    assert [worker["state"] for worker in state["workers"]] == ["at work", "at work"]


def test_jobs_have_progress_a_time_left_and_their_error():
    board = begun(*(one_round(number) for number in range(40)))
    board.take({"kind": "job", "time": 41.0, "job": 1, "name": "two"})
    board.take({"kind": "job", "time": 42.0, "job": 2, "name": "three"})
    board.take({"kind": "end", "time": 43.0, "job": 1, "outcome": "failed", "error": "ValueError: no\n  line 1"})
    jobs = {job["name"]: job for job in board.state()["jobs"]}
    assert list(jobs) == ["fit", "three", "two"]
    assert (jobs["fit"]["iteration"], jobs["fit"]["iterations"], jobs["fit"]["state"]) == (40, 100, "running")
    assert jobs["fit"]["eta_s"] == pytest.approx(60.0)
    assert (jobs["three"]["state"], jobs["three"]["eta_s"]) == ("waiting", None)
    assert (jobs["two"]["state"], jobs["two"]["error"]) == ("failed", "ValueError: no\n  line 1")


def test_a_queue_whose_jobs_come_faster_than_they_are_done_is_unstable():
    board = Board()
    board.take(RUN)
    for number in range(10):
        board.take({"kind": "job", "time": float(number), "job": number, "name": "x"})
        if number >= 2:
            board.take({"kind": "end", "time": 2.0 * (number - 1), "job": number - 2, "outcome": "done"})
    queue = board.state()["queue"]
    assert (queue["open"], queue["arrivals_per_s"], queue["service_s"]) == (2, pytest.approx(1.0), pytest.approx(2.0))
    assert queue["says"].startswith("Unstable: jobs come 2 times as fast as they are done")


def test_the_board_of_a_long_run_is_no_larger_than_that_of_a_short_one():
    board, sizes = begun(job=False), []
    for number in range(6000):
        board.take({"kind": "job", "time": float(number), "job": number, "name": f"job {number}"})
        board.take({"kind": "down", "time": float(number), "worker": number, "place": 0, "reason": "x" * 40})
        board.take({"kind": "up", "time": float(number), "worker": number + 1, "place": 0})
        board.take(one_round(number, lanes=(2, 2) if number % 2 else (3, 1), job=number, error=1e-15, bytes=8))
        board.take({"kind": "end", "time": number + 0.9, "job": number, "outcome": "failed", "error": "e" * 100})
        if number in (2999, 5999):
            sizes.append(len(pickle.dumps(board)) + len(as_json(board.state())))
    assert sizes[1] < 1.05 * sizes[0] < 5e6
    assert board.state()["queue"]["failed"] == board.rounds == 6000


def test_rounds_with_many_tasks_are_dropped_before_they_fill_the_memory(monkeypatch):
    monkeypatch.setattr(board_module, "_TASKS", 10)
    board = begun(*(one_round(number) for number in range(5)))
    assert [number for number, _, _ in board.drawn] == [3, 4]


def test_a_board_without_entries_or_rounds_says_so():
    with pytest.raises(ArgumentError, match="must begin with an entry of kind 'run'"):
        Board().state()
    state = begun(job=False).state()
    assert (state["rounds"], state["round_s"], state["advice"]) == (0, None, "No round is over yet.")
    assert [worker["state"] for worker in state["workers"]] == ["starting", "starting"]


def test_a_snapshot_stays_as_it_is():
    board = begun(*(one_round(number) for number in range(3)))
    kept = board.snapshot()
    board.take(one_round(3))
    board.take({"kind": "end", "time": 9.0, "job": 0, "outcome": "done"})
    assert (len(kept.rounds), kept.departures) == (3, {})


def test_drawn_stretches_hold_one_thing_at_a_time_and_all_rows(faulty_run):
    board = told(faulty_run)
    for number, seen, tasks in board.drawn:
        drawn = drawn_round(number, seen, tasks, "fit")
        assert sum(stretch[4] for stretch in drawn["tasks"]) == len(tasks)
        for place in range(3):
            lane = [(begin, stop) for at, begin, stop, _, _ in drawn["tasks"] if at == place]
            edges = [edge for stretch in lane for edge in stretch]
            assert edges == sorted(edges)
            assert all(0 <= edge <= seen.end - seen.start + 1e-5 for edge in edges)


def test_numbers_that_are_not_finite_are_null():
    assert json.loads(as_json({"a": [1.0, float("nan")], "b": float("inf")})) == {"a": [1.0, None], "b": None}
