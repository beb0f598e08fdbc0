"""Idle workers begin the next job: results are what they are without, and nothing of one job shows in another."""

import gc
import os
import signal
import threading
from weakref import ref

import numpy as np
import pytest

from echelon import JobFailed, LinearJob, Stream, SumJob
from echelon.clusters import ThreadCluster
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.schemes import multi_message, pull
from echelon.stream import Observer, read_record
from echelon.stream.traced import traced
from tests.products.works import holds
from tests.stream.jobs import doubled, linear_job, linear_result, normalised, sum_job, sum_result

LIMIT_S = 60.0  # after which a test gives up; nothing is asserted about time


class Gates:
    """A job of two iterations, in both of which one worker waits while the other has nothing to do."""

    def __init__(self):
        self.first, self.second = threading.Event(), threading.Event()

    def job(self):
        return SumJob(partial=self.part, update=self.step, state=0.0, chunks=[0, 1], iterations=2)

    def part(self, state, chunk):
        if chunk:
            assert (self.second if state else self.first).wait(LIMIT_S)
        return np.array([1.0])

    def step(self, state, total):
        return state + float(total[0])

    def begin_second(self, stream):
        """Let the second iteration begin as soon as the stream has seen the jobs that wait."""
        stream._driver.order(self.first.set)


def noting(seen, result=None):
    """Return a partial that notes which chunk it was called with."""

    def partial(state, chunk):
        seen.put(chunk)
        return np.asarray(chunk * state) if result is None else result(state, chunk)

    return partial


class Came(Observer):
    """Counts messages that came before the turn of their job."""

    def __init__(self):
        self.messages = 0

    def round_over(self, seen):
        self.messages += seen.came


class Noted:
    """Chunks that were computed, for whoever waits for some of them."""

    def __init__(self):
        self.chunks, self._changed = [], threading.Condition()

    def put(self, chunk):
        with self._changed:
            self.chunks.append(chunk)
            self._changed.notify_all()

    def wait(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.chunks) >= count, LIMIT_S)


def one_slow(quick):
    """Return workers of which one keeps the others waiting in every round."""
    job = Workload(critical=6, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0))
    means = [*[1e-4] * quick, 5e-3]
    return Profile(job, [Worker(f"w{p}", mean=mean, std=0.0) for p, mean in enumerate(means)])


def plain_stream(**more):
    return Stream("threads", workers=2, redundancy=1.0, split="uniform", adapt=False, overlap=True, **more)


def test_the_next_job_is_begun_while_another_is_served_and_delivered_after_it():
    gates, noted = Gates(), Noted()
    with plain_stream() as stream:
        first = stream.submit(gates.job())
        second = stream.submit(
            SumJob(partial=noting(noted), update=normalised, state=1.0, chunks=[1.0, 2.0, 3.0, 4.0], iterations=1)
        )
        gates.begin_second(stream)
        noted.wait(4)  # the other worker does all of it
        assert not first.done()
        gates.second.set()
        assert [delivery.number for delivery in stream.deliveries()] == [first.number, second.number]
        assert second.result() == pytest.approx(10 / 11)
        assert first.result() == 4.0
    assert sorted(noted.chunks) == [1.0, 2.0, 3.0, 4.0]


def test_what_a_job_asks_for_at_first_is_asked_once(monkeypatch):
    """A vector that differs from call to call must be the same for rows that came early and for the others."""
    gates, noted, asked = Gates(), Noted(), []
    matrix = np.random.default_rng(1).normal(size=(8, 3))

    def vector(state):
        asked.append(np.random.default_rng(len(asked)).normal(size=3))
        return asked[-1]

    came = Came()
    with plain_stream(observers=[came]) as stream:
        stream.submit(gates.job())
        job = LinearJob(matrix=matrix, vector=vector, update=product, state=None, parts=4, iterations=1)
        receive = stream._driver._ahead.receive
        monkeypatch.setattr(
            stream._driver._ahead, "receive", lambda message: (receive(message), noted.put(message.row))[0]
        )
        handle = stream.submit(job)
        gates.begin_second(stream)
        noted.wait(2)
        gates.second.set()
        np.testing.assert_allclose(handle.result(), matrix @ asked[0], rtol=1e-12)
    assert len(asked) == 1
    assert came.messages >= 2


