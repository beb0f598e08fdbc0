"""Streams in virtual time: results of a plain loop, times as the profile says them, and one run for each seed."""

import asyncio

import numpy as np
import pytest
from sklearn.linear_model import Ridge as PlainRidge

import echelon as ec
from echelon.clusters import VirtualCluster, new_key, shipping
from echelon.profile import Arrivals, Costs, Profile, Worker, Workload
from echelon.schemes import diagonal_interleaved, multi_message, pull
from echelon.sklearn import Ridge, using
from echelon.stream import read_record
from tests.products.works import check, pairs
from tests.stream.jobs import linear_job, linear_result, sum_job, sum_result

JOB = Workload(critical=12, redundancy=1.2, iterations=8, arrivals=Arrivals.poisson(0.01))
VARIED = Profile(JOB, [Worker(f"w{p}", mean=0.5 + p, std=0.4, link=0.1 * p) for p in range(4)])
COSTLY = Profile(JOB, VARIED.workers, costs=Costs(message=0.01, round=0.05, bandwidth=1e4))


def steady(workers, **costs):
    """Return workers that take a second for a part, whatever happens."""
    return Profile(JOB, [Worker(f"w{p}", mean=1.0, std=0.0) for p in range(workers)], costs=Costs(**costs))


@pytest.mark.parametrize("emulate", [None, VARIED, COSTLY], ids=["a second each", "varied", "costly"])
@pytest.mark.parametrize("overlap", [False, True])
def test_results_are_those_of_a_plain_loop(emulate, overlap):
    workers = 4 if emulate is None else None
    plans = [None, pull(workers=4, parts=12, copies=2), multi_message(workers=4, load=2, clusters=2, order=1)]
    with ec.Stream("virtual", workers=workers, emulate=emulate, redundancy=1.4, overlap=overlap) as stream:
        sums = [
            stream.submit(sum_job(seed, plan=plan, chunks=4 if seed == 2 else 12)) for seed, plan in enumerate(plans)
        ]
        linear = stream.submit(linear_job())
        for seed, handle in enumerate(sums):
            np.testing.assert_allclose(handle.result(), sum_result(seed, chunks=4 if seed == 2 else 12), rtol=1e-9)
        np.testing.assert_allclose(linear.result(), linear_result(), rtol=1e-6)
        assert stream.now() > 0


# a seed is one run


def a_few_jobs(stream):
    for seed in range(3):
        stream.submit(sum_job(seed))
    stream.submit(linear_job())


def jobs_that_arrive(stream):
    for seed in range(6):
        stream.sleep(3.0)
        stream.submit(sum_job(seed, iterations=3))
    assert [delivery.number for delivery in stream] == list(range(6))


def products_with_a_matrix(stream):
    matrix = np.random.default_rng(1).normal(size=(24, 5))
    with ec.linear_operator(matrix, stream=stream) as operator:
        for vector in np.random.default_rng(2).normal(size=(5, 5)):
            np.testing.assert_allclose(operator @ vector, matrix @ vector)
            np.testing.assert_allclose(operator.T @ (matrix @ vector), matrix.T @ (matrix @ vector))


def a_fit(stream):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(80, 3)), rng.normal(size=80)
    with using(stream):
        np.testing.assert_allclose(Ridge().fit(X, y).coef_, PlainRidge().fit(X, y).coef_, rtol=1e-6)


def a_training(stream):
    import torch
    from torch import nn

    from echelon.torch import CodedGradient
    from tests.torch.networks import digits, perceptron, plain_gradient

    model, loss, data = perceptron(torch.float64), nn.CrossEntropyLoss(), digits(np.float64)
    with CodedGradient(model, loss, data, stream=stream, batch_size=50) as coded:
        for step in range(3):
            wanted, value = plain_gradient(model, loss, data, coded.batch(step))
            model.zero_grad()
            assert float(coded.backward()) == pytest.approx(float(value), rel=1e-11)
            for parameter, expected in zip(model.parameters(), wanted, strict=True):
                torch.testing.assert_close(parameter.grad, expected)


def of_a_stream(use, **options):
    """Return what writes the record of a stream that is used in some way."""

    def write(path, seed):
        with ec.Stream("virtual", record=path, seed=seed, **({"emulate": COSTLY} | options)) as stream:
            use(stream)

    return write


def of_matrix_products(path, seed):
    scheme = diagonal_interleaved(4, x=2, y=3, delay=2)
    given = pairs(12)
    with ec.MatmulStream("virtual", scheme, emulate=COSTLY, record=path, seed=seed) as stream:
        for found, (first, second) in zip(stream.products(given), given, strict=True):
            check(found, first, second)


