"""The vectorised evaluator against a plain event loop over the same draws."""

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.delays import Deterministic, Exponential, Trace
from echelon.plan import Plan, Slot, Task
from echelon.schemes import any_k
from echelon.simulation import RoundSampler
from tests.simulation.test_slots import takes


class Recorded(Exponential):
    """An exponential law that keeps what it drew."""

    def advance(self, state, size, rng):
        times, state = super().advance(state, size, rng)
        object.__setattr__(self, "drawn", times.copy())
        return times, state


def event_loop(plan, links, drawn, purge):
    """Run one round message by message; return its end, computing times and results."""
    heap = []
    for p, lane in enumerate(plan.lanes):
        at, units = links[p], iter(drawn[p])
        for task in lane:
            at += takes(task.cost, units)
            heapq.heappush(heap, (at, p, task.slot, task.row))
    last = {p: max((at for at, q, *_ in heap if q == p), default=0.0) for p in range(len(plan.lanes))}
    done = [0] * len(plan.lanes)
    got = [set() for _ in plan.slots]
    end = 0.0
    while heap:
        end, p, slot, row = heapq.heappop(heap)
        done[p] += 1
        got[slot].add(row)
        if purge and all(len(rows) >= s.threshold for rows, s in zip(got, plan.slots, strict=True)):
            break
    busy = [max(min(last[p], end) - links[p], 0.0) if lane else 0.0 for p, lane in enumerate(plan.lanes)]
    return end, busy, done


@st.composite
def plans(draw):
    """Plans with several slots, rows in several lanes, empty lanes and unequal costs."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    slots = [Slot(rows=rows, threshold=draw(st.integers(1, rows))) for rows in sizes]
    lanes = [[] for _ in range(draw(st.integers(1, 4)))]
    for s, slot in enumerate(slots):
        for row in range(slot.rows):
            for _ in range(draw(st.integers(1, 2))):
                cost = draw(st.sampled_from([1.0, 1.0, 2.5]))
                lanes[draw(st.integers(0, len(lanes) - 1))].append(Task(slot=s, row=row, cost=cost))
    return Plan(slots, lanes)


def compare(plan, links, purge, seed):
    laws = [Recorded(rate=1.0 + p) for p in range(len(plan.lanes))]
    sampler = RoundSampler(plan, laws, links, purge=purge)
    rng = np.random.default_rng(seed)
    seen, _ = sampler.draw(sampler.begin(2, rng), 2, 4, rng)
    for i in range(2):
        for r in range(4):
            drawn = [law.drawn[i, r] if lane else [] for law, lane in zip(laws, plan.lanes, strict=True)]
            end, busy, done = event_loop(plan, links, drawn, purge)
            assert seen.times[i, r] == pytest.approx(end, rel=1e-12)
            np.testing.assert_allclose(seen.busy[i, r], busy, rtol=1e-9, atol=1e-12)
            assert seen.done[i, r].tolist() == done


@given(plan=plans(), purge=st.booleans(), seed=st.integers(0, 99))
def test_any_plan_agrees_with_an_event_loop(plan, purge, seed):
    compare(plan, np.linspace(0.0, 0.7, len(plan.lanes)), purge, seed)


@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any),
    share=st.floats(0, 1),
    purge=st.booleans(),
    seed=st.integers(0, 99),
)
def test_one_slot_agrees_with_an_event_loop(counts, share, purge, seed):
    critical = 1 + int(share * (sum(counts) - 1))
    compare(any_k(counts, critical), np.linspace(0.4, 0.0, len(counts)), purge, seed)


def test_a_scripted_round():
    """w0 sends at 1.5, 2.5, 3.5; w1 at 0.7 and 1.4; the third result ends the round at 1.5."""
    sampler = RoundSampler(any_k([3, 2], 3), [Deterministic(time=1.0), Deterministic(time=0.7)], np.array([0.5, 0.0]))
    rng = np.random.default_rng(0)
    seen, _ = sampler.draw(sampler.begin(1, rng), 1, 1, rng)
    assert seen.times[0, 0] == pytest.approx(1.5)
    assert seen.done[0, 0].tolist() == [1, 2]
    np.testing.assert_allclose(seen.busy[0, 0], [1.0, 1.4])


def test_laws_with_memory_go_on_from_draw_to_draw():
    law = Trace(times=[1.0, 2.0, 3.0])
    sampler = RoundSampler(any_k([2], 2), law, np.zeros(1))
    rng = np.random.default_rng(0)
    state = [np.array([0])]
    first, state = sampler.draw(state, 1, 1, rng)
    second, state = sampler.draw(state, 1, 2, rng)
    assert first.times.tolist() == [[3.0]]
    assert second.times.tolist() == [[4.0, 5.0]]


def test_laws_and_links_must_fit_the_lanes():
    plan = any_k([1, 1], 1)
    with pytest.raises(ValueError, match="laws: 3 given"):
        RoundSampler(plan, [Exponential(rate=1.0)] * 3, np.zeros(2))
    with pytest.raises(ValueError, match="links: shape"):
        RoundSampler(plan, Exponential(rate=1.0), np.zeros(3))
