"""Plans with a pool: the vectorised rounds against a plain event loop, and against the master in virtual time."""

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon import predict_rounds, simulate_rounds
from echelon.codes import mds
from echelon.delays import Deterministic, Exponential, RoundPace, ShiftedExponential
from echelon.errors import ArgumentError, CannotEvaluate
from echelon.plan import Plan, Pool, Slot, Task
from echelon.schemes import any_k, pull
from echelon.simulation import RoundSampler
from tests.simulation.test_rounds import Recorded


def event_loop(plan, links, drawn):
    """Run one round message by message: who is nearly done takes the first batch that has anything for it."""
    drawn = [iter(times) for times in drawn]
    pool, held = list(plan.pool.batches), [set() for _ in plan.lanes]
    free, done, given, came, heap = [0.0] * len(plan.lanes), [0] * len(plan.lanes), [0] * len(plan.lanes), set(), []

    def give(p, tasks, now):
        free[p] = max(free[p], now + links[p])
        for task in tasks:
            free[p] += next(drawn[p]) * task.cost
            held[p].add(task.row)
            given[p] += 1
            heapq.heappush(heap, (free[p], p, task.row))

    def take(p, now):
        while given[p] - done[p] <= plan.pool.ahead:
            for batch in pool:
                tasks = [task for task in batch if task.row not in came and task.row not in held[p]]
                if tasks:
                    pool.remove(batch)
                    give(p, tasks, now)
                    break
            else:
                return

    for p, lane in enumerate(plan.lanes):
        give(p, lane, 0.0)
    for p in range(len(plan.lanes)):
        take(p, 0.0)
    while len(came) < plan.slots[0].threshold:
        now, p, row = heapq.heappop(heap)
        done[p] += 1
        came.add(row)
        take(p, now)
    return now, done


@given(
    workers=st.integers(1, 4), parts=st.integers(1, 9), batch=st.integers(1, 3), ahead=st.integers(0, 2),
    copies=st.integers(1, 4), seed=st.integers(0, 99),
)  # fmt: skip
def test_pulling_agrees_with_an_event_loop(workers, parts, batch, ahead, copies, seed):
    plan = pull(workers=workers, parts=parts, batch=batch, ahead=ahead, copies=min(copies, workers))
    links = np.linspace(0.0, 0.7, workers)
    laws = [Recorded(rate=1.0 + p) for p in range(workers)]
    sampler = RoundSampler(plan, laws, links)
    rng = np.random.default_rng(seed)
    seen, _ = sampler.draw(sampler.begin(2, rng), 2, 4, rng)
    for i in range(2):
        for r in range(4):
            end, done = event_loop(plan, links, [law.drawn[i, r] for law in laws])
            assert seen.times[i, r] == pytest.approx(end, rel=1e-12)
            assert seen.done[i, r].tolist() == done
            assert seen.load[i, r] == sum(done)


@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize(("copies", "shared"), [(2, False), (2, True), (3, True), (4, False), (4, True)])
def test_rounds_with_many_copies_agree_with_an_event_loop(copies, shared, ahead):
    """A worker of a hundredth of the speed has a share like the others: dozens of its rows are repeated."""
    shares = [12, 12, 12, 4] if shared else None
    plan = pull(workers=4, parts=40, batch=10, copies=copies, shares=shares, ahead=ahead)
    links = np.array([0.1, 0.0, 0.3, 0.2])
    laws = [Recorded(rate=rate) for rate in (1.0, 0.01, 2.0, 1.0)]
    sampler = RoundSampler(plan, laws, links)
    rng = np.random.default_rng(8)
    seen, _ = sampler.draw(sampler.begin(2, rng), 2, 6, rng)
    for i in range(2):
        for r in range(6):
            end, done = event_loop(plan, links, [law.drawn[i, r] for law in laws])
            assert seen.times[i, r] == pytest.approx(end, rel=1e-12)
            assert seen.done[i, r].tolist() == done


def test_a_scripted_round():
    """Seven parts, one by one: the quick worker takes the second while the slow one is at its first."""
    laws = [Deterministic(time=1.0), Deterministic(time=2.5)]
    seen = simulate_rounds(pull(workers=2, parts=7), laws, rounds=2)
    assert seen.times.tolist() == [5.0, 5.0]  # 1, 2, 3, 4, 5 and 2.5, 5
    assert seen.load == 7


def test_coded_rows_end_the_round_when_there_are_enough():
    code = mds(parts=4, rows=6, rng=np.random.default_rng(1))
    plan = pull(workers=2, parts=6, code=code)
    assert simulate_rounds(plan, [Deterministic(time=1.0), Deterministic(time=9.0)], rounds=2).mean == 4.0


def test_speculative_copies_help_where_one_is_late():
    laws = [Deterministic(time=1.0), Deterministic(time=1.0), Deterministic(time=50.0)]
    alone = simulate_rounds(pull(workers=3, parts=6), laws, rounds=2).mean
    twice = simulate_rounds(pull(workers=3, parts=6, copies=2), laws, rounds=2).mean
    assert (alone, twice) == (50.0, 3.0)


def test_one_worker_takes_what_its_parts_take_whatever_the_batch():
    law = Exponential(rate=1.0)
    one = predict_rounds(any_k([12], critical=12), law).mean
    for batch in (1, 5, 12):
        seen = simulate_rounds(pull(workers=1, parts=12, batch=batch), law, rounds=20_000)
        assert seen.interval.low < one < seen.interval.high


def test_workers_of_one_pace_pull_at_it():
    law = RoundPace(base=ShiftedExponential(shift=0.1, rate=5.0))
    seen = simulate_rounds(pull(workers=1, parts=10), law, rounds=20_000)
    assert seen.interval.low < 10 * law.mean < seen.interval.high


def test_what_a_pool_can_not_be_is_refused():
    lanes, slot = [[Task(slot=0, row=0)]], Slot(rows=3, threshold=2)
    with pytest.raises(ArgumentError, match=r"pool: .*no such slot or row"):
        Plan([slot], lanes, pool=Pool(batches=((Task(slot=0, row=3),),)))
    with pytest.raises(ArgumentError, match="ahead"):
        Pool(batches=(), ahead=-1)
    plan = pull(workers=2, parts=3)
    with pytest.raises(CannotEvaluate, match="leaves undone what is not needed"):
        RoundSampler(plan, Exponential(rate=1.0), np.zeros(2), purge=False)
    mixed = Plan([slot], lanes, pool=Pool(batches=((Task(slot=0, row=0),), (Task(slot=0, row=1),))))
    with pytest.raises(CannotEvaluate, match="all rows must come before the first that comes again"):
        simulate_rounds(mixed, Exponential(rate=1.0))


@pytest.mark.parametrize("asked", [{"parts": 0}, {"batch": 0}, {"ahead": -1}, {"copies": 3}, {"workers": 0}])
def test_senseless_pulling_is_refused(asked):
    with pytest.raises(ArgumentError):
        pull(**({"workers": 2, "parts": 4} | asked))
