"""A handle is a future: with `concurrent.futures`, with asyncio, and with callbacks."""

import asyncio
import concurrent.futures as futures
import logging
import threading

import numpy as np
import pytest

import echelon as ec
from echelon.errors import ClusterError
from tests.stream.jobs import doubled, sum_job, sum_result

LIMIT_S = 60.0
CLUSTERS = ["threads", "virtual"]


def stream(cluster="threads", **more):
    return ec.Stream(cluster, workers=2, progress=False, **more)


class Gate:
    """A job that waits until it is let go."""

    def __init__(self):
        self.go = threading.Event()
        self.job = sum_job()
        self.job.partial = lambda state, chunk: self.go.wait(LIMIT_S) and doubled(state, chunk)


def broken(state, total):
    raise ZeroDivisionError("in update")


def failing():
    job = sum_job()
    job.update = broken
    return job


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_handle_is_a_future_that_wait_and_as_completed_take(cluster):
    with stream(cluster) as running:
        handles = [running.submit(job) for job in (sum_job(1), failing(), sum_job(3))]
        assert all(isinstance(handle, futures.Future) for handle in handles)
        done, left = futures.wait(handles[:1], LIMIT_S)
        assert (done, left) == ({handles[0]}, set())
        done, left = futures.wait(handles, LIMIT_S, return_when=futures.FIRST_EXCEPTION)
        assert handles[1] in done
        ended = list(futures.as_completed(handles, LIMIT_S))
        assert set(ended) == set(handles)
        np.testing.assert_allclose(handles[2].result(timeout=LIMIT_S), sum_result(3))
        assert isinstance(handles[1].exception(timeout=LIMIT_S), ec.JobFailed)
        assert [handle.running() for handle in handles] == [False] * 3


def test_a_wait_for_several_handles_ends_with_its_limit_in_virtual_time():
    with stream("virtual", redundancy=1.0) as running:
        handles = [running.submit(sum_job(chunks=2, iterations=8)) for _ in range(2)]
        done, left = futures.wait(handles, 3.0)
        assert (running.now(), done, left) == (3.0, set(), set(handles))
        done, left = futures.wait(handles, return_when=futures.FIRST_COMPLETED)
        assert (running.now(), done) == (8.0, {handles[0]})


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_job_that_is_cancelled_is_so_at_once_and_one_that_ended_is_not(cluster):
    gate = Gate()
    if cluster == "virtual":
        gate.go.set()
    with stream(cluster) as running:
        first, second, third = running.submit(gate.job), running.submit(sum_job(2)), running.submit(sum_job(3))
        assert [handle.cancel() for handle in (first, second)] == [True, True]
        assert [handle.cancelled() for handle in (first, second, third)] == [True, True, False]
        assert first.cancel()
        assert futures.wait([first, second]).done == {first, second}
        gate.go.set()
        np.testing.assert_allclose(third.result(LIMIT_S), sum_result(3))
        assert (third.cancel(), third.cancelled()) == (False, False)
        for ask in (first.result, first.exception, first.delivery):
            with pytest.raises(futures.CancelledError, match="job 0 was cancelled"):
                ask(LIMIT_S)
        assert [delivery.number for delivery in running.deliveries()] == [2]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_callbacks_are_called_with_the_handle_and_what_they_raise_is_only_logged(cluster, caplog):
    def leaves(handle):
        raise SystemExit(3)

    seen = []
    with stream(cluster) as running:
        handle = running.submit(sum_job())
        for callback in (lambda _: 1 / 0, leaves, seen.append):
            handle.add_done_callback(callback)
        handle.result(LIMIT_S)
        running.submit(sum_job()).result(LIMIT_S)
        handle.add_done_callback(seen.append)
    assert seen == [handle, handle]
    assert len([record for record in caplog.records if "a callback of" in record.message]) == 2


def test_a_callback_that_waits_for_its_own_stream_is_told_so():
    seen = []
    with stream() as running:
        gate = Gate()
        first, second = running.submit(sum_job()), running.submit(gate.job)

        def waits(handle):
            with pytest.raises(ClusterError, match="can't wait for the stream that runs it"):
                futures.wait([second])
            seen.append(handle)
            gate.go.set()

        first.add_done_callback(waits)
        second.result(LIMIT_S)
    assert seen == [first]


def test_a_handle_can_be_wrapped_for_asyncio():
    async def use():
        gate = Gate()
        with stream() as running:
            first, second, third = running.submit(sum_job(1)), running.submit(failing()), running.submit(gate.job)
            result = await asyncio.wait_for(asyncio.wrap_future(first), LIMIT_S)
            with pytest.raises(ec.JobFailed, match="ZeroDivisionError"):
                await asyncio.wrap_future(second)
            wrapped = asyncio.wrap_future(third)
            wrapped.cancel()
            with pytest.raises(asyncio.CancelledError):
                await wrapped
            await asyncio.sleep(0)  # let the loop pass it on
            assert third.cancelled()
            gate.go.set()
            return result

    np.testing.assert_allclose(asyncio.run(use()), sum_result(1))


def test_an_await_raises_what_the_job_failed_with():
    async def use(running):
        with pytest.raises(ec.JobFailed) as caught:
            await running.submit(failing())
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    for cluster in CLUSTERS:
        with stream(cluster) as running:
            asyncio.run(use(running))


def warned(caplog):
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


def test_failures_that_nobody_asks_about_are_warned_of_at_the_end_and_no_more_than_a_few(caplog):
    with stream("virtual") as running:
        handles = [running.submit(failing(), deliver=False) for _ in range(16)]
        running.submit(sum_job(), deliver=False)
        running.submit(failing())
        with pytest.raises(ec.JobFailed):
            handles[0].result()
        assert handles[1].exception() is not None
        handles[2].delivery()
        assert [delivery.number for delivery in running.deliveries()] == [17]
        futures.wait(handles)
        assert not warned(caplog)
    said = warned(caplog)
    assert len(said) == 11
    assert said[0] == "a job failed, and nobody asked: job 3: ZeroDivisionError: in update (on the master)"
    assert said[-1] == "3 more jobs failed, and nobody asked"


def test_nothing_is_said_of_failures_that_were_seen(caplog):
    with stream("virtual") as running:
        running.submit(failing())
        for _ in running.deliveries():
            pass
    assert not warned(caplog)
