"""The stream of products, live: on threads and on processes."""

import gc

import numpy as np
import pytest

from echelon.clusters import CLUSTERS
from echelon.products import MatmulStream
from echelon.products.matmul import TOLERANCE
from tests.clusters.test_processes import alive, descriptors, opened
from tests.products.works import (
    COUNTED,
    LIMIT_S,
    SCHEMES,
    WORKERS,
    check,
    holds,
    idle,
    pairs,
)

DIP = SCHEMES["DIP"]


# products


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("ahead", [False, True], ids=["coded by workers", "coded ahead"])
def test_products_are_right_in_every_scheme(scheme, ahead):
    """To 1e-8 in float64, on threads; odd sizes, and the same whoever makes the coded factors."""
    with MatmulStream("threads", scheme, ahead=ahead) as stream:
        given = pairs(12)
        for found, (first, second) in zip(stream.products(given), given, strict=True):
            assert found.dtype == np.float64
            check(found, first, second)


@pytest.mark.parametrize("name", ["DIP, lambda, mu", "z = 2", "IDIP"])
@pytest.mark.parametrize("ahead", [False, True], ids=["coded by workers", "coded ahead"])
def test_products_are_right_on_processes(name, ahead):
    with MatmulStream("processes", SCHEMES[name], ahead=ahead) as stream:
        given = pairs(10, sizes=(70, 90, 110))  # large enough for shared memory
        for found, (first, second) in zip(stream.products(given), given, strict=True):
            check(found, first, second)


@pytest.mark.parametrize("name", ["DIP", "z = 2", "IDIP, bursts", "DIP, monomial"])
def test_single_precision_stays_single(name):
    """Errors below 1e-4 of the largest number: where decoding would bring in more, one more result is waited for.

    Of random sets of rows one in a hundred has an error over 1e-4.
    """
    with MatmulStream("threads", SCHEMES[name]) as stream:
        for first, second in pairs(6, dtype=np.float32):
            future = stream.submit(first, second)
            found = future.result(LIMIT_S)
            assert found.dtype == np.float32
            wanted = first.astype(float) @ second.astype(float)
            error, said = np.abs(found - wanted).max() / np.abs(wanted).max(), future.error_estimate
            assert error < 1e-4
            assert said.relative_to_terms <= TOLERANCE
            assert error <= 10 * said.relative_to_result < 1e-2


@pytest.mark.parametrize("name", ["DIP", "z = 2"])
def test_complex_factors_give_complex_products(name):
    rng = np.random.default_rng(2)
    with MatmulStream("threads", SCHEMES[name]) as stream:
        first = rng.standard_normal((5, 4)) + 1j * rng.standard_normal((5, 4))
        second = rng.standard_normal((4, 6))
        for a, b in ((first, second), (first, first.T), (second.T, first.T)):
            found = stream.submit(a, b).result(LIMIT_S)
            assert found.dtype == np.complex128
            check(found, a, b)


def test_products_of_different_sizes_and_types_follow_each_other(stream):
    rng = np.random.default_rng(3)
    given = [
        (rng.standard_normal((1 + i % 5, 2 + i % 3)).astype(dtype), rng.standard_normal((2 + i % 3, 1 + i % 7)))
        for i, dtype in enumerate([np.float64, np.float32, np.complex128, np.int64, ">f8"] * 4)
    ]
    futures = [stream.submit(first, second) for first, second in given]
    for future, (first, second) in zip(futures, given, strict=True):
        # a factor is coded in its own precision
        check(future.result(LIMIT_S), first, second, atol=1e-4 if first.dtype == np.float32 else 1e-8)


def test_lists_vectors_as_matrices_and_views_are_taken(stream):
    base = np.arange(24.0).reshape(4, 6)
    for first, second in (
        ([[1, 2], [3, 4]], [[5.0], [6.0]]),
        (base[::2, ::-1], base.T[:, 1:3]),
        (np.asfortranarray(base), base.T),
        (np.ones((1, 1)), np.ones((1, 1))),
        (np.array([[True, False]]), [[2], [3]]),
    ):
        check(stream.submit(first, second).result(LIMIT_S), first, second)


