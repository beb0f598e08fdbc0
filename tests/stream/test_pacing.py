"""Speeds that are followed while jobs run, and splits that follow them."""

from itertools import pairwise

import numpy as np
import pytest

from echelon.codes import cyclic, mds
from echelon.profile import Speeds
from echelon.splits import theorem2
from echelon.stream.pacing import Pacing, Seen

RNG = np.random.default_rng
CODE = mds(parts=50, rows=55, rng=RNG(1))
PLACES = (0, 1, 2, 3, 4)


def rounds(pacing, means, count, *, code=CODE, seed=1, spread=0.3, left=1000, move_cost=0.0):
    """Run rounds on workers with these means; return the splits."""
    rng = RNG(seed)
    splits = []
    for _ in range(count):
        counts = pacing.counts(0, code, PLACES, left, move_cost)
        splits.append(counts)
        times = [mean * (1 + spread * rng.uniform(-1, 1, rows)) for mean, rows in zip(means, counts, strict=True)]
        end = np.sort(np.concatenate([np.cumsum(lane) for lane in times]))[code.threshold - 1]
        seen = []
        for place, lane in enumerate(times):
            done = int((np.cumsum(lane) <= end).sum())
            seen.append(Seen(place, float(min(end, lane.sum())), float(done), 0.0))
        pacing.observe(seen)
    return splits


def test_the_first_round_is_split_evenly_and_the_second_by_what_it_showed():
    means = np.array([1.0, 1.0, 2.0, 4.0, 1.0]) * 1e-3
    splits = rounds(Pacing(5, "theorem2", None), means, 6)
    assert splits[0].tolist() == [11] * 5
    wanted = theorem2(Speeds(means, 0.2 * means, np.zeros(5)), 55, 1.0).counts
    assert np.abs(splits[5] - wanted).max() <= 2


def test_declared_speeds_are_used_at_once_and_kept_without_adaptation():
    speeds = Speeds(np.array([1.0, 2.0, 1.0, 1.0, 4.0]), np.ones(5), np.zeros(5))
    pacing = Pacing(5, "theorem2", speeds, adapt=False)
    splits = rounds(pacing, np.ones(5), 10)
    wanted = theorem2(speeds, 55, 1.0).counts.tolist()
    assert all(counts.tolist() == wanted for counts in splits)


@pytest.mark.parametrize("factor", [4.0, 0.25])
def test_a_worker_that_changes_fourfold_is_compensated_within_a_few_iterations(factor):
    pacing = Pacing(5, "theorem2", None)
    means = np.full(5, 1e-3)
    before = rounds(pacing, means, 20)[-1]
    means[2] *= factor
    after = rounds(pacing, means, 5, seed=2)[-1]
    wanted = theorem2(Speeds(means, 0.2 * means, np.zeros(5)), 55, 1.0).counts
    assert np.abs(before - 11).max() <= 1
    assert abs(after[2] - wanted[2]) <= 0.35 * abs(before[2] - wanted[2])


def test_a_split_is_not_changed_for_noise():
    splits = rounds(Pacing(5, "theorem2", None), np.full(5, 1e-3), 60)
    changes = sum((a != b).any() for a, b in pairwise(splits[3:]))
    assert changes <= 3


def test_a_change_must_pay_for_the_data_that_it_moves():
    means = np.array([1.0, 1.0, 1.0, 1.0, 2.5]) * 1e-3
    declared = Speeds(np.full(5, 1e-3), np.full(5, 1e-4), np.zeros(5))
    cheap = rounds(Pacing(5, "theorem2", declared), means, 40, left=3)[-1]
    dear = rounds(Pacing(5, "theorem2", declared), means, 40, left=3, move_cost=1000.0)[-1]
    assert cheap[4] < 11
    assert dear[4] == 11


def test_other_work_keeps_relative_speeds_and_rescales_seconds():
    pacing = Pacing(5, "theorem2", None)
    means = np.array([1.0, 1.0, 2.0, 4.0, 1.0]) * 1e-3
    last = rounds(pacing, means, 10)[-1]
    pacing.new_job()
    first = pacing.counts(1, CODE, PLACES, 10, 0.0)
    assert np.abs(first - last).max() <= 1
    rounds(pacing, 50 * means, 1)
    np.testing.assert_allclose(pacing.means, 50 * means, rtol=0.35)


def test_the_surplus_of_a_first_row_is_charged():
    """With six parts in a first row, a slow worker's lane costs it more than its rows: it gets fewer."""
    means = np.array([1.0, 1.0, 1.0, 1.0, 3.0]) * 1e-3
    speeds = Speeds(means, 0.1 * means, np.zeros(5))
    plain = Pacing(5, "theorem2", speeds).counts(0, CODE, PLACES, 1, 0.0)
    costly = Pacing(5, "theorem2", speeds).counts(0, cyclic(rows=55, load=6, rng=RNG(1)), PLACES, 1, 0.0)
    assert costly[4] < plain[4]


def test_workers_that_are_gone_get_nothing():
    pacing = Pacing(5, "theorem2", None)
    assert pacing.counts(0, CODE, (0, 3), 1, 0.0).tolist() == [28, 27]
    assert pacing.counts(0, CODE, (4,), 1, 0.0).tolist() == [55]


def test_a_worker_that_got_nothing_done_in_the_first_round_is_no_trouble():
    pacing = Pacing(5, "theorem2", None)
    pacing.counts(0, CODE, PLACES, 10, 0.0)
    pacing.observe([Seen(0, 1.0, 10.0, 0.0), Seen(1, 1.0, 0.0, None)])
    assert np.isfinite(pacing.means).all()
    assert pacing.counts(0, CODE, PLACES, 10, 0.0).sum() == 55


def test_a_worker_that_gets_no_rows_is_tried_again_now_and_then():
    """One that was a thousand times slower gets nothing; when it is as quick as the others, that is found out."""
    pacing = Pacing(5, "theorem2", None)
    means = np.full(5, 1e-3)
    means[1] = 1.0
    assert rounds(pacing, means, 10)[-1][1] == 0
    means[1] = 1e-3
    assert rounds(pacing, means, 60)[-1][1] >= 5
