"""Streams on threads, where nothing depends on the machine; processes have their own tests."""

import asyncio
import concurrent.futures
import logging
import threading

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import ThreadCluster
from echelon.errors import ClusterError, JobFailed
from echelon.jobs import LinearJob, SumJob
from tests.stream.jobs import doubled, linear_job, linear_result, normalised, sum_job, sum_result


def stream(**more):
    return ec.Stream(**{"cluster": "threads", "workers": 3, "redundancy": 1.3} | more)


def test_results_equal_those_without_a_stream_and_come_in_order():
    with stream() as running:
        handles = [running.submit(sum_job(seed, name=f"sum {seed}")) for seed in range(4)]
        handles += [running.submit(linear_job(seed)) for seed in range(3)]
        found = list(running.deliveries())
    assert [done.number for done in found] == list(range(7))
    assert [done.name for done in found] == ["sum 0", "sum 1", "sum 2", "sum 3", "job 4", "job 5", "job 6"]
    for seed in range(4):
        np.testing.assert_allclose(handles[seed].result(), sum_result(seed), rtol=1e-10)
    for seed in range(3):
        np.testing.assert_allclose(handles[4 + seed].result(), linear_result(seed), rtol=1e-8)
    for done in found:
        assert done.error is None
        assert done.delay > 0
        assert 0 < done.error_estimate.relative_to_terms < 1e-8
        assert done.iterations == (8 if done.number < 4 else 20)


@pytest.mark.parametrize("redundancy", [1.0, 1.2, 3.0, 12.0])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_redundancy_on_any_number_of_workers_gives_the_same(redundancy, workers):
    with stream(redundancy=redundancy, workers=workers) as running:
        handle, other = running.submit(sum_job()), running.submit(linear_job(parts=4, size=31))
        np.testing.assert_allclose(handle.result(), sum_result(), rtol=1e-8)
        np.testing.assert_allclose(other.result(), linear_result(size=31), rtol=1e-7)


def test_a_single_part_and_more_workers_than_parts_are_fine():
    with stream(workers=4) as running:
        np.testing.assert_allclose(running.submit(sum_job(chunks=1)).result(), sum_result(chunks=1))
        np.testing.assert_allclose(running.submit(linear_job(parts=1)).result(), linear_result())


def test_float32_stays_float32_with_its_own_error_estimate():
    matrix = np.random.default_rng(1).standard_normal((20, 20)).astype(np.float32)
    job = LinearJob(matrix=matrix, parts=5, state=np.ones(20, np.float32), update=lambda old, new: new, iterations=1)
    with stream(redundancy=1.4) as running:
        done = running.submit(job).delivery()
    assert done.result.dtype == np.float32
    np.testing.assert_allclose(done.result, matrix @ np.ones(20, np.float32), rtol=1e-4, atol=1e-4)
    assert 1e-8 < done.error_estimate.relative_to_terms < 1e-3


@pytest.mark.parametrize("plan", [None, "slots"])
def test_gradients_that_cancel_have_few_digits_and_the_delivery_says_so(plan):
    chunks = np.random.default_rng(1).standard_normal((6, 40))
    chunks[-1] = 1e-3 * chunks[0] - chunks[:-1].sum(axis=0)
    chunks = chunks.astype(np.float32)
    plan = plan and ec.schemes.multi_message(workers=6, load=2, clusters=2, order=2)
    job = SumJob(
        partial=lambda state, chunk: chunk, update=lambda state, total: total, state=chunks[0], chunks=list(chunks),
        iterations=1, plan=plan,
    )  # fmt: skip
    with stream(workers=6) as running:
        done = running.submit(job).delivery()
    wanted = chunks.astype(float).sum(axis=0)
    error = np.abs(done.result - wanted).max()
    assert error <= 10 * done.error_estimate.relative_to_terms * np.abs(chunks).sum(axis=0).max()
    assert error <= 10 * done.error_estimate.relative_to_result * np.abs(wanted).max()
    assert done.error_estimate.relative_to_terms < 1e-4
    assert done.error_estimate.relative_to_result > 100 * done.error_estimate.relative_to_terms


def test_a_job_ends_when_its_condition_says_so():
    with stream() as running:
        done = running.submit(sum_job(iterations=None, until=lambda state: state.max() < 0.95)).delivery()
        assert done.result.max() < 0.95
        assert done.iterations >= 1
        assert running.submit(sum_job(iterations=2, until=lambda state: False)).delivery().iterations == 2


def test_chunks_may_be_loaded_on_the_worker():
    data = np.random.default_rng(1).uniform(0.5, 1.5, (12, 4))
    job = SumJob(
        partial=doubled, update=normalised, state=np.ones(4), load=lambda i: data[i], parts=12, iterations=8
    )  # fmt: skip
    with stream() as running:
        np.testing.assert_allclose(running.submit(job).result(), sum_result(), rtol=1e-10)


