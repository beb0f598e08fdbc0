"""Clusters of every kind, and a local Ray: it takes seconds to start, so tests share it, and one cluster on it."""

import time

import numpy as np
import pytest

from echelon.clusters import CLUSTERS
from tests.clusters import works
from tests.clusters.desk import LIMIT_S
from tests.clusters.kinds import KINDS
from tests.clusters.lent import Lent


@pytest.fixture(scope="session")
def local_ray():
    """Start a Ray of eight processors in name, on the loopback, and leave it running until the last test."""
    import ray

    from echelon.clusters.ray_session import Session

    session = Session(None, 8)
    yield ray
    session.close()


@pytest.fixture(scope="module")
def lost(local_ray):
    """Return a reference to what nobody can read any more: its owner is dead."""

    class Owner:
        def put(self):
            return [local_ray.put([np.ones(300_000)])]

    owner = local_ray.remote(Owner).options(num_cpus=0).remote()
    (reference,) = local_ray.get(owner.put.remote())
    local_ray.kill(owner)
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        try:
            local_ray.get(reference, timeout=LIMIT_S)
        except local_ray.exceptions.OwnerDiedError:
            break
    return reference


@pytest.fixture(scope="module")
def lent_ray(local_ray):
    """Return what lends a cluster of three workers to one test after another."""
    from echelon.clusters.ray import RayCluster

    cluster, places, first = RayCluster(3), {}, [0]

    def lend():
        made = Lent(cluster, places, first[0])
        first[0] += 1000
        return made

    yield lend
    cluster.close()


@pytest.fixture(params=KINDS)
def kind(request):
    if request.param == "ray":
        request.getfixturevalue("local_ray")
    return request.param


@pytest.fixture
def cluster(kind, request):
    # processes of Ray take long to start, so tests use the same ones again
    made = request.getfixturevalue("lent_ray")() if kind == "ray" else CLUSTERS[kind](3)
    yield made
    made.close()


@pytest.fixture
def gate(tmp_path):
    made = works.Gate(tmp_path)
    yield made
    made.close()


@pytest.fixture
def bell(tmp_path):
    made = works.Gate(tmp_path, "bell")
    yield made
    made.close()
