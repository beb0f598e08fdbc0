"""Streams whose idle workers begin the next job: the vectorised simulator against the master in virtual time."""

import numpy as np
import pytest

from echelon.codes import mds
from echelon.delays import Gamma
from echelon.errors import ArgumentError
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.schemes import any_k, pull
from echelon.simulation import simulate_jobs
from echelon.simulation.overlapped import Overlapped
from tests.simulation.in_virtual_time import run, scripted


class Noted(Overlapped):
    """Keeps what was drawn."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.drawn = []

    def _draw(self, memory, seeds, rng):
        self.drawn.append(super()._draw(memory, seeds, rng))
        return self.drawn[-1]


CASES = {  # plan, iterations, mean time between arrivals
    "uncoded": (any_k([3, 3, 3, 3], 12), 3, 4.0),
    "coded": (any_k([5, 3, 2, 1], 9), 4, 4.0),
    "a worker without a lane": (any_k([4, 0, 6, 3], 9), 2, 1.0),
    "single iterations": (any_k([2, 2, 2], 4), 1, 0.5),
    "a queue that is often empty": (any_k([3, 2, 2], 7), 3, 9.0),
    "handed out": (pull(workers=3, parts=11), 3, 4.0),
    "shares, and the rest handed out": (pull(workers=3, parts=9, shares=[2, 0, 1]), 1, 1.5),
    "coded, handed out": (pull(workers=4, parts=9, code=mds(parts=6, rows=9, rng=np.random.default_rng(1))), 2, 2.0),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("overlap", [False, True])
def test_departures_are_those_of_the_master_on_the_same_draws(case, overlap):
    plan, iterations, gap = case
    rng = np.random.default_rng(3)
    seeds, jobs, workers = 4, 15, len(plan.lanes)
    links = rng.uniform(0, 0.3, workers)
    rounds = Noted(plan, [Gamma.fit(0.3 * (1 + p), 0.3) for p in range(workers)], links)
    arrivals = np.cumsum(rng.exponential(gap, (seeds, jobs)), axis=1)
    found = rounds.departures(arrivals, iterations, rng, overlap=overlap)
    for seed in range(seeds):

        def next_time(place, round, i, seed=seed):
            return rounds.drawn[round - 1][seed, place, i]

        log = run(plan, scripted(next_time, links.tolist()), arrivals[seed], iterations, overlap=overlap)
        np.testing.assert_allclose(found[seed], log.departures, rtol=1e-11)


def profile(**job):
    settings = {"critical": 8, "redundancy": 1.0, "iterations": 3, "arrivals": Arrivals.poisson(0.08), **job}
    workers = [Worker("quick", mean=0.5, std=0.2, link=0.1), Worker("slow", mean=1.0, std=0.8)]
    return Profile(Workload(**settings), workers)


def test_jobs_leave_sooner_where_workers_would_be_idle_and_jobs_wait():
    plan, options = any_k([4, 4], 8), {"jobs": 200, "seeds": 40}
    with_it = simulate_jobs(plan, profile(), overlap=True, **options)
    without = simulate_jobs(plan, profile(), **options)
    assert with_it.delay.high < without.delay.low  # two intervals of 99 %
    assert with_it.service.mean < without.service.mean
    assert with_it.utilisation is None


def test_nothing_changes_where_no_job_ever_waits():
    """Jobs that come ten days apart find nobody in service: both are the sum of iterations, at 99 %."""
    rare, options = profile(arrivals=Arrivals.poisson(1e-6)), {"jobs": 50, "seeds": 40}
    with_it, without = (simulate_jobs(any_k([4, 4], 8), rare, overlap=overlap, **options) for overlap in (True, False))
    assert with_it.delay.low < without.delay.high
    assert without.delay.low < with_it.delay.high


@pytest.mark.parametrize(
    ("plan", "options", "says"),
    [
        (pull(workers=2, parts=8, copies=2), {}, "overlap: can't be simulated for this plan"),
        (pull(workers=2, parts=8, batch=2), {}, "overlap: can't be simulated for this plan"),
        (any_k([4, 4], 8), {"purge": False}, "overlap: not allowed without a purge"),
    ],
)
def test_what_is_not_simulated_is_refused(plan, options, says):
    with pytest.raises(ArgumentError, match=says):
        simulate_jobs(plan, profile(), jobs=2, seeds=2, overlap=True, **options)