@pytest.mark.parametrize("where", ["partial", "update", "until", "vector"])
def test_a_job_whose_code_raises_fails_alone_with_its_traceback(where):
    def broken(*arguments):
        raise ZeroDivisionError(f"in {where}")

    bad = linear_job(vector=broken) if where == "vector" else sum_job(until=broken if where == "until" else None)
    if where in ("partial", "update"):
        setattr(bad, where, broken)
    with stream() as running:
        first, second, third = running.submit(sum_job(1)), running.submit(bad), running.submit(sum_job(3))
        found = list(running.deliveries())
        assert [done.number for done in found] == [0, 1, 2]
        with pytest.raises(JobFailed, match=f"ZeroDivisionError: in {where}"):
            second.result()
        assert isinstance(second.exception(), JobFailed)
        assert "on worker" in str(found[1].error) if where == "partial" else "on the master" in str(found[1].error)
        np.testing.assert_allclose(first.result(), sum_result(1))
        np.testing.assert_allclose(third.result(), sum_result(3))
        assert first.exception() is None


def test_killed_workers_change_nothing_about_results():
    cluster = ThreadCluster(3)
    with ec.Stream(cluster, redundancy=1.2) as running:
        handles = [running.submit(sum_job(seed, iterations=30)) for seed in range(6)]
        for handle in handles:
            cluster.kill(max(cluster._threads))
            np.testing.assert_allclose(handle.result(60), sum_result(handle.number, iterations=30), rtol=1e-8)


def test_jobs_can_be_cancelled_in_the_queue_and_while_they_run():
    started, go = threading.Event(), threading.Event()

    def wait(state, chunk):
        started.set()
        go.wait(60)
        return doubled(state, chunk)

    held = sum_job()
    held.partial = wait
    with stream() as running:
        first, second, third = running.submit(held), running.submit(sum_job()), running.submit(sum_job(3))
        assert started.wait(60)
        second.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            second.result(60)
        assert second.cancelled()
        first.cancel()
        go.set()
        with pytest.raises(concurrent.futures.CancelledError):
            first.result(60)
        assert [done.number for done in running.deliveries()] == [2]
        np.testing.assert_allclose(third.result(), sum_result(3))
        third.cancel()
    assert not third.cancelled()


def test_a_handle_tells_its_progress():
    with stream() as running:
        handle = running.submit(sum_job(iterations=5))
        handle.result()
        assert (handle.progress.iteration, handle.progress.iterations) == (5, 5)
        assert handle.done()
        assert "ended" in repr(handle)


def test_deliveries_and_handles_can_be_awaited():
    async def use():
        with stream() as running:
            handles = [running.submit(sum_job(seed)) for seed in range(3)]
            one = await handles[1]
            numbers = [done.number async for done in running]
        return one, numbers

    one, numbers = asyncio.run(use())
    np.testing.assert_allclose(one, sum_result(1))
    assert numbers == [0, 1, 2]


def test_jobs_may_be_submitted_from_many_threads_and_between_deliveries():
    with stream() as running:
        threads = [threading.Thread(target=lambda: running.submit(sum_job())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        numbers = []
        for done in running.deliveries():
            numbers.append(done.number)
            if len(numbers) == 3:
                running.submit(sum_job())
        assert numbers == list(range(9))
        assert list(running.deliveries()) == []


def test_leaving_the_stream_waits_for_its_jobs_and_leaving_it_by_an_error_drops_them():
    with stream() as running:
        handle = running.submit(sum_job())
    assert handle.done()
    np.testing.assert_allclose(handle.result(), sum_result())

    def leave():
        with stream() as running:
            handles.append(running.submit(sum_job(iterations=10**6)))
            raise KeyboardInterrupt

    handles = []
    with pytest.raises(KeyboardInterrupt):
        leave()
    assert handles[0].cancelled()
    with pytest.raises(ClusterError, match="closed"):
        running.submit(sum_job())
    running.close()


def test_a_noisy_recovery_waits_for_another_row_and_fails_only_when_none_is_left():
    with stream(redundancy=1.5, workers=2) as running:
        np.testing.assert_allclose(running.submit(sum_job(tolerance=1e-14)).result(), sum_result(), rtol=1e-9)
        with pytest.raises(JobFailed, match="noisy"):
            running.submit(sum_job(tolerance=1e-18)).result()


def test_memory_of_a_round_is_given_back_at_its_end():
    with stream() as running:
        running.submit(sum_job(iterations=200)).result()
        driver = running._driver
        assert len(driver._rows) == 0
        assert driver._rows._weights == {}
        assert driver._jobs == {}
        assert len(driver._steps.over) <= 1
        assert running._out.outstanding() == []


def test_a_vector_of_the_wrong_length_fails_the_job_with_the_reason():
    with stream() as running, pytest.raises(JobFailed, match=r"vector: shape \(29,\) is not allowed"):
        running.submit(linear_job(vector=lambda state: state[:29])).result()


def test_waiting_with_a_timeout_does_not_stop_the_job():
    async def use():
        go = threading.Event()
        job = sum_job()
        job.partial = lambda state, chunk: go.wait(60) and doubled(state, chunk)
        with stream() as running:
            handle = running.submit(job)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(handle, 0.01)
            assert not handle.cancelled()
            go.set()
            return await handle

    np.testing.assert_allclose(asyncio.run(use()), sum_result())


def test_closing_without_waiting_frees_those_who_wait_for_deliveries():
    running = stream()
    handle = running.submit(sum_job(iterations=10**7))
    found = []
    waiting = threading.Thread(target=lambda: found.extend(running.deliveries()))
    waiting.start()
    running.close(wait=False)
    waiting.join(60)
    assert not waiting.is_alive()
    assert found == []
    assert handle.cancelled()
    handle.cancel()
    assert running._out.broken is None


def test_a_job_cant_close_its_own_stream():
    with stream() as running:
        job = sum_job()
        job.update = lambda state, total: running.close(wait=False)
        with pytest.raises(JobFailed, match="can't close the stream that runs it"):
            running.submit(job).result()


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (lambda state, chunk: {}, "result: nothing is not allowed"),
        (lambda state, chunk: [1.0] * 11_000, "result: 11000 arrays is not allowed"),
        (lambda state, chunk: {"a" if chunk[0] > 1 else "b": chunk}, "different forms"),
        (lambda state, chunk: np.ones(2, np.float32 if chunk[0] > 1 else np.float64), "different forms"),
        (lambda state, chunk: exec("raise SystemExit(3)"), "SystemExit: 3"),
    ],
)
def test_results_that_cant_be_summed_fail_the_job_with_the_reason(result, said):
    job = sum_job()
    job.partial = result
    with stream(redundancy=1.0) as running:
        with pytest.raises(JobFailed, match=said):
            running.submit(job).result(60)
        np.testing.assert_allclose(running.submit(sum_job()).result(), sum_result())


