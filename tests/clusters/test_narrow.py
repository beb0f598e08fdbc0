"""Messages in bfloat16: rounded as torch rounds, half as large, and no worse than their precision says."""

import numpy as np
import pytest

from echelon import JobFailed, Stream, SumJob, trees
from echelon.clusters.narrow import EPSILON, is_narrow, narrowed, widened
from echelon.errors import ArgumentError

HARD = [0.0, -0.0, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, 1.00390625, 1.01171875, -1.00390625, 65504.0]


def rounded(values):
    _, (segment,) = narrowed(b'["f",1]', [values])
    return widened([segment])[0]


def test_rounding_is_that_of_torch_bit_by_bit():
    import torch  # not at the top: workers import this module, too

    bits = np.random.default_rng(1).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([bits[~np.isnan(bits)], np.array(HARD, dtype=np.float32)])
    wanted = torch.from_numpy(values).bfloat16().float().numpy()
    assert (rounded(values).view(np.uint32) == wanted.view(np.uint32)).all()


def test_no_nan_becomes_a_number_whatever_its_bits():
    bits = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF, 0x7FC00000], dtype=np.uint32)
    assert np.isnan(rounded(bits.view(np.float32))).all()


def test_a_number_is_off_by_epsilon_of_itself_at_most():
    values = np.random.default_rng(2).normal(size=100_000).astype(np.float32)
    error = np.abs(rounded(values) / values - 1)
    assert 0.9 * EPSILON < error.max() <= EPSILON


def test_trees_keep_their_form_and_lie_in_half_the_memory():
    tree = {"f": np.ones((2, 3), dtype=np.float32), '["f"': (np.float32(2), [np.full(4, 3, dtype=np.float32)])}
    form, segments = trees.flatten(tree)
    slim, narrow = narrowed(form, segments)
    assert not is_narrow(form)
    assert is_narrow(slim)
    assert trees.layout(slim).nbytes == trees.layout(form).nbytes / 2 == sum(segment.nbytes for segment in narrow)
    again = trees.unflatten(slim, widened(narrow))
    assert again.keys() == tree.keys()
    assert (again["f"] == 1).all()
    assert again['["f"'][0] == 2
    assert (again['["f"'][1][0] == 3).all()


SIZE = 20_000
DATA = list(np.random.default_rng(3).uniform(0.5, 1.5, (6, SIZE)).astype(np.float32))
ONE = np.float32(1)


def multiplied(state, chunk):
    return {"sum": chunk * state, "first": chunk[:1]}


def together(state, chunks, coefficients):
    total = sum(np.float32(weight) * chunk for weight, chunk in zip(coefficients, chunks, strict=True))
    return {"sum": total * state, "first": total[:1]}


def found(state, total):
    return total


def job(**more):
    given = {"partial": multiplied, "messages": "bfloat16", "chunks": DATA}
    return SumJob(update=found, state=ONE, iterations=1, **(given | more))


@pytest.mark.parametrize("cluster", ["threads", "processes"])
@pytest.mark.parametrize("redundancy", [1.0, 1.5])
def test_sums_are_half_as_large_and_as_exact_as_the_delivery_says(cluster, redundancy):
    wanted = np.sum(DATA, axis=0, dtype=np.float64)
    with Stream(cluster, workers=3, redundancy=redundancy) as stream:
        wide, *narrow = (
            stream.submit(one).delivery() for one in (job(messages=None), job(), job(weighted=together))
        )  # fmt: skip
    for delivery in narrow:
        assert delivery.nbytes / delivery.messages == wide.nbytes / wide.messages / 2
        total = delivery.result["sum"]
        assert total.dtype == np.float32
        assert delivery.error_estimate.relative_to_terms >= EPSILON
        assert np.abs(total - wanted).max() / wanted.max() < delivery.error_estimate.relative_to_result < 0.2
        assert np.abs(total / wanted - 1).max() > 1e-5
        assert (delivery.result["first"] == total[:1]).all()


def test_what_is_not_float32_is_refused_on_the_worker_that_found_it():
    wide = [chunk.astype(np.float64) for chunk in DATA]
    with Stream("threads", workers=2) as stream, pytest.raises(JobFailed, match="float64 is not allowed with messages"):
        stream.submit(job(chunks=wide)).result()


def test_rows_that_decoding_would_make_too_coarse_wait_for_another():
    with Stream("threads", workers=3, redundancy=1.5) as stream:
        exact = stream.submit(job(tolerance=1e-9, messages=None, chunks=[chunk.astype(float) for chunk in DATA]))
        assert exact.delivery().error_estimate.relative_to_terms < 1e-9
        coarse = stream.submit(job(tolerance=0.02)).delivery()
    assert EPSILON <= coarse.error_estimate.relative_to_terms <= 0.02


def test_other_types_of_messages_are_refused():
    with pytest.raises(ArgumentError, match="messages: 'float16' is not allowed; must be one of bfloat16"):
        job(messages="float16")