@pytest.mark.parametrize("cluster", ["virtual", "threads", "processes"])
def test_a_vector_may_be_made_in_memory_that_is_used_again(cluster):
    matrix, memory = np.random.default_rng(1).normal(size=(12, 12)) / 4, np.zeros(12)

    def vector(state):
        return np.multiply(state, 2.0, out=memory)

    job = LinearJob(matrix=matrix, vector=vector, update=product, state=None, parts=6, iterations=3)
    slow, came = one_slow(2), Came()
    with (
        Stream(cluster, emulate=slow, redundancy=1.0, split="uniform", overlap=True, observers=[came]) as stream,
        stream.keep(job) as kept,
    ):
        states = np.random.default_rng(2).normal(size=(30, 12))
        handles = [kept.submit(state) for state in states]
        for state, handle in zip(states, handles, strict=True):
            expected = np.linalg.matrix_power(2 * matrix, 3) @ state
            np.testing.assert_allclose(handle.result(), expected, rtol=1e-9, atol=1e-12)
    assert came.messages or cluster != "virtual"  # elsewhere a busy machine may leave no worker idle


def test_a_job_that_begins_with_the_state_of_the_one_before_begins_after_it():
    def in_place(state, total):
        state[:] = total
        return state

    job = SumJob(partial=doubled, update=in_place, state=None, chunks=[1.0, 1.0], iterations=2)
    with plain_stream() as stream, stream.keep(job) as kept:
        state = np.ones(2)
        for handle in [kept.submit(state), kept.submit(state)]:
            handle.result()
    assert state.tolist() == [16.0, 16.0]


def test_jobs_that_begin_with_the_same_number_overlap():
    came, options = Came(), {"redundancy": 1.0, "split": "uniform", "overlap": True}
    with Stream("virtual", emulate=one_slow(1), observers=[came], **options) as stream:
        job = SumJob(partial=counted, update=product, state=0, chunks=[1.0, 2.0, 3.0], iterations=1)
        handles = [stream.submit(job) for _ in range(30)]
        assert [float(handle.result()) for handle in handles] == [6.0] * 30
    assert came.messages


def counted(state, chunk):
    return np.array(chunk)


def test_a_record_of_jobs_that_overlap_tells_what_one_of_others_does(tmp_path):
    path, came, options = tmp_path / "record", Came(), {"redundancy": 1.0, "split": "uniform", "overlap": True}
    with Stream("virtual", emulate=one_slow(2), record=path, observers=[came], **options) as stream:
        for seed in range(20):
            stream.submit(sum_job(seed, chunks=6, iterations=1))
        assert len(list(stream.deliveries())) == 20
    assert came.messages == sum(seen.came for seen in read_record(path).rounds) > 0
    assert traced(read_record(path), np.random.default_rng(1)).profile.workload.critical == 6


def product(state, found):
    return found


@pytest.mark.parametrize(("cluster", "redundancy"), [("virtual", 1.0), ("threads", 1.4), ("processes", 1.4)])
def test_jobs_of_all_kinds_one_after_another_give_what_they_give_alone(cluster, redundancy):
    plans = {0: None, 1: pull(workers=4, parts=4, copies=2), 2: multi_message(workers=4, load=2, clusters=2, order=1)}
    came, made, options = Came(), [], {"redundancy": redundancy, "split": "uniform", "overlap": True}
    with Stream(cluster, emulate=one_slow(3), observers=[came], **options) as stream:
        for seed in range(24):
            size = {"chunks": 4, "iterations": 1 + seed % 3}
            if seed % 4 == 3:
                made.append((linear_job(seed, iterations=2), linear_result(seed, iterations=2)))
            else:
                made.append((sum_job(seed, plan=plans[seed % 4], **size), sum_result(seed, **size)))
        handles = [stream.submit(job) for job, _ in made]
        for handle, (_, expected) in zip(handles, made, strict=True):
            np.testing.assert_allclose(handle.result(), expected, rtol=1e-9)
        assert [delivery.number for delivery in stream.deliveries()] == [handle.number for handle in handles]
    assert came.messages or cluster != "virtual"  # elsewhere a busy machine may leave no worker idle


