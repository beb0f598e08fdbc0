"""Chains of gradients in virtual time: the simulator against the master, on the same draws."""

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.delays import Deterministic, task_laws
from echelon.errors import ArgumentError
from echelon.jobs import TurnJob
from echelon.schemes import m_sgc, sr_sgc
from echelon.simulation import simulate_gradients

WORKERS, COST, ROUNDS = 4, 20.0, 8
SCHEMES = [
    m_sgc(WORKERS, workers_at_once=1, length=1, window=2),
    m_sgc(WORKERS, workers_at_once=2, length=2, window=3, waiting="fastest", tolerance=0.5),
    m_sgc(WORKERS, workers_at_once=4, length=1, window=3, tolerance=0.3),
    sr_sgc(WORKERS, workers_at_once=2, length=1, window=2),
    sr_sgc(WORKERS, workers_at_once=3, length=2, window=3, waiting="fastest"),
]
LAWS = {
    "gilbert_elliott": {"enter": 0.1, "leave": 0.6, "slowdown": 6.0},
    "exponential": {},
    "deterministic": {},
    "trace": {"times": [1.0, 2.0, 1.0, 5.0]},
}


def profile(law):
    """Return unequal workers under a law."""
    job = ec.Workload(critical=20, redundancy=1.0, iterations=1, arrivals=ec.Arrivals.poisson(0.01))
    workers = [ec.Worker(f"w{i}", mean=0.1 + 0.01 * i, std=0.2, link=0.01 * i) for i in range(WORKERS)]
    return ec.Profile(job, workers).with_law(law, **LAWS[law])


def by_master(scheme, profile, gradients, seed):
    """Return the mean time of a gradient, by a master that waits for whoever is late."""
    models = scheme.delay + 1
    cluster = VirtualCluster(emulate=profile, seed=seed)
    job = TurnJob(
        scheme,
        partial=lambda state, chunk: state,
        update=lambda state, total: state,
        states=[np.zeros(1)] * models,
        iterations=gradients // models,
        chunks=range(scheme.parts),
        cost=COST,
    )
    with ec.Stream(cluster, adapt=False, progress=False, patience_s=1e6) as stream:
        stream.submit(job).result()
        return cluster.now() / gradients


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: f"{type(scheme).__name__}, {scheme.waiting}")
@pytest.mark.parametrize("law", LAWS)
def test_the_simulator_takes_the_times_of_the_master(scheme, law):
    workers, gradients = profile(law), (scheme.delay + 1) * ROUNDS
    for seed in (3, 4):
        found = simulate_gradients(
            scheme, task_laws(workers), gradients=gradients, cost=COST, links=workers.speeds.link, seed=seed
        )
        assert found.mean == pytest.approx(by_master(scheme, workers, gradients, seed), rel=1e-9)
        assert (found.finished <= scheme.delay).all()
        assert found.loads.max() == pytest.approx(scheme.load * COST, rel=1e-12)


def test_rounds_of_equal_workers_take_their_load():
    """No one straggles: every round of a chain that is under way lasts as long as a lane."""
    for scheme in SCHEMES:
        found = simulate_gradients(scheme, Deterministic(time=1.0), gradients=12)
        full = found.durations[0, scheme.delay : 12]
        wanted = scheme.load * (1 + scheme.tolerance if scheme.waiting == "fastest" else 1)
        if type(scheme).__name__ == "Multiplexed" and scheme.workers_at_once == WORKERS:
            wanted = scheme.share * (scheme.window - 1)  # all came at the first try, and is not tried again
        np.testing.assert_allclose(full, wanted, rtol=1e-6)


def test_a_run_of_many_seeds_is_one_run_of_each():
    law = ec.delays.Exponential(rate=1.0)
    both = simulate_gradients(SCHEMES[0], law, gradients=9, seeds=2, seed=7)
    each = [simulate_gradients(SCHEMES[0], law, gradients=9, seed=seed) for seed in (7, 8)]
    assert both.times.tolist() == [one.mean for one in each]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"gradients": 0}, "gradients: 0"),
        ({"cost": 0.0}, "cost: 0.0"),
        ({"links": [1.0]}, "links: must be 4"),
        ({"scheme": "m_sgc"}, "scheme: 'm_sgc'"),
        ({"law": [Deterministic(time=1.0)]}, "law"),
    ],
)
def test_what_can_t_be_simulated_is_refused(wrong, said):
    with pytest.raises(ArgumentError, match=said):
        simulate_gradients(**({"scheme": SCHEMES[0], "law": Deterministic(time=1.0), "gradients": 3} | wrong))
