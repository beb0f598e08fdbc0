"""Streams of ranks, one after another: run by test_mpi.py under mpiexec, with three workers."""

import glob
import os

import numpy as np
import pytest

import echelon as ec
from echelon import schemes
from echelon.clusters import MpiCluster
from echelon.errors import ArgumentError
from tests.stream.jobs import sum_job, sum_result

WORKERS, LIMIT_S = 3, 60.0


@pytest.mark.parametrize("workers", [2, 4])
def test_another_number_of_workers_than_there_are_ranks_is_refused(workers):
    with pytest.raises(ArgumentError, match=rf"workers: {workers} is not allowed; must be 3, .* -n {workers + 1}'"):
        ec.Stream("mpi", workers=workers)


def test_a_rank_that_is_given_up_is_done_without_and_takes_part_in_the_next_stream():
    cluster = MpiCluster()
    with ec.Stream(cluster, redundancy=1.0) as stream:
        for seed in range(4):
            if seed == 2:
                cluster.kill(0, "it hangs")
            np.testing.assert_allclose(stream.submit(sum_job(seed)).result(LIMIT_S), sum_result(seed), rtol=1e-9)
        assert sorted(doing.worker for doing in cluster.doing()) == [1, 2]
    with ec.Stream("mpi", redundancy=1.0) as stream:
        while len(stream._cluster.doing()) < WORKERS:
            np.testing.assert_allclose(stream.submit(sum_job()).result(LIMIT_S), sum_result(), rtol=1e-9)


def test_on_one_machine_no_rank_listens_to_the_network():
    MpiCluster().close()
    ours = {os.readlink(path) for path in glob.glob("/proc/self/fd/*") if os.path.islink(path)}
    found = []
    for kind in ("tcp", "tcp6"):
        with open(f"/proc/net/{kind}") as file:
            words = [line.split() for line in file.readlines()[1:]]
        found += [line[1] for line in words if line[3] == "0A" and f"socket:[{line[9]}]" in ours]  # 0A: listens
    assert found == []


def test_chains_of_products_run():
    scheme = schemes.diagonal_interleaved(WORKERS, x=1, y=3, delay=1)
    rng = np.random.default_rng(1)
    pairs = [(rng.standard_normal((6, 5)), rng.standard_normal((5, 7))) for _ in range(6)]
    with ec.MatmulStream("mpi", scheme) as stream:
        for (first, second), found in zip(pairs, stream.products(pairs), strict=True):
            np.testing.assert_allclose(found, first @ second, rtol=1e-7, atol=1e-9)


def test_streams_can_be_opened_one_after_another():
    for seed in range(5):
        with ec.Stream("mpi", redundancy=1.4) as stream:
            np.testing.assert_allclose(stream.submit(sum_job(seed)).result(LIMIT_S), sum_result(seed), rtol=1e-9)


def test_a_task_of_a_closed_stream_is_dropped_and_its_late_message_is_harmless():
    """The stream is closed in the middle of its job."""
    for seed in range(3):
        stream = ec.Stream("mpi", redundancy=1.4)
        stream.submit(sum_job(iterations=100_000))
        stream.close(wait=False)
        with ec.Stream("mpi", redundancy=1.4) as stream:
            np.testing.assert_allclose(stream.submit(sum_job(seed)).result(LIMIT_S), sum_result(seed), rtol=1e-9)
