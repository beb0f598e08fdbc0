"""Splits that follow speeds, in virtual time: a stream that knows nothing of its workers, or is wrong about them."""

import numpy as np
import pytest

import echelon as ec
from echelon.clusters.faults import Faults, Slowdown
from echelon.profile import Speeds
from tests.stream.jobs import linear_job

ROUNDS = 500


class Durations(ec.Observer):
    """Notes how long every round took, and the last one."""

    def __init__(self):
        self.times, self.last = [], None

    def round_over(self, seen):
        self.times.append(seen.end - seen.start)
        self.last = seen


@pytest.fixture
def known(example2):
    """Return the exact mean of an iteration where speeds are known."""
    return ec.predict_jobs(ec.schemes.any_k(ec.split_rows(example2).counts, 50), example2).iteration_mean


def rounds(cluster, profile=None, iterations=ROUNDS):
    """Return the times of all rounds, and the lengths of the last lanes by place."""
    seen = Durations()
    with ec.Stream(cluster, profile=profile, redundancy=1.1, progress=False, observers=[seen]) as stream:
        stream.submit(linear_job(size=50, parts=50, iterations=iterations)).result()
    return np.array(seen.times), [len(lane) for lane in seen.last.plan.lanes]


def test_speeds_that_were_declared_wrong_are_found(example2, known):
    """All workers are declared alike; the last 300 rounds take what they take with known speeds, to 3 %."""
    alike = example2.with_speeds(Speeds(np.full(5, 0.08), np.full(5, 0.08), example2.speeds.link))
    fixed, _ = rounds(ec.clusters.VirtualCluster(emulate=example2), alike, iterations=1)
    times, lanes = rounds(ec.clusters.VirtualCluster(emulate=example2), alike)
    assert fixed[0] > 1.2 * known
    assert times[-300:].mean() < 1.03 * known
    np.testing.assert_allclose(lanes, ec.split_rows(example2).counts, atol=3)


def test_a_worker_that_slows_down_fourfold_is_followed(example2):
    slowed = example2.with_speeds(
        Speeds(example2.speeds.mean * [1, 4, 1, 1, 1], example2.speeds.std * [1, 4, 1, 1, 1], example2.speeds.link)
    )
    known = ec.predict_jobs(ec.schemes.any_k(ec.split_rows(slowed).counts, 50), slowed).iteration_mean
    slow = Slowdown(time=100.0, place=1, length=1e9, factor=4.0)
    faults = Faults(np.random.default_rng(1), incidents=(slow,))
    cluster = ec.clusters.VirtualCluster(emulate=example2, faults=faults)
    times, lanes = rounds(cluster, example2)
    assert times.cumsum()[-300] > slow.time
    assert times[-250:].mean() < 1.05 * known
    assert lanes[1] < ec.split_rows(example2).counts[1] / 2
