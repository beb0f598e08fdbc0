"""Ranks that die in mid-run: run by test_mpi.py under ``mpiexec --with-ft ulfm``, with five workers that get fewer."""

import os
import signal

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import MpiCluster
from echelon.errors import ClusterError
from tests.stream.jobs import doubled, sum_job, sum_result

LIMIT_S = 60.0


class Fatal:
    """Kills its rank, at the given place of the run."""

    def __init__(self, ranks):
        self.ranks = ranks

    def __call__(self, state, chunk):
        if os.environ["OMPI_COMM_WORLD_RANK"] in self.ranks:
            os.kill(os.getpid(), signal.SIGKILL)
        return doubled(state, chunk)


def test_a_killed_rank_is_done_without_and_jobs_stay_right():
    cluster = MpiCluster()
    with ec.Stream(cluster, redundancy=1.2) as stream:
        for seed in range(6):
            if seed == 2:
                cluster.kill(3)
            np.testing.assert_allclose(stream.submit(sum_job(seed)).result(LIMIT_S), sum_result(seed), rtol=1e-9)
        while not cluster._link.lost:  # it was given up at once, and dies as soon as it looks for orders
            stream.submit(sum_job()).result(LIMIT_S)


def test_later_streams_have_the_ranks_that_are_left():
    with ec.Stream("mpi", redundancy=1.2) as stream:
        assert stream.workers == 4
        np.testing.assert_allclose(stream.submit(sum_job()).result(LIMIT_S), sum_result(), rtol=1e-9)


def test_a_task_that_kills_some_ranks_ends_on_the_others():
    job = sum_job()
    job.partial = Fatal(("1", "2"))
    with ec.Stream("mpi", redundancy=1.2) as stream:
        np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), sum_result(), rtol=1e-9)


def test_when_the_last_rank_dies_the_stream_says_so():
    job = sum_job()
    job.partial = Fatal(("3", "5"))
    stream = ec.Stream("mpi", redundancy=1.2)
    handle = stream.submit(job)
    with pytest.raises(ClusterError, match="all worker ranks have died"):
        handle.result(LIMIT_S)
    stream.close(wait=False)
    with pytest.raises(ClusterError, match="all worker ranks of this MPI run have died"):
        ec.Stream("mpi")
