"""The comparison with other engines: everybody computes the same, by the same plan, in lines that a script counts."""

import asyncio
import heapq
import importlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

import echelon as ec
from bench import compare
from bench.compare_cases import CLUSTERS, DEADLY, EXAMPLE2, STEADY, WHOLE, Case, Run, known
from bench.compare_contenders import CONTENDERS
from bench.compare_emulation import Place, when_free
from bench.compare_hand import Hand
from bench.compare_jobs import JOBS
from bench.compare_lines import code_lines
from bench.message_ours import BARE, CODED, STREAM
from bench.message_references import REFERENCES
from bench.message_speed import OURS
from bench.results import part, parts
from bench.rivals import OTHERS
from echelon.clusters.pace import paces
from echelon.delays import Deterministic


def case_of(plan, parts: int, workers: int) -> Case:
    lanes = [[task.row for task in lane] for lane in plan.lanes]
    batches = [] if plan.pool is None else [[task.row for task in batch] for batch in plan.pool.batches]
    ahead = 0 if plan.pool is None else plan.pool.ahead
    assert (parts, workers) == (36, 6), "those of the cluster"
    return Case(STEADY, "training", 2, 1.0, lanes, batches, ahead, together=False)


def ended(case: Case, times: list[float]) -> float:
    """Return when a round ends that is carried out by hand by workers of constant speeds."""
    hand, order, now = Hand(case), count(), 0.0
    lanes, due, free = hand.begin(range(case.workers)), [], [0.0] * case.workers

    def give(place: int, parts: list[int]) -> None:
        for number in parts:
            free[place] = max(free[place], now) + times[place]
            heapq.heappush(due, (free[place], next(order), place, number))

    for place, lane in lanes.items():
        give(place, lane or hand.more(place))
    while not hand.done:
        now, _, place, number = heapq.heappop(due)
        hand.came(place, {number: np.full(1, number)})
        give(place, hand.more(place))
    assert [int(hand.found[number][0]) for number in range(36)] == list(range(36))
    return now


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"batch": 4},
        {"batch": 2, "ahead": 2},
        {"copies": 2},
        {"shares": [6, 6, 6, 6, 6, 6], "copies": 2},
        {"shares": [3, 3, 3, 3, 3, 3], "copies": 2},
    ],
    ids=str,
)
def test_a_plan_that_is_carried_out_by_hand_takes_what_echelon_takes_for_it(asked):
    times = [1.0, 1.13, 1.31, 1.57, 2.03, 4.19]
    plan = ec.schemes.pull(workers=6, parts=36, **asked)
    laws = [Deterministic(time=one) for one in times]
    assert ended(case_of(plan, 36, 6), times) == pytest.approx(
        ec.simulate_rounds(plan, laws, rounds=2).mean, rel=1e-12
    )  # fmt: skip


def test_what_a_dead_worker_had_is_handed_out_again_by_hand():
    hand = Hand(case_of(ec.schemes.pull(workers=6, parts=36, shares=[6] * 6), 36, 6))
    assert hand.begin(range(6))[2] == [12, 13, 14, 15, 16, 17]
    hand.came(2, {12: np.zeros(1)})
    hand.came(0, {number: np.zeros(1) for number in range(6)})
    assert hand.more(0) == []
    hand.lost(2)
    assert sorted([*hand.more(0), *hand.more(0)]) == [17], "one at a time"
    assert set(hand.begin([0, 1, 3, 4, 5])) == {0, 1, 3, 4, 5}
    hand.came(5, {number: np.zeros(1) for number in range(30, 36)})
    assert hand.more(5) == [12]


def test_a_worker_takes_the_times_of_its_law_whoever_drives_it():
    profile = CLUSTERS[EXAMPLE2]().scaled(1e-3)
    place, pace, start = Place(profile, 7, 3), paces(None, profile, 7)[3], time.monotonic() + 10.0
    for iteration in (1, 4):
        pace.begin(round=iteration, start=start, parts=1)
        expected = [pace.due(1.0, given=start)[0] for _ in range(3)]
        assert [place.due(iteration, start) for _ in range(3)] == pytest.approx(expected, abs=1e-9)


def test_a_worker_that_is_at_work_begins_a_round_when_it_is_done_with_that():
    now = time.monotonic()
    assert when_free(now + 5.0, 1.0) == now + 5.0
    assert when_free(now - 5.0, 1.0) >= now - 1.0


def test_experts_know_what_echelon_knows():
    found = known(EXAMPLE2, "training", 0.125, 3, together=False)
    plan = ec.schemes.pull(workers=5, parts=50, shares=found.case.shares, copies=5, ahead=2)
    assert found.by_hand == "Theorem 2, with 5 copies, 2 ahead"
    assert found.case.lanes == [[task.row for task in lane] for lane in plan.lanes]
    assert found.case.batches == [[task.row for task in batch] for batch in plan.pool.batches]
    whole = known(EXAMPLE2, "training", 0.005, 3, together=True)
    assert whole.by_hand == WHOLE
    assert [len(lane) for lane in whole.case.lanes] == whole.case.shares
    assert [number for lane in whole.case.lanes for number in lane] == list(range(50))
    assert whole.case.messages([4, 5]) == [[4, 5]]
    assert found.case.messages([4, 5]) == [[4], [5]]


