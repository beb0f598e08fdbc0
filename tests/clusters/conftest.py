"""A local Ray for the tests that ask for one: it takes seconds to start, so they share it, and one cluster on it."""

import pytest

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
