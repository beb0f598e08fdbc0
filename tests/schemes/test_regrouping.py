"""Workers that change clusters between rounds: every cluster stays complete, late ones are spread, sums stay right."""

from statistics import fmean, stdev

import numpy as np
import pytest
from scipy.special import stdtrit

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.clusters.pace import Pace
from echelon.delays import GilbertElliott, ShiftedExponential
from echelon.errors import ArgumentError
from echelon.jobs import HollowJob
from echelon.schemes import Regrouping, gradient_coding, multi_message, pull, uncoded_multi_message
from echelon.seeds import place_generator

LIMIT_S = 60.0
BURSTS = GilbertElliott(base=ShiftedExponential(shift=0.8, rate=5.0), enter=0.02, leave=0.1, slowdown=10.0)
PLANS = {
    "one message": lambda: gradient_coding(workers=12, load=2, clusters=4),
    "several": lambda: multi_message(workers=12, load=3, clusters=3, order=2),
    "uncoded": lambda: uncoded_multi_message(workers=12, load=2, clusters=4),
}


def lates_by_group(plan, size, late):
    """Return how many of the places that are late have a lane in each group of this many chunks."""
    groups = len(plan.lanes) // size
    found = [0] * groups
    for place in late:
        task = plan.lanes[place][0]
        found[min(plan.chunks[task.slot]) // size] += 1
    return found


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("held", [2, 3])
def test_every_lane_has_one_owner_within_its_reach_whoever_was_late(name, held):
    plan = PLANS[name]()
    grouping, rng = Regrouping(plan, held), np.random.default_rng(1)
    size = 4 if name == "several" else 3
    groups = 12 // size
    for _ in range(50):
        lanes = grouping.deal(set(np.flatnonzero(rng.random(12) < 0.3).tolist()))
        assert sorted(lanes) == list(range(12))
        assert grouping.plan.lanes == tuple(plan.lanes[lane] for lane in lanes)
        for place, lane in enumerate(lanes):
            assert lane % size == place % size  # the same position
            assert (lane // size - place // size) % groups < held
    assert grouping.plan.codes == plan.codes
    assert grouping.plan.chunks == plan.chunks


@pytest.mark.parametrize("name", PLANS)
def test_with_data_of_all_clusters_late_workers_are_spread_evenly(name):
    grouping, rng = Regrouping(PLANS[name](), 3 if name == "several" else 4), np.random.default_rng(2)
    for _ in range(50):
        late = set(np.flatnonzero(rng.random(12) < 0.4).tolist())
        grouping.deal(late)
        found = lates_by_group(grouping.plan, 4 if name == "several" else 3, late)
        assert sum(found) == len(late)
        assert max(found) - min(found) <= 1


def test_nobody_moves_without_need():
    grouping = Regrouping(PLANS["one message"](), 4)
    first = grouping.plan
    assert grouping.deal(()) == tuple(range(12))
    assert grouping.deal({0, 3, 6, 9}) == tuple(range(12))
    assert grouping.plan is first
    dealt = grouping.deal({0, 1})
    assert dealt != tuple(range(12))
    assert grouping.deal(()) == dealt


@pytest.mark.parametrize("where", ["virtual", "threads", "processes"])
@pytest.mark.parametrize("name", PLANS)
def test_sums_stay_plain_sums_while_workers_move(where, name):
    chunks, moved = list(np.random.default_rng(3).standard_normal((12, 4))), set()

    class Lanes(ec.Observer):
        def opened(self, seen):
            moved.add(seen.plan.lanes)

    job = ec.SumJob(
        partial=grown, update=shrunk, state=np.ones(4), chunks=chunks, plan=PLANS[name](), regroup=2, iterations=12
    )
    cluster = bursty(1) if where == "virtual" else where
    with ec.Stream(cluster, **({} if where == "virtual" else {"workers": 12}), observers=[Lanes()]) as stream:
        found = stream.submit(job).result(LIMIT_S)
    state = np.ones(4)
    for _ in range(12):
        state = shrunk(state, np.sum([grown(state, chunk) for chunk in chunks], axis=0))
    np.testing.assert_allclose(found, state, rtol=1e-9)
    assert where != "virtual" or len(moved) > 1


def grown(state, chunk):
    return chunk * state + np.sin(chunk)


def shrunk(state, total):
    return (state - total) / (1.0 + np.abs(total).max())


def bursty(seed):
    return VirtualCluster(paces=[Pace(BURSTS, 0.0, place_generator(seed, place)) for place in range(12)])


def round_s(regroup, seed):
    job = HollowJob(PLANS["one message"](), iterations=200, regroup=regroup)
    with ec.Stream(bursty(seed), patience_s=1e6) as stream:
        return stream.submit(job).delivery().delay / 200


def test_moving_workers_saves_time_where_bursts_last_at_99_percent():
    """The same draws for both: workers that are slow for ten rounds, and clusters that can do without one of three."""
    gains = [1 - round_s(3, seed) / round_s(None, seed) for seed in range(6)]
    half = float(stdtrit(5, 0.995)) * stdev(gains) / 6**0.5
    assert fmean(gains) - half > 0


@pytest.mark.parametrize(
    ("plan", "held", "said"),
    [
        (lambda: gradient_coding(workers=6, load=2), 2, "1 groups"),
        (lambda: gradient_coding(workers=6, load=2, clusters=2), 3, "held: 3"),
        (lambda: gradient_coding(workers=6, load=2, clusters=2), 1, "held: 1"),
        (lambda: pull(workers=3, parts=6), 2, "groups"),
    ],
)
def test_plans_that_can_not_be_regrouped_are_refused(plan, held, said):
    with pytest.raises(ArgumentError, match=said):
        Regrouping(plan(), held)


@pytest.mark.parametrize("more", [{}, {"plan": PLANS["one message"](), "verify": "vote"}], ids=["no plan", "vote"])
def test_jobs_without_clusters_to_change_refuse_to_regroup(more):
    with pytest.raises(ArgumentError, match="regroup: 2"):
        ec.SumJob(
            partial=grown, update=shrunk, state=np.ones(4), chunks=[np.ones(4)] * 12, regroup=2, iterations=1, **more
        )