LIGHT = [one for one in CONTENDERS if one.package == "echelon"]  # the others are checked by the benchmark


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("contender", LIGHT, ids=lambda one: one.name)
def test_every_contender_ends_where_a_single_process_ends(contender, job):
    """Its own check raises otherwise, and the run counts as failed."""
    if find_spec(contender.package) is None:
        pytest.skip(f"{contender.package} is not installed")
    plan = ec.schemes.pull(workers=6, parts=36, shares=[4] * 6, copies=2)
    case = replace(case_of(plan, 36, 6), cluster=DEADLY, job=job, iterations=6, scale=0.005, seed=3)
    assert compare._run(contender, case) < compare.LONGEST_S


class LocalActor:
    """Does what an actor of Dask's does, in a thread: calls one after another, coroutines at once.

    Once it has died, calls raise or never end.
    """

    def __init__(self, actor, dies_after: int | None, raises: bool) -> None:
        self._actor, self._left, self._raises = actor, dies_after, raises
        self._thread = ThreadPoolExecutor(1)

    @property
    def alive(self) -> bool:
        return self._left is None or self._left >= 0 or self._raises

    def begin(self, iteration: int):
        return self._actor.begin(iteration)

    async def message(self, *arguments):
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                if self._raises:
                    raise OSError("Unable to contact Actor's worker")
                await asyncio.Event().wait()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._actor.message, *arguments)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("dies_after", "raises"), [(None, False), (1, False), (1, True)])
def test_rounds_by_hand_on_actors_end_where_a_single_process_ends(monkeypatch, together, dies_after, raises):
    if find_spec("distributed") is None:
        names = ("Client", "LocalCluster", "WorkerPlugin")
        monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(**dict.fromkeys(names, object)))
        for name in ("compare_dask_hand", "compare_dask_session"):
            monkeypatch.delitem(sys.modules, f"bench.{name}", raising=False)
    compare_dask_hand = importlib.import_module("bench.compare_dask_hand")
    plan = ec.schemes.pull(workers=6, parts=36, shares=[4] * 6, copies=2)
    case = replace(case_of(plan, 36, 6), iterations=5, scale=1e-4, together=together)
    job = case.work

    async def rounds():
        made = {place: compare_dask_hand.DaskWorker(job, case.place(place)) for place in range(6)}
        actors = {place: LocalActor(actor, dies_after if place == 2 else None, raises) for place, actor in made.items()}
        alive = dict(actors)
        lanes, state = compare_dask_hand.Actors(case, actors, lambda place: alive[place].alive), job.begin()
        for iteration in range(1, job.iterations + 1):
            state = job.step(state, await lanes.iterate(iteration, job.request(state)))
        return state

    job.check(asyncio.run(rounds()))


def test_a_round_is_the_mean_of_all_but_the_first():
    assert Run([5.0, 6.0, 8.0]).round_s == 1.5


def test_lines_of_code_are_counted_without_blank_ones_comments_and_docstrings():
    source = '''"""A module.

    Of two lines."""

import os  # 1


class A:  # 2
    """Described."""

    x = """3
    4
    5"""

    def f(self) -> str:  # 6
        """Described."""
        # a comment
        return os.path.join(  # 7
            "a",
            "b",
        )  # 10
'''
    assert code_lines(source) == 10


def test_by_hand_takes_more_lines_than_as_documented():
    lines = {one.name: one.lines for one in CONTENDERS}
    for rival in ("Ray", "Dask", "torch"):
        assert lines[f"{rival}, documented"] < lines[f"{rival}, by hand"]


def test_one_part_of_a_section_is_replaced_and_the_others_are_kept(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    kept = part("Rounds of 125 ms", "kept")
    page.write_text(
        f"<!-- bench-compare: begin -->\n{part('Rounds of 5 ms', 'old')}\n\n{kept}\n<!-- bench-compare: end -->"
    )
    monkeypatch.setattr(compare, "_run", lambda contender, case: 0.01 * (1 + len(contender.others)))
    monkeypatch.setattr(sys, "argv", ["compare", "--only", "Rounds of 5 ms", "--repeats", "2", "--results", str(page)])
    compare.main()
    found = parts(page, "bench-compare")
    assert list(found) == ["What everybody does", "Rounds of 5 ms", "Rounds of 125 ms"]
    assert found["Rounds of 125 ms"] == "kept"
    (hand,) = (line for line in found["Rounds of 5 ms"].splitlines() if line.startswith("| torch, by hand / echelon"))
    assert hand.count("2.00 (2.00 to 2.00)") == 3
    assert hand in capsys.readouterr().out


def test_no_repeat_but_the_first_is_begun_when_time_is_up(monkeypatch, capsys):
    monkeypatch.setattr(compare, "_run", lambda contender, case: float("inf") if contender.others else 0.01)
    compare.report(["Rounds of 620 ms"], repeats=3, minutes=0.0, results=None)
    printed = capsys.readouterr().out
    assert "| repeats |  | 1 | 1 |" in printed
    assert "1 of 1 failed" in printed


@pytest.mark.parametrize("contender", [BARE, STREAM, CODED], ids=lambda one: one.name)
def test_rounds_of_messages_are_timed_one_by_one(contender):
    with contender.open() as rounds:
        assert len(times := rounds(1, 3)) == 3
    assert min(times) > 0


def test_bare_operations_are_called_references():
    assert all(reference.name.startswith("reference: ") for reference in REFERENCES)


def test_the_table_of_messages_has_each_rival_s_quickest_way_and_ours_through_a_stream():
    """Ray and Dask were there by one way each, actors of Dask's and many returns per call were not."""
    assert {"Ray, 11 returns per call", "Dask, actors", "Dask, actors, 11 results per call"} <= {
        one.name for one in OTHERS
    }
    assert {BARE.name, STREAM.name} <= {one.name for one in OURS}
