"""Who drives a stream, and what is left when that ends."""

import threading

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.errors import ClusterError
from echelon.jobs import LinearJob
from tests.stream.jobs import sum_job, sum_result

LIMIT_S = 60.0


def leaving(state, total):
    raise SystemExit(3)


def interrupted(state, total):
    raise KeyboardInterrupt


class Leaving(LinearJob):
    """A job that exits when it is asked for what its parts are computed from."""

    def __init__(self):
        super().__init__(matrix=np.eye(2), parts=2, state=np.ones(2), update=leaving, iterations=1)

    def request(self, state):
        raise SystemExit(3)


@pytest.mark.parametrize("cluster", ["threads", "virtual"])
def test_an_update_that_exits_fails_its_job_and_not_the_stream(cluster):
    with ec.Stream(cluster, workers=2, progress=False) as stream:
        job = sum_job()
        job.update = leaving
        failed, next_one = stream.submit(job), stream.submit(sum_job())
        with pytest.raises(ec.JobFailed, match="SystemExit: 3") as caught:
            failed.result(LIMIT_S)
        assert isinstance(caught.value.__cause__, SystemExit)
        np.testing.assert_allclose(next_one.result(LIMIT_S), sum_result())


@pytest.mark.parametrize("cluster", ["threads", "virtual"])
def test_a_job_whose_request_exits_fails_alone_also_if_it_is_begun_ahead(cluster):
    with ec.Stream(cluster, workers=2, overlap=True, progress=False) as stream:
        handles = [stream.submit(job) for job in (sum_job(1), Leaving(), sum_job(2))]
        with pytest.raises(ec.JobFailed, match="SystemExit: 3"):
            handles[1].result(LIMIT_S)
        for seed, handle in ((1, handles[0]), (2, handles[2])):
            np.testing.assert_allclose(handle.result(LIMIT_S), sum_result(seed))


@pytest.mark.parametrize("cluster", ["threads", "virtual"])
@pytest.mark.parametrize("wait", ["a result", "a kept job", "deliveries", "close"])
def test_a_job_that_waits_for_the_stream_that_runs_it_is_told_so(cluster, wait):
    """It would wait for ever: the stream goes on when the job's code has returned."""
    with ec.Stream(cluster, workers=2, progress=False) as stream:
        kept = stream.keep(sum_job(iterations=1))
        waits = {
            "a result": lambda: stream.submit(sum_job(iterations=1)).result(),
            "a kept job": lambda: kept.run(np.ones(4)),
            "deliveries": lambda: next(stream.deliveries()),
            "close": stream.close,
        }
        job = sum_job(iterations=1)
        job.update = lambda state, total: waits[wait]()
        with pytest.raises(ec.JobFailed, match=r"a job's own code can't (wait for|close) the stream that runs it"):
            stream.submit(job).result(LIMIT_S)
        np.testing.assert_allclose(stream.submit(sum_job(iterations=1)).result(LIMIT_S), sum_result(iterations=1))
        kept.drop()


def test_a_job_may_submit_to_its_own_stream_and_ask_for_what_is_there():
    handles = []
    with ec.Stream("threads", workers=2, progress=False) as stream:
        first = stream.submit(sum_job())
        first.result(LIMIT_S)

        def asking(state, total):
            handles.append(stream.submit(sum_job(2)))
            return first.result()

        job = sum_job(iterations=1)
        job.update = asking
        np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), sum_result())
        np.testing.assert_allclose(handles[0].result(LIMIT_S), sum_result(2))


def test_ctrl_c_in_virtual_time_reaches_the_program():
    """The thread that waits drives: what it is sent is its own."""
    stream = ec.Stream("virtual", workers=2, progress=False)
    job = sum_job()
    job.update = interrupted
    with pytest.raises(KeyboardInterrupt):
        stream.submit(job).result()
    stream.close(wait=False)


def test_a_patience_of_years_is_allowed():
    with ec.Stream("processes", workers=1, patience_s=3e7, progress=False) as stream:
        np.testing.assert_allclose(stream.submit(sum_job()).result(LIMIT_S), sum_result())


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
