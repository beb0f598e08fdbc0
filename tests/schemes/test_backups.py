"""Plain blocks with backups: who begins with what, and rounds against a loop over all messages."""

import numpy as np
import pytest

from echelon import predict_jobs, predict_rounds, simulate_jobs, simulate_rounds
from echelon.codes import Decoder
from echelon.delays import Deterministic, Exponential
from echelon.errors import ArgumentError
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.schemes import backups
from tests.simulation.scripted import Scripted

SIZES = [(1, 1, 1), (1, 5, 1), (2, 1, 2), (2, 8, 2), (3, 7, 2), (4, 4, 3), (5, 23, 5), (8, 3, 4), (8, 32, 3)]


def rows_of(plan):
    return [[task.row for task in lane] for lane in plan.lanes]


def owned(workers, parts):
    return [range(parts * p // workers, parts * (p + 1) // workers) for p in range(workers)]


@pytest.mark.parametrize(("workers", "parts", "copies"), SIZES)
def test_a_lane_begins_with_its_own_share_and_a_block_is_in_as_many_lanes_as_asked(workers, parts, copies):
    lanes = rows_of(backups(workers=workers, parts=parts, copies=copies))
    for lane, share in zip(lanes, owned(workers, parts), strict=True):
        assert lane[: len(share)] == list(share)
        assert len(set(lane)) == len(lane)
    assert np.bincount(np.concatenate(lanes).astype(int), minlength=parts).tolist() == [copies] * parts


def test_by_default_every_block_is_in_every_lane():
    lanes = rows_of(backups(workers=3, parts=7))
    assert [sorted(lane) for lane in lanes] == [list(range(7))] * 3


@pytest.mark.parametrize("copies", [2, 3, 6])
def test_after_some_backups_each_the_last_blocks_of_every_worker_are_there(copies):
    """Six workers with five blocks each: the j-th backups are together all blocks j-th from the end."""
    lanes = rows_of(backups(workers=6, parts=30, copies=copies))
    for step in range(5):
        assert sorted(lane[5 + step] for lane in lanes) == [5 * p + 4 - step for p in range(6)]


def test_without_backups_the_rows_are_shared_out_and_that_is_all():
    plan = backups(workers=3, parts=8, copies=1)
    assert rows_of(plan) == [list(share) for share in owned(3, 8)]
    assert plan.counts_suffice


def by_hand(plan, times):
    """Return when the last block came whose copies came earliest, from the times of all tasks."""
    came = {}
    for lane, taken in zip(plan.lanes, times, strict=True):
        for task, at in zip(lane, np.cumsum(taken), strict=True):
            came[task.row] = min(at, came.get(task.row, np.inf))
    return max(came.values())


@pytest.mark.parametrize(("workers", "parts", "copies"), SIZES)
def test_simulated_rounds_agree_with_a_loop_over_all_messages(workers, parts, copies):
    plan, rng = backups(workers=workers, parts=parts, copies=copies), np.random.default_rng(4)
    times = [rng.exponential(1.0 + 5.0 * (p == 1), (50, len(lane))) for p, lane in enumerate(plan.lanes)]
    seen = simulate_rounds(plan, [Scripted(own) for own in times], rounds=50)
    np.testing.assert_allclose(seen.times, [by_hand(plan, [own[r] for own in times]) for r in range(50)], rtol=1e-12)


def test_backups_take_over_what_a_slow_worker_does_not_get_done():
    """Lanes 0 1 5 2, 2 3 1 4 and a third that is ten times slower: block 4 comes at 4, and not at 10."""
    laws = [Deterministic(time=time) for time in (1.0, 1.0, 10.0)]
    assert simulate_rounds(backups(workers=3, parts=6, copies=2), laws, rounds=2).times.tolist() == [4.0, 4.0]
    assert simulate_rounds(backups(workers=3, parts=6, copies=1), laws, rounds=2).times.tolist() == [20.0, 20.0]


def test_where_nobody_is_late_backups_change_nothing():
    law = Deterministic(time=2.0)
    assert [simulate_rounds(backups(workers=4, parts=12, copies=c), law, rounds=2).mean for c in (1, 2, 4)] == [6.0] * 3


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_predicted_rounds_of_two_memoryless_workers_agree_with_their_markov_chain(parts):
    plan = backups(workers=2, parts=parts)
    found = predict_rounds(plan, Exponential(rate=1.0))
    assert abs(found.mean - chain(rows_of(plan))) < found.error


def chain(lanes, at=(0, 0)):
    """Return the mean time that two rate-1 workers need from some places in their lanes on."""
    done = {row for lane, place in zip(lanes, at, strict=True) for row in lane[:place]}
    if len(done) == len(set(lanes[0]) | set(lanes[1])):
        return 0.0
    moves = [p for p in (0, 1) if at[p] < len(lanes[p])]
    after = [chain(lanes, (at[0] + (p == 0), at[1] + (p == 1))) for p in moves]
    return 1 / len(moves) + sum(after) / len(moves)


def test_streams_of_jobs_are_shorter_with_backups_where_workers_vary():
    job = Workload(critical=12, redundancy=1.0, iterations=3, arrivals=Arrivals.poisson(1e-3))
    profile = Profile(job, [Worker(f"w{p}", mean=1.0, std=1.0) for p in range(4)])
    plans = [backups(workers=4, parts=12, copies=copies) for copies in (1, 2)]
    for plan, other in zip(plans, reversed(plans), strict=True):
        seen, said = simulate_jobs(plan, profile, jobs=400, seeds=30), predict_jobs(plan, profile)
        assert seen.delay.low < said.delay < seen.delay.high
        better = len(plan.lanes[0]) > len(other.lanes[0])
        assert (said.delay < predict_jobs(other, profile).delay) is better


def test_all_blocks_are_recovered_as_they_are():
    plan = backups(workers=3, parts=5)
    blocks = list(np.random.default_rng(1).normal(size=(5, 2)))
    order = [4, 0, 2, 1, 3]
    weights = Decoder(plan.codes[0]).weights(order)
    found = weights.combine([blocks[row] for row in weights.rows.tolist()])
    assert np.array_equal(found, blocks)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workers": 0, "parts": 4}, "workers: 0 is not allowed"),
        ({"workers": 2, "parts": 0}, "parts: 0 is not allowed"),
        ({"workers": 2, "parts": 4, "copies": 0}, "copies: 0 is not allowed"),
        ({"workers": 2, "parts": 4, "copies": 3}, "copies: 3 is not allowed; must be at most 2"),
        ({"workers": 2, "parts": 4, "copies": 1.5}, "copies: 1.5 is not allowed"),
        ({"workers": 1000, "parts": 10**4}, "copies: tasks in all: 10000000 is not allowed"),
    ],
)
def test_what_makes_no_plan_is_refused(given, said):
    with pytest.raises(ArgumentError, match=said):
        backups(**given)
