"""Block jobs on real workers: the gradient block by block equals that of one process."""

import numpy as np
import pytest

import echelon as ec
from echelon.errors import ArgumentError
from echelon.schemes import block_coordinate, gradient_coding

LIMIT_S = 60.0
WORKERS, FEATURES, ROWS, ITERATIONS = 4, 10, 48, 6
DATA = np.random.default_rng(1).standard_normal((ROWS, FEATURES))
LABELS = (DATA @ np.arange(FEATURES) > 0).astype(float)
CHUNKS = [(DATA[i::WORKERS], LABELS[i::WORKERS]) for i in range(WORKERS)]


def residuals(weights, chunk):
    rows, labels = chunk
    return 1 / (1 + np.exp(-rows @ weights)) - labels


def by_block(residual, chunk, coordinates):
    return chunk[0][:, coordinates].T @ residual


def at_once(weights, chunk, coordinates):
    return by_block(residuals(weights, chunk), chunk, coordinates)


def step(weights, gradient):
    weights -= 0.1 * gradient  # in place: the next round must not see what was prepared for this one
    return weights


def plain():
    weights = np.zeros(FEATURES)
    for _ in range(ITERATIONS):
        weights = weights - 0.1 * DATA.T @ residuals(weights, (DATA, LABELS))
    return weights


def job(plan, **more):
    return ec.BlockJob(
        **{"partial": by_block, "prepare": residuals, "update": step, "state": np.zeros(FEATURES), "chunks": CHUNKS}
        | {"plan": plan, "iterations": ITERATIONS}
        | more
    )


@pytest.fixture(scope="module", params=["threads", "processes"])
def stream(request):
    with ec.Stream(request.param, workers=WORKERS) as opened:
        yield opened


@pytest.mark.parametrize("sizes", [[10, 0, 0, 0], [0, 0, 0, 10], [3, 0, 5, 2], [1, 2, 3, 4]])
@pytest.mark.parametrize("prepared", [True, False])
def test_logistic_regression_by_blocks_of_features_is_that_of_one_process(stream, sizes, prepared):
    more = {} if prepared else {"partial": at_once, "prepare": None}
    done = stream.submit(job(block_coordinate(WORKERS, sizes), **more)).delivery(LIMIT_S)
    assert done.error is None
    np.testing.assert_allclose(done.result, plain(), rtol=1e-9)


def test_chunks_may_be_loaded_by_the_workers(stream):
    done = stream.submit(job(block_coordinate(WORKERS, [2, 2, 6, 0]), chunks=None, load=CHUNKS.__getitem__))
    np.testing.assert_allclose(done.result(LIMIT_S), plain(), rtol=1e-9)


def test_another_number_of_chunks_than_workers_is_refused():
    with pytest.raises(ArgumentError, match="chunks: 3 are not allowed; must be 4, one per worker"):
        job(block_coordinate(WORKERS, [10, 0, 0, 0]), chunks=CHUNKS[:3])


def test_a_plan_without_blocks_is_refused():
    with pytest.raises(ArgumentError, match=r"plan: CodedPlan is not allowed; must come from schemes.block_coordinate"):
        job(gradient_coding(workers=WORKERS, load=2))