RUNS = {
    "jobs": of_a_stream(a_few_jobs),
    "jobs without costs": of_a_stream(a_few_jobs, emulate=VARIED),
    "jobs by the best strategy": of_a_stream(a_few_jobs, profile=VARIED, emulate=None, strategy="auto"),
    "jobs that overlap": of_a_stream(a_few_jobs, overlap=True, redundancy=1.0),
    "jobs that arrive": of_a_stream(jobs_that_arrive),
    "jobs that arrive and overlap": of_a_stream(jobs_that_arrive, overlap=True),
    "linear_operator": of_a_stream(products_with_a_matrix),
    "scikit-learn": of_a_stream(a_fit),
    "CodedGradient": of_a_stream(a_training, redundancy=1.4),
    "MatmulStream": of_matrix_products,
}


@pytest.mark.parametrize("write", RUNS.values(), ids=RUNS)
def test_two_runs_with_one_seed_write_equal_records_and_another_seed_another(write, tmp_path):
    records = []
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        write(tmp_path / name, seed)
        records.append((tmp_path / name).read_bytes())
    assert records[0] == records[1]
    assert records[0] != records[2]


@pytest.mark.parametrize("name", ["jobs that overlap", "MatmulStream"])
def test_a_run_is_the_same_whatever_the_program_did_before(name, tmp_path):
    """What was loaded before has taken small keys; large ones must not make a state longer."""
    records = []
    for used in (0, 300, 70_000):
        for _ in range(used):
            new_key()
        RUNS[name](tmp_path / "record", 1)
        records.append((tmp_path / "record").read_bytes())
    assert records[0] == records[1] == records[2]


# who waits lets time pass


def test_time_passes_only_while_somebody_waits():
    with ec.Stream("virtual", workers=2) as stream:
        handle = stream.submit(sum_job())
        assert (stream.now(), handle.done()) == (0.0, False)
        stream.sleep(2.5)
        assert stream.now() == 2.5
        handle.result()
        ended = stream.now()
        assert handle.done()
        stream.sleep(0.0)
        assert stream.now() == ended


def test_a_limit_of_a_wait_is_in_virtual_seconds():
    with ec.Stream("virtual", emulate=steady(1), redundancy=1.0) as stream:
        handle = stream.submit(sum_job(chunks=3, iterations=4))
        for wait in (handle.result, handle.exception, handle.delivery):
            before = stream.now()
            with pytest.raises(TimeoutError):
                wait(timeout=3.5)
            assert stream.now() == before + 3.5
        assert handle.progress.iteration == 3
        np.testing.assert_allclose(handle.result(timeout=1.5), sum_result(chunks=3, iterations=4))
        assert stream.now() == 12.0
        assert handle.delivery().delay == 12.0


def test_a_handle_can_be_awaited_and_deliveries_iterated_over():
    async def use(stream):
        first, second = stream.submit(sum_job(1)), stream.submit(sum_job(2))
        results = await asyncio.gather(second, first)
        return results, [delivery.number async for delivery in stream]

    with ec.Stream("virtual", workers=3) as stream:
        (second, first), numbers = asyncio.run(use(stream))
    np.testing.assert_allclose(first, sum_result(1), rtol=1e-9)
    np.testing.assert_allclose(second, sum_result(2), rtol=1e-9)
    assert numbers == [0, 1]


def test_deliveries_are_waited_for_asynchronously():
    async def use(stream):
        for seed in range(3):
            stream.submit(sum_job(seed))
        return [delivery.number async for delivery in stream]

    with ec.Stream("virtual", workers=2) as stream:
        assert asyncio.run(use(stream)) == [0, 1, 2]


def test_a_job_s_own_code_cant_wait_for_the_stream_that_runs_it():
    def waits(state, total):
        return other.result() + total

    with ec.Stream("virtual", workers=1) as stream:
        job = sum_job()
        job.update = waits
        handle, other = stream.submit(job), stream.submit(sum_job(2))
        with pytest.raises(ec.JobFailed, match="a job's own code can't wait for the stream that runs it"):
            handle.result()
        np.testing.assert_allclose(other.result(), sum_result(2), rtol=1e-9)


def test_an_interrupt_in_a_job_s_own_code_ends_the_stream_and_goes_on_to_who_waits():
    def interrupted(state, total):
        raise KeyboardInterrupt

    stream = ec.Stream("virtual", workers=1)
    job = sum_job()
    job.update = interrupted
    first, second = stream.submit(job), stream.submit(sum_job(2))
    with pytest.raises(KeyboardInterrupt):
        first.result()
    with pytest.raises(ec.errors.ClusterError, match="the stream broke down"):
        second.result()
    with pytest.raises(ec.errors.ClusterError, match="the stream broke down"):
        stream.submit(sum_job())
    with pytest.raises(ec.errors.ClusterError, match="the stream broke down"):
        stream.close()


def test_a_stream_that_is_left_by_an_error_drops_what_is_outstanding():
    stream = ec.Stream("virtual", workers=1)
    handle = stream.submit(sum_job())
    with pytest.raises(ZeroDivisionError), stream:
        raise ZeroDivisionError
    assert handle.cancelled()
    assert stream.now() == 0.0


