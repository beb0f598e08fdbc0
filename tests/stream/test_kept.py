"""Jobs that are kept at the workers: their data travels once, and whoever asks gets its own result."""

import threading

import numpy as np
import pytest

from echelon import JobFailed, LinearJob, Stream, SumJob
from echelon.errors import ArgumentError, ClusterError
from tests.stream.jobs import sum_job, sum_result

MATRIX = np.random.default_rng(5).normal(size=(31, 7))


def product(state, found):
    return found


def products(**more):
    return LinearJob(matrix=MATRIX, update=product, state=None, parts=6, iterations=1, **more)


@pytest.mark.parametrize("cluster", ["threads", "processes"])
def test_data_travels_once_for_many_states(cluster, monkeypatch):
    with Stream(cluster, workers=3, redundancy=1.5) as stream:
        loads = []
        load = stream._cluster.load
        monkeypatch.setattr(stream._cluster, "load", lambda key, work: (loads.append(key), load(key, work)))
        kept = stream.keep(products())
        for seed in range(20):
            vector = np.random.default_rng(seed).normal(size=7)
            assert np.allclose(kept.run(vector), MATRIX @ vector, rtol=0, atol=1e-12)
        assert len(loads) == 1
        assert stream.submit(sum_job()).result() == pytest.approx(sum_result())  # others have their turn


def test_many_may_ask_at_once_and_each_gets_its_own():
    vectors = np.random.default_rng(2).normal(size=(10, 7))
    with Stream("threads", workers=2) as stream, stream.keep(products()) as kept:
        handles = [kept.submit(vector) for vector in vectors]
        found = [handle.result() for handle in handles]
        assert list(stream.deliveries()) == []
    assert np.allclose(found, vectors @ MATRIX.T, atol=1e-12)


def test_who_iterates_over_deliveries_does_not_wait_for_kept_jobs():
    gate = threading.Event()

    def held(state, total):
        gate.wait()
        return total

    job = SumJob(partial=one, update=held, state=1.0, chunks=[1.0, 2.0], iterations=1)
    with Stream("threads", workers=2) as stream, stream.keep(job) as kept:
        stream.submit(sum_job())
        slow = kept.submit(3.0)
        assert len(list(stream.deliveries())) == 1
        assert not slow.done()
        gate.set()
        assert slow.result() == pytest.approx(9.0)


def test_a_dropped_job_is_forgotten_when_the_last_that_needs_it_has_ended():
    with Stream("threads", workers=2) as stream:
        unloads = []
        unload = stream._cluster.unload
        stream._cluster.unload = lambda key: (unloads.append(key), unload(key))
        kept = stream.keep(products())
        handles = [kept.submit(np.ones(7)) for _ in range(3)]
        kept.drop()
        kept.drop()
        assert all(np.allclose(handle.result(), MATRIX.sum(axis=1)) for handle in handles)
        with pytest.raises(ClusterError, match="dropped"):
            kept.submit(np.ones(7))
        stream.submit(sum_job()).result()
        assert len(unloads) == 2  # the kept one and the job, once each


def test_a_request_that_fails_does_not_spoil_the_next():
    with Stream("threads", workers=2) as stream, stream.keep(products()) as kept:
        with pytest.raises(JobFailed, match=r"shape \(3,\)"):
            kept.run(np.ones(3))
        assert np.allclose(kept.run(np.ones(7)), MATRIX.sum(axis=1))


def test_cancelling_one_that_waits_leaves_the_one_in_service_alone():
    with Stream("threads", workers=2) as stream, stream.keep(products()) as kept:
        handles = [kept.submit(np.full(7, float(i))) for i in range(40)]
        for handle in handles[1::2]:
            handle.cancel()
        for i, handle in enumerate(handles):
            if i % 2 == 0:
                assert np.allclose(handle.result(), MATRIX.sum(axis=1) * i)
        assert np.allclose(kept.run(np.ones(7)), MATRIX.sum(axis=1))


def test_two_kept_jobs_alternate():
    with Stream("threads", workers=2) as stream:
        forth, back = stream.keep(products()), stream.keep(
            LinearJob(matrix=MATRIX.T.copy(), update=product, state=None, parts=3, iterations=1)
        )  # fmt: skip
        vector = np.ones(7)
        for _ in range(5):
            expected = MATRIX.T @ (MATRIX @ vector)
            assert np.allclose(back.run(forth.run(vector)), expected)
            vector = expected / np.linalg.norm(expected)


def test_a_worker_that_dies_between_two_requests_is_replaced_and_finds_the_data():
    with Stream("processes", workers=2, redundancy=1.0) as stream, stream.keep(products()) as kept:
        for _ in range(5):
            assert np.allclose(kept.run(np.ones(7)), MATRIX.sum(axis=1))
            stream._cluster.kill(max(stream._cluster.pids()))


def test_what_can_not_be_kept_is_refused(tmp_path):
    with (
        Stream("threads", workers=2, journal=tmp_path / "journal") as stream,
        pytest.raises(ArgumentError, match="journal"),
    ):
        stream.keep(products())
    with Stream("threads", workers=2) as stream:
        kept = stream.keep(products())
        with pytest.raises(ArgumentError, match="job: int"):
            stream.keep(3)
    with pytest.raises(ClusterError, match="closed"):
        kept.submit(np.ones(7))


def one(state, chunk):
    return state * chunk


def together(state, chunks, coefficients):
    return np.stack([state * sum(c * x for c, x in zip(coefficients, chunks, strict=True)), np.ones(())])


def flagged(state, chunk):
    return np.array([state * chunk, 0.0])


@pytest.mark.parametrize(("workers", "expected"), [(6, True), (2, False)])
def test_rows_whose_chunks_are_of_no_further_use_are_computed_at_once(workers, expected):
    """With a row a worker every row is at once; with three of a cyclic code they share chunks and are not."""
    job = SumJob(
        partial=flagged, weighted=together, update=lambda state, total: total, state=3.0,
        chunks=[float(i) for i in range(6)], iterations=1,
    )  # fmt: skip
    with Stream("threads", workers=workers, redundancy=1.5) as stream:
        total, flag = stream.submit(job).result()
    assert total == pytest.approx(45.0)
    assert bool(abs(flag) > 1e-9) is expected
