"""Rounds that end by policies on recorded workers: ends and residuals that evaluators tell are those of the master."""

import numpy as np
import pytest

import echelon as ec
from echelon.codes import balanced, fractional_repetition, graph, stochastic, uncoded
from echelon.delays import Recorded, task_laws
from echelon.endings import Deadline, Quorum, Residual
from echelon.jobs import HollowJob
from echelon.schemes import coded_rows, multi_message
from echelon.simulation.rounds import RoundSampler
from echelon.stream import read_record

ROUNDS, WORKERS = 12, 6


def rng():
    return np.random.default_rng(3)


PLANS = {
    "uncoded": coded_rows(uncoded(parts=12), [2] * WORKERS),
    "groups": coded_rows(fractional_repetition(rows=6, load=2), [1] * WORKERS),
    "a graph": coded_rows(graph(parts=4, load=3, rng=rng()), [1] * WORKERS),
    "balanced": coded_rows(balanced(rows=6, parts=6, load=3, rng=rng()), [1] * WORKERS),
    "stochastic": coded_rows(stochastic(rows=6, parts=6, load=3, missing=0.2, rng=rng()), [1] * WORKERS),
    "clusters": multi_message(workers=WORKERS, load=3, orders=[3, 2]),
}
POLICIES = [
    Residual(0.5), Deadline(1.0), Quorum(0.7, grace=0.4), Quorum(0.5, stretch=0.5), Deadline(1.0) & Quorum(0.9),
    Residual(0.3) | Deadline(1.5), Quorum(0.0, grace=0.2),
]  # fmt: skip


def recorded():
    """Return a profile of workers that are replayed together."""
    columns = 0.2 + np.random.default_rng(5).exponential(1.0, (WORKERS, ROUNDS))
    laws = [Recorded(times=column, part=0.05) for column in columns.tolist()]
    told = [{"times": list(law.times), "part": law.part} for law in laws]
    workers = [
        ec.Worker(f"w{p}", mean=law.mean, std=law.std, law="recorded", parameters=some)
        for p, (law, some) in enumerate(zip(laws, told, strict=True))
    ]
    work = ec.Workload(critical=12, redundancy=1.0, iterations=ROUNDS, arrivals=ec.Arrivals.poisson(0.01))
    return ec.Profile(work, workers)


@pytest.mark.parametrize("name", PLANS)
def test_ends_and_residuals_are_those_of_the_master_round_by_round(name, tmp_path):
    profile = recorded()
    for policy in POLICIES:
        plan = PLANS[name].ended(policy)
        sampler = RoundSampler(plan, task_laws(profile), np.zeros(WORKERS))
        drawn = sampler.draw(sampler.begin(1, rng()), 1, ROUNDS, rng())[0]
        path = tmp_path / "record"
        with ec.Stream("virtual", emulate=profile, record=path, patience_s=1e9, progress=False) as stream:
            assert stream.submit(HollowJob(plan, iterations=ROUNDS)).delivery().error is None
        rounds = read_record(path).rounds
        took = np.array([[seen.end - seen.start for seen in rounds], [seen.residual for seen in rounds]])
        told = np.array([drawn.times[0], drawn.residual[0]])
        # both go through all recorded rounds, from one of their own on
        off = min(np.abs(np.roll(told, first, axis=1) - took).max() for first in range(ROUNDS))
        assert off < 1e-5, policy


def test_no_round_ends_by_a_residual_that_its_rows_do_not_have():
    """Rows of stochastic codes are added up as they are, which is further off than what suits them best."""
    for name, plan in PLANS.items():
        seen = ec.simulate_rounds(plan.ended(Residual(0.4)), task_laws(recorded()), rounds=ROUNDS)
        assert seen.residuals.max() <= 0.4 + 1e-9, name
