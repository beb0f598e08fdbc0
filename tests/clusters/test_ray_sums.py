"""Jobs whose rows stay in Ray's object store: what passes through the driver, and who dies or stops meanwhile."""

import os
import pickle
import signal
from concurrent.futures import CancelledError

import numpy as np
import pytest

import echelon as ec
from echelon.clusters.ray_actor import RayActor
from echelon.ports import LARGE
from tests.clusters.desk import LIMIT_S


@pytest.fixture
def counted(local_ray, monkeypatch):
    """Return a list whose only number counts the bytes that this process puts, gets and sends."""
    seen = [0]

    def size(value):
        beside = []
        pickled = pickle.dumps(value, protocol=5, buffer_callback=beside.append)
        return len(pickled) + sum(buffer.raw().nbytes for buffer in beside)

    put, get, tell = local_ray.put, local_ray.get, RayActor.tell

    def counted_put(value, **more):
        seen[0] += size(value)
        return put(value, **more)

    def counted_get(reference, **more):
        found = get(reference, **more)
        seen[0] += size(found)
        return found

    def counted_tell(self, *order, references=()):
        seen[0] += size(order) + 100 * len(references)
        tell(self, *order, references=references)

    monkeypatch.setattr(local_ray, "put", counted_put)
    monkeypatch.setattr(local_ray, "get", counted_get)
    monkeypatch.setattr(RayActor, "tell", counted_tell)
    return seen


def halved(state, total):
    return total / np.abs(total).max()


class Gathered(ec.SumJob):
    """Its rows come to the driver."""

    added = False


SIZE = 1_000_000


def _job(seen=None, kind=ec.SumJob, iterations=4, marks=None, **more):
    def update(state, total):
        if marks is not None:
            marks.append(seen[0])
        return halved(state, total)

    return kind(
        partial=lambda state, chunk: state * chunk, update=update, state=np.linspace(0.5, 1.0, SIZE),
        chunks=[1.0, 2.0, 3.0, 4.0], iterations=iterations, **more,
    )  # fmt: skip


def _result(iterations=4):
    state = np.linspace(0.5, 1.0, SIZE)
    for _ in range(iterations):
        state = halved(state, 10.0 * state)
    return state


@pytest.mark.parametrize("workers", [2, 4])
def test_what_passes_through_the_driver_does_not_grow_with_the_workers(counted, workers):
    """A state of 8 MB out, a total of 8 MB in, a few kB of orders; with rows gathered here, at least one per part."""
    total = 8 * SIZE
    with ec.Stream("ray", workers=workers, redundancy=1.0) as stream:
        for kind in (ec.SumJob, Gathered):
            marks = []
            found = stream.submit(_job(counted, kind, marks=marks)).result(LIMIT_S)
            np.testing.assert_allclose(found, _result(), rtol=1e-12)
            most = max(np.diff(marks))
            if kind is ec.SumJob:
                assert most <= 2.2 * total + 100_000
            else:
                assert most >= 5 * total


@pytest.fixture(scope="module")
def stream(local_ray):
    with ec.Stream("ray", workers=3, redundancy=1.5) as opened:
        yield opened


@pytest.mark.parametrize("with_signal", [signal.SIGKILL, signal.SIGSTOP])
def test_coded_sums_are_exact_whoever_dies_or_stops_while_they_are_added(stream, monkeypatch, with_signal):
    cluster, hit = stream._cluster, []
    add = cluster.add

    def disturbed(round, sums):
        if not hit:
            hit.append(sums[0].messages[0].worker)
            assert all(message.elsewhere for message in sums[0].messages)
            os.kill(cluster.pids()[hit[0]], with_signal)
        add(round, sums)

    monkeypatch.setattr(cluster, "add", disturbed)
    found = stream.submit(_job()).result(LIMIT_S)
    np.testing.assert_allclose(found, _result(), rtol=1e-9)
    assert hit
    if with_signal == signal.SIGSTOP and hit[0] in cluster.pids():
        os.kill(cluster.pids()[hit[0]], signal.SIGCONT)


def test_rows_that_are_lost_after_they_were_chosen_are_computed_again(stream, monkeypatch, lost):
    cluster, hit = stream._cluster, []
    add = cluster.add

    def disturbed(round, sums):
        if not hit:
            hit.append(round)
            sums[0].messages[0].token.references[:] = [lost] * len(sums[0].messages[0].token.references)
        add(round, sums)

    monkeypatch.setattr(cluster, "add", disturbed)
    found = stream.submit(_job()).delivery(LIMIT_S)
    np.testing.assert_allclose(found.result, _result(), rtol=1e-9)
    assert (found.iterations, len(hit)) == (4, 1)


def test_a_job_may_be_cancelled_while_it_is_added_up(stream, monkeypatch):
    cluster, handles, stopped = stream._cluster, [], []
    add = cluster.add

    def disturbed(round, sums):
        if not stopped:
            stopped.extend(cluster.pids().values())
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            add(round, sums)
            handles[0].cancel()
        else:
            add(round, sums)

    monkeypatch.setattr(cluster, "add", disturbed)
    handles.append(stream.submit(_job()))
    try:
        with pytest.raises(CancelledError):
            handles[0].result(LIMIT_S)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    np.testing.assert_allclose(stream.submit(_job()).result(LIMIT_S), _result(), rtol=1e-9)


def test_small_messages_come_as_before(stream, monkeypatch):
    seen = []
    add = stream._cluster.add
    monkeypatch.setattr(stream._cluster, "add", lambda *asked: (seen.append(asked), add(*asked)))
    job = ec.SumJob(
        partial=lambda state, chunk: state * chunk, update=halved, state=np.linspace(0.5, 1.0, LARGE // 8 - 1),
        chunks=[1.0, 2.0, 3.0], iterations=2,
    )  # fmt: skip
    stream.submit(job).result(LIMIT_S)
    assert not seen
