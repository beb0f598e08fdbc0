"""Jobs of all kinds on a stream of ranks: run by test_mpi.py under mpiexec, with three workers."""

import numpy as np
import pytest

import echelon as ec
from echelon import schemes
from echelon.errors import ClusterError
from tests.stream.jobs import doubled, linear_job, linear_result, normalised, sum_job, sum_result
from tests.stream.test_blocks import by_block, residuals, step

WORKERS, LIMIT_S = 3, 60.0
PLANS = {
    "one message": lambda: schemes.gradient_coding(workers=WORKERS, load=2),
    "multi-message": lambda: schemes.multi_message(workers=WORKERS, load=2, order=1),
    "uncoded": lambda: schemes.uncoded_multi_message(workers=WORKERS, load=2),
}


@pytest.fixture(scope="module")
def stream():
    with ec.Stream("mpi", redundancy=1.5) as opened:
        assert opened.workers == WORKERS
        yield opened


def test_sums_with_redundancy_are_those_of_one_process(stream):
    handles = [stream.submit(sum_job(seed)) for seed in range(4)]
    for seed, handle in enumerate(handles):
        np.testing.assert_allclose(handle.result(LIMIT_S), sum_result(seed), rtol=1e-9)


def test_products_with_a_vector_are_those_of_one_process(stream):
    np.testing.assert_allclose(stream.submit(linear_job()).result(LIMIT_S), linear_result(), rtol=1e-6)


def test_large_states_and_large_results_arrive_as_they_were_sent(stream):
    """Each state is changed in place while it may still be on its way to a slow worker."""
    size = 300_000

    def grow(state, total):
        state *= 0.5
        state += total / 8
        return state

    job = ec.SumJob(
        partial=lambda state, chunk: state * chunk, update=grow, state=np.arange(float(size)), chunks=[1.0, 3.0] * 2,
        iterations=5,
    )  # fmt: skip
    np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), 1.5**5 * np.arange(float(size)), rtol=1e-9)


def test_complex_numbers_and_trees_travel_too(stream):
    job = ec.SumJob(
        partial=lambda state, chunk: {"a": chunk * np.full(20_000, 1j), "b": (np.ones(3, dtype=np.float32), 2.0)},
        update=lambda state, total: total, state=0.0, chunks=[1.0, 2.0], iterations=1,
    )  # fmt: skip
    found = stream.submit(job).result(LIMIT_S)
    np.testing.assert_allclose(found["a"], np.full(20_000, 3j))
    assert found["b"][1] == pytest.approx(4.0)


def test_a_worker_may_return_the_same_memory_for_every_part(stream):
    """A large result leaves from where it lies: the next part must not be written there before it has left."""
    job = ec.SumJob(partial=_reuse, update=normalised, state=1.0, chunks=[float(i) for i in range(12)], iterations=3)
    total = sum(range(12))
    state = 1.0
    for _ in range(3):
        state = normalised(state, np.full(50_000, total * np.mean(state)))
    np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), state, rtol=1e-9)


BUFFER = np.zeros(50_000)


def _reuse(state, chunk):
    BUFFER[:] = chunk * np.mean(state)
    return BUFFER


@pytest.mark.parametrize("name", PLANS)
def test_plans_with_several_slots_run(stream, name):
    plan = PLANS[name]()
    job = ec.SumJob(
        partial=doubled, update=normalised, state=np.ones(4), iterations=8, plan=plan,
        chunks=list(np.random.default_rng(1).uniform(0.5, 1.5, (WORKERS, 4))),
    )  # fmt: skip
    np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), sum_result(chunks=WORKERS), rtol=1e-9)


def test_gradients_by_blocks_are_those_of_one_process(stream):
    data = np.random.default_rng(1).standard_normal((30, 6))
    labels = (data.sum(axis=1) > 0).astype(float)
    chunks = [(data[i::WORKERS], labels[i::WORKERS]) for i in range(WORKERS)]
    job = ec.BlockJob(
        partial=by_block, prepare=residuals, update=step, state=np.zeros(6), chunks=chunks, iterations=6,
        plan=schemes.block_coordinate(WORKERS, [2, 3, 1]),
    )  # fmt: skip
    weights = np.zeros(6)
    for _ in range(6):
        weights = weights - 0.1 * data.T @ residuals(weights, (data, labels))
    np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), weights, rtol=1e-9)


def test_a_task_that_raises_or_leaves_fails_its_job_and_no_other(stream):
    bad = sum_job()
    bad.partial = lambda state, chunk: 1 / 0
    leaving = sum_job()
    leaving.partial = lambda state, chunk: exit(3)
    handles = [stream.submit(job) for job in (bad, leaving, sum_job(2))]
    with pytest.raises(ec.JobFailed, match="ZeroDivisionError"):
        handles[0].result(LIMIT_S)
    with pytest.raises(ec.JobFailed, match="SystemExit: 3"):
        handles[1].result(LIMIT_S)
    np.testing.assert_allclose(handles[2].result(LIMIT_S), sum_result(2), rtol=1e-9)


def test_a_second_stream_at_the_same_time_is_refused(stream):
    with pytest.raises(ClusterError, match="close it first"):
        ec.Stream("mpi")
