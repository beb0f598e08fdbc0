"""Rounds of any plan against a plain loop over the sorted messages of each round."""

from itertools import combinations
from math import ceil

import numpy as np
import pytest

from bench.multi_message_loop import plain_round, tuned_round
from echelon.delays import Deterministic, RoundPace
from echelon.plan import Plan, Slot, Task
from echelon.schemes import fractional_repetition, gradient_coding, lagrange, multi_message, uncoded_multi_message
from echelon.simulation import RoundSampler
from tests.simulation.scripted import Scripted

SEEDS, ROUNDS = 2, 9


def parts(lane):
    """Return how many parts are drawn for a lane: a share of a part counts as one."""
    return sum(ceil(task.cost) for task in lane)


def takes(cost, drawn):
    """Return what a task takes: the sum of its parts, the last by its share."""
    whole = ceil(cost) - 1
    return sum(next(drawn) for _ in range(whole)) + (cost - whole) * next(drawn)


def enough(plan, s, rows):
    """Return whether rows recover a slot: as many as the threshold, one alone, or by the rank of what they span."""
    slot = plan.slots[s]
    if slot.counting or not plan.codes:
        return len(rows) >= slot.threshold or bool(rows & set(slot.alone))
    held, target = plan.codes[s].matrix[sorted(rows)], plan.codes[s].target
    return np.linalg.matrix_rank(np.vstack([held, target]), tol=1e-8) == np.linalg.matrix_rank(held, tol=1e-8)


def by_hand(plan, links, times):
    """Return end, load, load with stop, busy and done of one round; worker p's j-th part takes times[p][j]."""
    messages = []
    last = [0.0] * len(plan.lanes)
    for p, lane in enumerate(plan.lanes):
        at, drawn = links[p], iter(times[p])
        for task in lane:
            at += takes(task.cost, drawn)
            messages.append((at, p, task.slot, task.row))
        last[p] = at
    rows = [set() for _ in plan.slots]
    recovered = [None] * len(plan.slots)
    for at, _, s, row in sorted(messages):
        rows[s].add(row)
        if recovered[s] is None and enough(plan, s, rows[s]):
            recovered[s] = at
    end = max(recovered)
    done = [sum(at <= end for at, q, *_ in messages if q == p) for p in range(len(plan.lanes))]
    stopped = sum(at <= recovered[s] for at, _, s, _ in messages)
    busy = [max(min(last[p], end) - links[p], 0.0) if lane else 0.0 for p, lane in enumerate(plan.lanes)]
    return end, sum(done), stopped, busy, done


def random_plan(rng, *, alone, unit, alike, every_row=True):
    """Rows in several lanes, several slots, empty and unequal lanes; with rows that are enough alone, if asked."""
    count = int(rng.integers(1, 5))
    slots = []
    for s in range(count):
        if alike and s:
            slots.append(slots[0])
            continue
        rows = int(rng.integers(1, 7))
        single = rng.permutation(rows)[: int(rng.integers(1, 3))].tolist() if alone else ()
        slots.append(Slot(rows=rows, threshold=int(rng.integers(1, rows + 1)), alone=tuple(single)))
    lanes = [[] for _ in range(int(rng.integers(1, 7)))]
    for s, slot in enumerate(slots):
        kept = range(slot.rows) if every_row else rng.permutation(slot.rows)[: max(slot.threshold, slot.rows - 1)]
        for row in kept:
            for p in rng.choice(len(lanes), size=int(rng.integers(1, 4))):
                cost = 1.0 if unit else float(rng.choice([0.5, 1.0, 2.5]))
                lanes[p].append(Task(slot=s, row=int(row), cost=cost))
    return Plan(slots, [[lane[i] for i in rng.permutation(len(lane))] for lane in lanes])


def laws_and_times(plan, kind, rng):
    """Return laws with drawn times, and those times by round and worker."""
    workers, rounds = len(plan.lanes), SEEDS * ROUNDS
    paces = 0.05 + rng.exponential(1.0, (workers, rounds))
    if kind == "alike paces":
        laws = [RoundPace(base=Scripted(paces))] * workers
    elif kind == "own paces":
        laws = [RoundPace(base=Scripted(paces[p])) for p in range(workers)]
    else:
        every = [rng.exponential(1.0 + p, (rounds, parts(lane))) for p, lane in enumerate(plan.lanes)]
        if kind == "independent":
            return [Scripted(times) for times in every], [[every[p][r] for p in range(workers)] for r in range(rounds)]
        laws = [RoundPace(base=Scripted(paces[p])) if p % 2 else Scripted(every[p]) for p in range(workers)]
        times = [
            [np.full(parts(plan.lanes[p]), paces[p, r]) if p % 2 else every[p][r] for p in range(workers)]
            for r in range(rounds)
        ]
        return laws, times
    return laws, [[np.full(parts(lane), paces[p, r]) for p, lane in enumerate(plan.lanes)] for r in range(rounds)]


