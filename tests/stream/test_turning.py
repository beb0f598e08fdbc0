"""Who drives a stream, and what is left when that ends."""

import threading

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.errors import ClusterError
from tests.stream.jobs import sum_job, sum_result

LIMIT_S = 60.0


def leaving(state, total):
    raise SystemExit(3)


@pytest.mark.parametrize("cluster", ["threads", "virtual"])
def test_an_update_that_leaves_the_program_fails_its_job_and_the_stream_goes_on(cluster):
    job = sum_job()
    job.update = leaving
    with ec.Stream(cluster, workers=2, progress=False) as stream:
        failed, other = stream.submit(job), stream.submit(sum_job())
        with pytest.raises(ec.JobFailed, match="SystemExit: 3") as caught:
            failed.result(LIMIT_S)
        assert isinstance(caught.value.__cause__, SystemExit)
        np.testing.assert_allclose(other.result(LIMIT_S), sum_result())


def test_an_update_that_waits_for_its_own_stream_is_told_so():
    def waits(state, total):
        return stream.submit(sum_job()).result(LIMIT_S)

    with ec.Stream("threads", workers=2, progress=False) as stream:
        job = sum_job()
        job.update = waits
        with pytest.raises(ec.JobFailed, match="a job's own code can't wait for the stream that runs it"):
            stream.submit(job).result(LIMIT_S)


def test_a_closed_stream_may_be_closed_again_from_any_thread():
    """Threads that have ended leave their number to others: none of them is taken for the one that drove."""
    stream = ec.Stream("threads", workers=1, progress=False)
    stream.close()
    errors = []

    def close():
        try:
            stream.close()
        except ClusterError as error:
            errors.append(error)

    for _ in range(20):
        thread = threading.Thread(target=close)
        thread.start()
        thread.join(LIMIT_S)
    assert not errors


def test_time_passes_however_late_it_is():
    """A clock that is far from zero has no digit for a short wait, and goes on all the same."""
    cluster = VirtualCluster(1)
    cluster.time = 1e12
    cluster._heap = [(cluster.time, number, happen) for _, number, happen in cluster._heap]
    with ec.Stream(cluster, progress=False) as stream:
        stream.sleep(1e-9)
        np.testing.assert_allclose(stream.submit(sum_job()).result(), sum_result())


def test_no_time_passes_for_threads_that_have_what_they_waited_for():
    """Several threads let time pass in turns; when the last of them has its result, the clock is where that came."""
    with ec.Stream("virtual", workers=2, redundancy=1.0, progress=False) as stream:
        for _ in range(20):
            began = stream.now()
            handles = [stream.submit(sum_job(chunks=2, iterations=3)) for _ in range(4)]
            threads = [threading.Thread(target=handle.result) for handle in handles]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(LIMIT_S)
            assert stream.now() - began == 12.0


def test_a_worker_that_is_killed_twice_dies_once():
    cluster = VirtualCluster(2)
    with ec.Stream(cluster, progress=False) as stream:
        for _ in range(2):
            cluster.kill(0)
        np.testing.assert_allclose(stream.submit(sum_job()).result(), sum_result())
        assert sorted(stream._driver.places.values()) == [0, 1]
        assert cluster._places.next_number() == 3


class Times(ec.Observer):
    """What every row took its worker, by place, round and row."""

    def __init__(self):
        self.places, self.seconds = {}, {}

    def worker_up(self, time_s, worker, place):
        self.places[worker] = place

    def received(self, arrival):
        self.seconds[self.places[arrival.worker], arrival.round, arrival.row] = arrival.seconds


def seconds_of(profile, *, dies):
    cluster, seen = VirtualCluster(emulate=profile), Times()
    with ec.Stream(cluster, profile=profile, adapt=False, progress=False, observers=[seen]) as stream:
        handle = stream.submit(sum_job(chunks=50, iterations=6))
        if dies:
            stream.pass_time(lambda: handle.iteration >= 3, None)
            cluster.kill(0)
        handle.result()
        assert (0 in stream._driver.places) != dies
    return {key: took for key, took in seen.seconds.items() if key[1] > 4}


def test_a_successor_takes_the_times_that_its_predecessor_would_have_taken(example2):
    """Which times a round takes depends on its number alone, whoever is there."""
    alone, succeeded = seconds_of(example2, dies=False), seconds_of(example2, dies=True)
    shared = alone.keys() & succeeded.keys()
    assert len([key for key in shared if key[0] == 0]) >= 10
    assert all(alone[key] == succeeded[key] for key in shared)


def test_a_profile_says_the_times_of_virtual_workers_however_many_are_asked_for(example2):
    delays = []
    for workers in (None, 5):
        with ec.Stream("virtual", workers=workers, profile=example2, progress=False) as stream:
            delays.append(stream.submit(sum_job(chunks=20)).delivery().delay)
    assert delays[0] == delays[1] != 0