def test_a_job_is_cancelled_at_a_time():
    with ec.Stream("virtual", emulate=steady(1), redundancy=1.0) as stream:
        first, second = (stream.submit(sum_job(seed, chunks=2, iterations=5)) for seed in (1, 2))
        stream.sleep(3.0)
        first.cancel()
        np.testing.assert_allclose(second.result(), sum_result(2, chunks=2, iterations=5))
        assert first.cancelled()
        assert stream.now() == 3.0 + 10.0


# times are what the profile says


def rounds(profile, tmp_path, *, chunks=4, iterations=3, **options):
    """Return how long each round of a job took, from the state's leaving to the last message."""
    path = tmp_path / "record"
    with ec.Stream("virtual", emulate=profile, redundancy=1.0, split="uniform", record=path, **options) as stream:
        handle = stream.submit(sum_job(chunks=chunks, iterations=iterations))
        delay = handle.delivery().delay
    found = [seen.end - seen.start for seen in read_record(path).rounds]
    assert delay == pytest.approx(sum(found), abs=1e-5)
    return found


MESSAGE = 4 * 8  # bytes: four numbers


def bytes_of_state():
    pickled, beside = shipping.pack(sum_job().request(np.ones(4)))
    return len(pickled) + sum(buffer.nbytes for buffer in beside)


@pytest.mark.parametrize(
    ("costs", "longer"),
    [
        ({}, 0.0),
        ({"message": 0.25}, 2 * 0.25),
        ({"round": 0.5}, 0.5),
        ({"bandwidth": 128.0}, (2 * MESSAGE + bytes_of_state()) / 128),
        ({"message": 0.25, "round": 0.5, "bandwidth": 128.0}, 1.0 + (2 * MESSAGE + bytes_of_state()) / 128),
    ],
    ids=["nothing", "message", "round", "bandwidth", "all"],
)
def test_costs_make_a_round_longer_by_what_they_say(costs, longer, tmp_path):
    """Two workers with two parts of a second each, and two messages."""
    assert rounds(steady(2, **costs), tmp_path) == pytest.approx([2 + longer] * 3, abs=2e-6)


def ones(state, chunk):
    return np.ones(1)


def test_what_workers_hold_is_not_sent_again_with_the_state():
    """Nor what they hold of the next job, which is begun ahead."""
    delays = []
    for size in (1, 10**5):
        chunks = [np.zeros(size)] * 4
        job = ec.SumJob(partial=ones, update=lambda state, total: total, state=0.0, chunks=chunks, iterations=3)
        with ec.Stream("virtual", emulate=steady(3, bandwidth=1e3), redundancy=1.0, overlap=True) as stream:
            for _ in range(3):
                stream.submit(job)
            delays.append([delivery.delay for delivery in stream])
    assert delays[0] == delays[1]


def test_a_link_is_paid_once_for_a_lane(tmp_path):
    workers = [Worker(f"w{p}", mean=1.0, std=0.0, link=0.125) for p in range(2)]
    assert rounds(Profile(JOB, workers), tmp_path) == pytest.approx([2.125] * 3, abs=2e-6)


def test_a_profile_alone_says_how_many_workers_there_are_and_what_they_take():
    with ec.Stream("virtual", profile=steady(3), redundancy=1.0) as stream:
        assert stream.workers == 3
        assert stream.submit(sum_job(chunks=6, iterations=2)).delivery().delay == 4.0


def test_without_a_profile_a_part_takes_a_second():
    with ec.Stream("virtual", workers=3, redundancy=1.0) as stream:
        assert stream.submit(sum_job(chunks=6, iterations=2)).delivery().delay == 4.0


# the front ends on a cluster by its name


def test_front_ends_run_on_virtual_by_name():
    rng = np.random.default_rng(1)
    matrix, vector = rng.normal(size=(24, 5)), rng.normal(size=5)
    with ec.linear_operator(matrix, cluster="virtual", workers=3) as operator:
        np.testing.assert_allclose(operator @ vector, matrix @ vector)
    X, y = rng.normal(size=(80, 3)), rng.normal(size=80)
    found = Ridge(cluster="virtual", workers=3).fit(X, y)
    np.testing.assert_allclose(found.coef_, PlainRidge().fit(X, y).coef_, rtol=1e-6)


def test_products_that_need_earlier_results_are_the_same_in_virtual_time():
    scheme = diagonal_interleaved(3, x=1, y=3, delay=1)
    matrix = np.random.default_rng(1).normal(size=(6, 6)) / 4

    def powers(results):
        yield matrix, matrix
        for i in range(8):
            yield results[i], matrix

    with ec.MatmulStream("virtual", scheme, emulate=Profile(JOB, VARIED.workers[:3])) as stream:
        found = list(stream.products(powers))
    for i, power in enumerate(found):
        np.testing.assert_allclose(power, np.linalg.matrix_power(matrix, i + 2), atol=1e-8)


def test_a_cluster_that_is_started_already_may_be_given():
    with ec.Stream(VirtualCluster(emulate=VARIED, seed=3), redundancy=1.2) as stream:
        np.testing.assert_allclose(stream.submit(sum_job()).result(), sum_result(), rtol=1e-9)