def compare(plan, links, laws, times):
    sampler = RoundSampler(plan, laws, links)
    rng = np.random.default_rng(0)
    seen, _ = sampler.draw(sampler.begin(SEEDS, rng), SEEDS, ROUNDS, rng)
    assert seen.times.shape == seen.load.shape == seen.load_with_stop.shape == (SEEDS, ROUNDS)
    for r in range(SEEDS * ROUNDS):
        at = divmod(r, ROUNDS)
        end, load, stopped, busy, done = by_hand(plan, links, times[r])
        assert seen.times[at] == pytest.approx(end, rel=1e-12)
        assert (seen.load[at], seen.load_with_stop[at]) == (load, stopped)
        assert seen.done[at].tolist() == done
        np.testing.assert_allclose(seen.busy[at], busy, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["alike paces", "own paces", "independent", "mixed"])
@pytest.mark.parametrize("linked", [False, True], ids=["no links", "links"])
@pytest.mark.parametrize("unit", [False, True], ids=["costs", "unit costs"])
@pytest.mark.parametrize("alone", [False, True], ids=["", "alone rows"])
@pytest.mark.parametrize("alike", [False, True], ids=["", "equal slots"])
def test_random_plans_agree_with_a_loop_over_sorted_messages(kind, linked, unit, alone, alike):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        plan = random_plan(rng, alone=alone, unit=unit, alike=alike)
        links = rng.uniform(0.0, 2.0, len(plan.lanes)) if linked else np.zeros(len(plan.lanes))
        compare(plan, links, *laws_and_times(plan, kind, rng))


@pytest.mark.parametrize("kind", ["alike paces", "independent"])
@pytest.mark.parametrize("alike", [False, True], ids=["", "equal slots"])
def test_rows_that_nobody_computes_change_nothing(kind, alike):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        plan = random_plan(rng, alone=False, unit=False, alike=alike, every_row=False)
        compare(plan, np.zeros(len(plan.lanes)), *laws_and_times(plan, kind, rng))


MMC = {
    "gradient coding": gradient_coding(workers=12, load=4),
    "gradient coding in clusters": gradient_coding(workers=12, load=4, clusters=2),
    "fractional repetition": fractional_repetition(workers=12, load=4),
    "uncoded": uncoded_multi_message(workers=12, load=4, clusters=2),
    "correlated": multi_message(workers=12, load=4, clusters=3, order=2),
    "uncorrelated": multi_message(workers=12, load=4, clusters=3, orders=[1, 2, 4]),
    "correlated hybrid": multi_message(workers=12, load=4, clusters=3, order=2, hybrid=True),
    "uncorrelated hybrid": multi_message(workers=12, load=4, clusters=3, orders=[2, 3, 4], hybrid=True),
    "lagrange": lagrange(workers=12, load=4),
}


@pytest.mark.parametrize("kind", ["alike paces", "own paces", "independent"])
@pytest.mark.parametrize("name", MMC)
def test_the_schemes_of_the_paper_agree_with_a_loop_over_sorted_messages(name, kind):
    rng = np.random.default_rng(5)
    compare(MMC[name], np.zeros(12), *laws_and_times(MMC[name], kind, rng))


@pytest.mark.parametrize(
    "name", [name for name, plan in MMC.items() if plan.slots[0].counting and not plan.slots[0].alone]
)
@pytest.mark.parametrize("loop", [plain_round, tuned_round])
def test_time_and_load_agree_with_the_reference_loops_of_the_benchmark(loop, name):
    plan = MMC[name]
    laws, times = laws_and_times(plan, "alike paces", np.random.default_rng(6))
    sampler = RoundSampler(plan, laws, np.zeros(12))
    rng = np.random.default_rng(0)
    seen, _ = sampler.draw(sampler.begin(SEEDS, rng), SEEDS, ROUNDS, rng)
    for r in range(SEEDS * ROUNDS):
        end, messages = loop(plan, [float(own[0]) for own in times[r]])
        assert seen.times.ravel()[r] == pytest.approx(end, rel=1e-12)
        assert seen.load.ravel()[r] == messages