def test_a_partial_result_may_live_in_a_buffer_that_is_used_again():
    buffer = np.empty(4)

    def reused(state, chunk):
        np.multiply(state, chunk, out=buffer)
        return buffer

    job = sum_job()
    job.partial = reused
    with stream(workers=1) as running:
        np.testing.assert_allclose(running.submit(job).result(), sum_result(), rtol=1e-10)


def test_a_job_can_be_submitted_again_and_again():
    def in_place(state, total):
        state[:] = normalised(state, total)
        return state

    job = sum_job()
    job.update = in_place
    with stream() as running:
        for handle in [running.submit(job) for _ in range(3)]:
            np.testing.assert_allclose(handle.result(), sum_result(), rtol=1e-10)


def test_an_update_that_returns_nothing_is_named():
    job = sum_job()
    job.update = lambda state, total: None
    with stream() as running, pytest.raises(JobFailed, match="update: returned None"):
        running.submit(job).result()


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.bool_])
def test_narrow_matrices_are_coded_in_numbers_that_hold_their_parity(dtype):
    rng = np.random.default_rng(1)
    matrix = rng.integers(0, 2, (20, 8)).astype(dtype)
    job = LinearJob(matrix=matrix, parts=5, state=rng.standard_normal(8), update=lambda old, new: new, iterations=1)
    with stream(redundancy=2.0) as running:
        done = running.submit(job).delivery()
    wide = job.matrix
    np.testing.assert_allclose(done.result, wide @ job.state.astype(wide.dtype), atol=200 * np.finfo(wide.dtype).eps)
    assert done.error_estimate.relative_to_terms >= np.finfo(wide.dtype).eps
    assert done.result.dtype == wide.dtype


def test_an_asynchronous_loop_that_is_given_up_loses_no_delivery():
    async def use():
        go = threading.Event()
        job = sum_job()
        job.partial = lambda state, chunk: go.wait(60) and doubled(state, chunk)
        with stream() as running:
            running.submit(job)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(aiter(running)), 0.05)
            go.set()
            return [done.number async for done in running]

    assert asyncio.run(use()) == [0]


def test_a_callback_of_a_future_may_use_the_stream():
    seen = []
    with stream() as running:
        handle = running.submit(sum_job())
        handle.add_done_callback(lambda future: seen.append(len(running._out.outstanding())))
        handle.result()
    assert seen == [0]


def test_an_uncoded_part_may_live_in_a_buffer_that_is_used_again():
    buffer = np.empty(4)

    def reused(state, chunk):
        np.multiply(state, chunk, out=buffer)
        return buffer

    job = sum_job()
    job.partial = reused
    with stream(workers=1, redundancy=1.0) as running:
        np.testing.assert_allclose(running.submit(job).result(), sum_result(), rtol=1e-10)


def test_a_record_that_cant_be_written_any_more_is_logged_and_results_come_all_the_same(tmp_path, caplog):
    running = stream(record=tmp_path / "run")
    (recorder,) = running._told._all
    recorder._file.close()
    recorder._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 - the recorder closes it
    for seed in range(2):
        np.testing.assert_allclose(running.submit(sum_job(seed)).result(), sum_result(seed), rtol=1e-10)
    running.close()
    said = [text for text in map(logging.LogRecord.getMessage, caplog.records) if "record" in text]
    assert len(said) == 1
    assert said[0].startswith(f"the record {tmp_path / 'run'} ends here")