def test_a_job_that_can_t_be_computed_fails_in_its_own_turn():
    gates, noted = Gates(), Noted()

    def wrong(state, chunk):
        raise ValueError("no such chunk")

    with plain_stream() as stream:
        first = stream.submit(gates.job())
        second = stream.submit(
            SumJob(partial=noting(noted, wrong), update=normalised, state=1.0, chunks=[1.0, 2.0], iterations=1)
        )
        third = stream.submit(sum_job())
        gates.begin_second(stream)
        noted.wait(1)
        gates.second.set()
        assert first.result() == 4.0
        with pytest.raises(JobFailed, match="no such chunk"):
            second.result()
        np.testing.assert_allclose(third.result(), sum_result(), rtol=1e-9)


def test_a_job_whose_work_can_t_be_made_fails_in_its_own_turn():
    class Unmade(SumJob):
        def work(self, codes):
            raise RuntimeError("nothing to be made")

    gates = Gates()
    with plain_stream() as stream:
        first = stream.submit(gates.job())
        second = stream.submit(Unmade(partial=doubled, update=normalised, state=1.0, chunks=[1.0], iterations=1))
        gates.begin_second(stream)
        gates.second.set()
        assert first.result() == 4.0
        with pytest.raises(JobFailed, match="nothing to be made"):
            second.result()


def test_a_job_that_kills_its_workers_does_not_take_the_one_before_with_it():
    with Stream("processes", workers=2, redundancy=1.0, split="uniform", overlap=True) as stream:
        first = stream.submit(sum_job(iterations=40))
        deadly = SumJob(partial=suicide, update=normalised, state=1.0, chunks=[1.0, 2.0], iterations=1)
        second, third = stream.submit(deadly), stream.submit(sum_job(2))
        np.testing.assert_allclose(first.result(), sum_result(iterations=40), rtol=1e-9)
        second.cancel()
        np.testing.assert_allclose(third.result(), sum_result(2), rtol=1e-9)


def suicide(state, chunk):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_job_that_is_cancelled_after_it_was_begun_leaves_nothing_behind():
    gates, noted = Gates(), Noted()
    cluster = ThreadCluster(2)
    with Stream(cluster, redundancy=1.0, split="uniform", adapt=False, overlap=True) as stream:
        stream.submit(gates.job())
        chunk = np.ones(3)
        held = ref(chunk)
        second = stream.submit(
            SumJob(partial=noting(noted), update=normalised, state=1.0, chunks=[chunk, 2 * chunk], iterations=1)
        )
        gates.begin_second(stream)
        noted.wait(2)
        second.cancel()
        gates.second.set()
        third = stream.submit(sum_job())
        np.testing.assert_allclose(third.result(), sum_result(), rtol=1e-9)
        noted.chunks.clear()
        del chunk, second
    assert not holds(cluster)
    gc.collect()
    assert held() is None


def test_messages_are_counted_for_the_job_that_they_are_for():
    gates, noted = Gates(), Noted()
    with plain_stream() as stream:
        stream.submit(gates.job())
        stream.submit(SumJob(partial=noting(noted), update=normalised, state=1.0, chunks=[1.0, 2.0], iterations=2))
        gates.begin_second(stream)
        noted.wait(2)
        gates.second.set()
        first, second = stream.deliveries()
    assert (first.messages, first.nbytes) == (4, 32)
    assert (second.messages, second.nbytes) == (4, 32)