def ends_of(plan, times):
    sampler = RoundSampler(plan, [Deterministic(time=time) for time in times], np.zeros(len(times)))
    rng = np.random.default_rng(0)
    return sampler.draw(sampler.begin(1, rng), 1, 1, rng)[0]


def test_a_row_that_is_enough_alone_ends_its_slot_and_later_rows_are_not_counted():
    """Rows at 1, 2, 4 and the sum at 3: the round ends at 3, with three messages."""
    plan = Plan([Slot(rows=4, threshold=3, alone=(1,))], [[Task(slot=0, row=row)] for row in (0, 2, 1, 3)])
    seen = ends_of(plan, [1.0, 2.0, 3.0, 4.0])
    assert seen.times.tolist() == [[3.0]]
    assert seen.load.tolist() == seen.load_with_stop.tolist() == [[3]]


def test_a_slot_may_be_recovered_by_rows_that_are_enough_alone_and_nothing_else():
    plan = Plan([Slot(rows=5, threshold=4, alone=(4,))], [[Task(slot=0, row=0)], [Task(slot=0, row=4)]])
    assert ends_of(plan, [1.0, 2.0]).times.tolist() == [[2.0]]
    with pytest.raises(ValueError, match=r"slots\[0\]: 2 planned rows"):
        Plan([Slot(rows=5, threshold=4, alone=(4,))], [[Task(slot=0, row=0)], [Task(slot=0, row=3)]])


def test_equal_slots_of_which_different_rows_are_planned_know_their_own_rows():
    """Slot 0 plans rows 0, 1, 2 and ends at 6; slot 1 plans 0, 1 and the sum, 3, which comes first of all, at 10."""
    slot = Slot(rows=4, threshold=3, alone=(3,))
    rows = [(1, 3), (1, 0), (1, 1), (0, 0), (0, 1), (0, 2)]
    plan = Plan([slot, slot], [[Task(slot=s, row=row)] for s, row in rows])
    assert ends_of(plan, [10.0, 12.0, 13.0, 4.0, 5.0, 6.0]).times.tolist() == [[10.0]]


def test_messages_at_the_very_end_count_and_those_of_a_recovered_slot_only_without_stop():
    """Slot 0 is done at 1, slot 1 at 3; a second copy for slot 0 comes at 2, and two messages at 3 sharp."""
    plan = Plan(
        [Slot(rows=1, threshold=1), Slot(rows=2, threshold=1)],
        [[Task(slot=0, row=0)], [Task(slot=0, row=0)], [Task(slot=1, row=0)], [Task(slot=1, row=1)]],
    )
    seen = ends_of(plan, [1.0, 2.0, 3.0, 3.0])
    assert seen.times.tolist() == [[3.0]]
    assert (seen.load.tolist(), seen.load_with_stop.tolist()) == ([[4]], [[3]])


def test_more_messages_than_a_byte_can_count_are_counted():
    """1000 messages of one slot at 1, …, 1000 by four workers, the last of a second slot at 2000."""
    lanes = [[Task(slot=0, row=0, cost=4.0) for _ in range(250)] for _ in range(4)]
    plan = Plan([Slot(rows=1, threshold=1), Slot(rows=1, threshold=1)], [*lanes, [Task(slot=1, row=0, cost=2000.0)]])
    seen = ends_of(plan, [1.0] * 5)
    assert seen.load.tolist() == [[1001]]
    assert seen.load_with_stop.tolist() == [[5]]
    assert seen.done.tolist() == [[[250, 250, 250, 250, 1]]]
    assert seen.busy.tolist() == [[[1000.0, 1000.0, 1000.0, 1000.0, 2000.0]]]


@pytest.mark.parametrize("row", [-1, 3, 1.0, True])
def test_a_row_that_a_slot_does_not_have_cannot_be_enough_alone(row):
    with pytest.raises(ValueError, match="alone: "):
        Slot(rows=3, threshold=2, alone=(row,))


def test_plans_with_rows_that_are_enough_alone_do_not_go_by_counts():
    lanes = [[Task(slot=0, row=row)] for row in range(3)]
    assert Plan([Slot(rows=3, threshold=2)], lanes).counts_suffice
    for alone in [*combinations(range(3), 1), *combinations(range(3), 2)]:
        assert not Plan([Slot(rows=3, threshold=2, alone=alone)], lanes).counts_suffice
