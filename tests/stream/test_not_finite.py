"""Results with inf and NaN are what a plain loop gives, or an error; never something else in silence."""

import numpy as np
import pytest

import echelon as ec
from echelon.codes import combine
from echelon.errors import ArgumentError, NotFinite
from echelon.schemes import multi_message, polynomial_products

CHUNKS = [
    np.array([1.0, np.inf, 1.0, np.inf, np.nan, -np.inf]),
    np.array([2.0, 2.0, np.inf, -np.inf, 2.0, 2.0]),
    np.array([3.0, np.inf, 3.0, 3.0, 3.0, 3.0]),
    np.array([4.0, np.inf, 4.0, 4.0, 4.0, 4.0]),
    np.array([5.0, 5.0, 5.0, 5.0, 5.0, 5.0]),
]
SUM = np.array([15.0, np.inf, np.inf, np.nan, np.nan, -np.inf])


def steady(*means):
    job = ec.Workload(critical=6, redundancy=1.5, iterations=1, arrivals=ec.Arrivals.poisson(1.0))
    return ec.Profile(job, [ec.Worker(f"w{p}", mean=mean, std=0.0) for p, mean in enumerate(means)])


def one_round(**more):
    return ec.SumJob(
        partial=lambda state, chunk: chunk, update=lambda state, total: total, state=None, iterations=1, **more
    )


@pytest.mark.parametrize("redundancy", [1.0, 1.3, 1.7, 5.0])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_sum_with_inf_is_what_a_plain_sum_is_whatever_the_redundancy(redundancy, workers):
    with ec.Stream("virtual", workers=workers, redundancy=redundancy, progress=False) as stream:
        handle = stream.submit(one_round(chunks=CHUNKS))
        np.testing.assert_allclose(handle.result(), SUM, rtol=1e-9)
        np.testing.assert_allclose(stream.submit(one_round(chunks=[np.ones(2)] * 5)).result(), [5.0, 5.0])
        assert handle.delivery().iterations == 1


def test_rows_of_all_chunks_infinite_give_inf_and_not_nan():
    with ec.Stream("virtual", workers=4, redundancy=2.0, progress=False) as stream:
        assert stream.submit(one_round(chunks=[np.full(3, np.inf)] * 4)).result().tolist() == [np.inf] * 3


def test_a_job_that_diverges_goes_on_without_a_code_from_where_it_is(caplog):
    def steps(state, total):
        seen.append(float(total[0]))
        return total

    seen = []
    grows = ec.SumJob(
        partial=lambda state, chunk: state * chunk, update=steps, state=np.ones(1), chunks=[1e150] * 5, iterations=4
    )
    with np.errstate(over="ignore"), ec.Stream("virtual", workers=5, redundancy=1.7, progress=False) as stream:
        assert stream.submit(grows).result().tolist() == [np.inf]
    assert len(seen) == 4
    np.testing.assert_allclose(seen, [5e150, 2.5e301, np.inf, np.inf], rtol=1e-9)
    assert [record.message for record in caplog.records if "not finite" in record.message] == [
        "job 0: its results are not finite; it goes on without a code, to tell inf from NaN"
    ]


def test_a_product_with_inf_is_what_a_plain_product_is():
    matrix = np.arange(1.0, 37.0).reshape(6, 6)
    vector = np.array([1.0, np.inf, 1.0, 1.0, 1.0, 1.0])
    linear = ec.LinearJob(matrix=matrix, parts=6, state=vector, update=lambda old, new: new, iterations=1)
    with ec.Stream(
        "virtual", emulate=steady(50.0, 1.0, 1.0), redundancy=1.5, split="uniform", progress=False
    ) as stream:
        assert stream.submit(linear).result().tolist() == [np.inf] * 6


def test_a_kept_job_whose_results_were_not_finite_once_is_coded_again():
    summed = ec.SumJob(partial=np.multiply, update=lambda old, new: new, state=None, chunks=[1.0] * 5, iterations=1)
    with ec.Stream("virtual", workers=5, redundancy=1.7, progress=False) as stream, stream.keep(summed) as kept:
        assert kept.run(np.full(1, np.inf)).tolist() == [np.inf]
        handle = kept.submit(np.ones(1))
        np.testing.assert_allclose(handle.result(), [5.0])
        assert handle.delivery().messages == 3  # three of five rows are enough


def test_under_a_plan_of_its_own_a_job_with_inf_fails_and_says_why():
    plan = multi_message(workers=4, load=3, order=3)
    with ec.Stream("virtual", workers=4, progress=False) as stream:
        error = stream.submit(one_round(chunks=[np.full(2, np.inf)] * 4, plan=plan)).exception()
    assert isinstance(error.__cause__, NotFinite)
    assert "run without a code (redundancy=1.0)" in str(error)


def test_a_message_with_weight_0_does_not_enter():
    weights = np.array([[0.0, 2.0, 1.0]])
    for size in (3, 5000):
        messages = [np.full(size, np.inf), np.ones(size), np.ones(size)]
        sizes = np.empty(3)
        assert combine(weights, messages, sizes=sizes).tolist() == [[3.0] * size]
        assert sizes.tolist() == [0.0, 1.0, 1.0]
        several = combine(np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]), messages)
        assert several.tolist() == [[2.0] * size, [np.inf] * size]
        assert combine(np.zeros((1, 3)), messages).tolist() == [[0.0] * size]


def test_masked_factors_of_products_are_refused():
    masked = np.ma.MaskedArray(np.eye(2), mask=np.eye(2))
    with (
        ec.MatmulStream(
            "virtual", polynomial_products(2, x=1, y=1), emulate=steady(1.0, 1.0), progress=False
        ) as stream,
        pytest.raises(ArgumentError, match="first: a masked array is not allowed"),
    ):
        stream.submit(masked, np.eye(2))


def test_a_masked_result_is_refused():
    masked = np.ma.MaskedArray([1.0, 2.0], mask=[True, False])
    for result in (masked, {"a": masked}, [np.ones(2), masked]):
        summed = one_round(chunks=[1, 2])
        summed.partial = lambda state, chunk, result=result: result
        with (
            ec.Stream("virtual", workers=2, progress=False) as stream,
            pytest.raises(ec.JobFailed, match="result: a masked array is not allowed"),
        ):
            stream.submit(summed).result()