def test_changes_of_an_array_after_submit_do_not_matter(stream):
    first, second = pairs(1, sizes=(60, 60, 60))[0]
    expected = first @ second
    futures = []
    for i in range(6):
        a, b = first.copy(), second + i
        futures.append(stream.submit(a, b))
        a[:], b[:] = np.nan, np.nan
    for i, future in enumerate(futures):
        np.testing.assert_allclose(future.result(LIMIT_S), expected + i * first.sum(axis=1)[:, None], atol=1e-8)


def test_results_can_be_written_and_are_nobody_elses(stream):
    first, second = pairs(1)[0]
    one, two = stream.submit(first, second), stream.submit(first, second)
    one.result(LIMIT_S)[:] = 0
    check(two.result(LIMIT_S), first, second)


def test_five_hundred_tiny_products_run_through(stream):
    given = pairs(500, sizes=(3, 2, 3))
    for found, (first, second) in zip(stream.products(given), given, strict=True):
        check(found, first, second)


def test_a_chain_that_ended_is_followed_by_another(stream):
    for first, second in pairs(4):
        check(stream.submit(first, second).result(LIMIT_S), first, second)
        idle(stream)


# kept factors


def test_a_kept_factor_travels_once(kind):
    cluster = COUNTED[kind](WORKERS)
    with MatmulStream(cluster, DIP) as stream:
        weights = np.random.default_rng(4).standard_normal((5, 6))
        kept = stream.keep(weights)
        futures = [(first, stream.submit(first, kept)) for first, _ in pairs(9)]
        for first, future in futures:
            check(future.result(LIMIT_S), first, weights)
        idle(stream)
        first, _ = pairs(1)[0]
        check(stream.submit(first, kept).result(LIMIT_S), first, weights)  # in another chain
        idle(stream)
        assert cluster.loads[kept.key] == 1
        assert holds(cluster) == {kept.key}
        check(stream.submit(kept, weights.T).result(LIMIT_S), weights, weights.T)
        kept.drop()
        check(stream.submit(first, weights).result(LIMIT_S), first, weights)
        idle(stream)
        assert not holds(cluster)
        assert max(cluster.loads.values()) == 1


def test_a_factor_may_be_both_factors_and_dropped_while_it_is_needed(kind):
    cluster = COUNTED[kind](WORKERS)
    with MatmulStream(cluster, DIP) as stream:
        square = np.random.default_rng(5).standard_normal((5, 5))
        kept = stream.keep(square)
        square_before = square.copy()
        square[:] = 0
        future = stream.submit(kept, kept)
        kept.drop()
        check(future.result(LIMIT_S), square_before, square_before)
        idle(stream)
        assert not holds(cluster)


def test_a_kept_factor_says_what_it_is():
    with MatmulStream("threads", DIP) as stream:
        assert repr(stream.keep(np.ones((2, 3), dtype=np.float32))) == "<factor of shape (2, 3), float32>"


# what products leave behind


def test_nothing_is_left_behind_after_many_products(kind):
    """No work, no descriptor and no block of shared memory; with blocks large enough for it."""
    cluster = COUNTED[kind](WORKERS)
    with MatmulStream(cluster, DIP, ahead=True) as stream:
        list(stream.products(pairs(8, sizes=(200, 3, 200))))
        idle(stream)
        before = descriptors()
        for found in stream.products(pairs(300, sizes=(200, 3, 200))):
            assert found.shape == (200, 200)
        idle(stream)
        stream._pool.submit(gc.collect).result(LIMIT_S)
        assert not holds(cluster)
        assert not stream._outstanding
        assert not stream._loaded
        if kind == "processes":
            stream._pool.shutdown(wait=True)
            assert cluster.blocks
            assert not cluster.held
            assert len(cluster.blocks) < 200  # blocks were used again and again
        assert len(opened(before)) <= 1


def test_no_process_and_no_descriptor_is_left_behind():
    before = descriptors()
    cluster = CLUSTERS["processes"](WORKERS)
    with MatmulStream(cluster, DIP) as stream:
        list(stream.products(pairs(5)))
        pids = list(cluster.pids().values())
        assert len(pids) == WORKERS
    assert not any(alive(pid) for pid in pids)
    del stream, cluster
    assert not opened(before)
