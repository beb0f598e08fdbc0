"""The stream of products, live: on threads and on processes."""

import gc
import logging
import os
from concurrent.futures import CancelledError

import numpy as np
import pytest

from echelon.clusters import CLUSTERS
from echelon.errors import ArgumentError, ClusterError
from echelon.products import MatmulStream
from echelon.products.chain import ChainJob
from echelon.schemes import diagonal_interleaved, uncoded_products
from echelon.stream import JobFailed
from echelon.stream.record import read_record
from tests.clusters.test_processes import alive, descriptors
from tests.products.works import (
    COUNTED,
    LIMIT_S,
    SCHEMES,
    UNLUCKY,
    WORKERS,
    Fragile,
    check,
    idle,
    pairs,
)

DIP = SCHEMES["DIP"]


@pytest.fixture(params=sorted(COUNTED), scope="module")
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def stream(kind):
    """A stream that many tests share: whatever they do, it goes on."""
    made = MatmulStream(kind, DIP)
    yield made
    made.close(wait=False)


@pytest.fixture(autouse=True)
def quiet(caplog):
    """No callback of a future may fail: that would be logged, and somebody would wait for ever."""
    yield
    assert not [record for record in caplog.records if "exception calling callback" in record.getMessage()]


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
            found = stream.submit(first, second).result(LIMIT_S)
            assert found.dtype == np.float32
            allowed = 1e-4
            assert np.abs(found - first @ second).max() < allowed * np.abs(first @ second).max()


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
        assert set(cluster._works) == {kept.key}
        check(stream.submit(kept, weights.T).result(LIMIT_S), weights, weights.T)
        kept.drop()
        check(stream.submit(first, weights).result(LIMIT_S), first, weights)
        idle(stream)
        assert not cluster._works
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
        assert not cluster._works


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
        gc.collect()
        before = descriptors()
        for found in stream.products(pairs(300, sizes=(200, 3, 200))):
            assert found.shape == (200, 200)
        idle(stream)
        stream._pool.submit(gc.collect).result(LIMIT_S)
        assert not cluster._works
        assert not stream._outstanding
        assert not stream._loaded
        if kind == "processes":
            stream._pool.shutdown(wait=True)
            assert cluster.blocks
            assert not cluster.held
            assert len(cluster.blocks) < 200  # blocks were used again and again
        gc.collect()
        assert descriptors() <= before + 1


def test_no_process_and_no_descriptor_is_left_behind():
    before = descriptors()
    cluster = CLUSTERS["processes"](WORKERS)
    with MatmulStream(cluster, DIP) as stream:
        list(stream.products(pairs(5)))
        pids = list(cluster.pids().values())
        assert len(pids) == WORKERS
    assert not any(alive(pid) for pid in pids)
    del stream, cluster
    gc.collect()
    assert descriptors() <= before


# results that depend on each other


@pytest.mark.parametrize("back", [DIP.delay + 2, DIP.delay + 1, 2, 1])
def test_factors_may_depend_on_earlier_results(stream, back):
    """At delay + 2 nothing is ever late; nearer ones need rounds of their own, and never stall."""
    rng = np.random.default_rng(back)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]

    def powers(results):
        for i in range(12):
            yield (turn if i < back else results[i - back]), turn

    found = list(stream.products(powers))
    for i in range(12):
        expected = np.linalg.matrix_power(turn, i // back + 2)
        np.testing.assert_allclose(found[i], expected, atol=1e-8)


def test_the_generator_may_look_back_from_the_end_and_not_too_far(stream):
    one = np.eye(2)

    def made(results):
        assert len(results) == 0
        with pytest.raises(IndexError, match="only 0 pairs were given so far"):
            results[0]
        for i in range(70):
            yield one, one * i
            assert results[-1][0, 0] == pytest.approx(i)
        assert results[len(results) - 64][0, 0] == pytest.approx(70 - 64)
        with pytest.raises(IndexError, match="only the last 64 are kept"):
            results[0]
        with pytest.raises(IndexError):
            results[-71]

    assert [float(found[0, 0]) for found in stream.products(made)] == pytest.approx(list(range(70)))


def test_results_come_in_order_and_only_so_many_pairs_are_taken_ahead():
    with MatmulStream("threads", DIP) as stream:
        taken = []

        def made():
            for i in range(20):
                taken.append(i)
                yield np.full((2, 2), float(i)), np.eye(2)

        for i, found in enumerate(stream.products(made(), ahead=3)):
            assert found[0, 0] == pytest.approx(i)
            assert len(taken) <= i + 5


def test_a_generator_that_raises_is_heard_and_the_stream_goes_on(stream):
    def made(results):
        yield from pairs(3)
        raise ValueError("no more factors")

    with pytest.raises(ValueError, match="no more factors"):
        list(stream.products(made))
    first, second = pairs(1)[0]
    check(stream.submit(first, second).result(LIMIT_S), first, second)


def test_a_loop_that_is_left_early_does_not_hold_up_others(stream):
    for found in stream.products(iter(pairs(30)), ahead=2):
        assert found.shape == (7, 6)
        break
    first, second = pairs(1)[0]
    check(stream.submit(first, second).result(LIMIT_S), first, second)


def test_the_products_of_one_loop_may_be_the_factors_of_another(stream):
    given, turn = pairs(10, sizes=(4, 4, 4)), np.ones((4, 4))
    outer = stream.products((turn, inner) for inner in stream.products(given))
    for found, (first, second) in zip(outer, given, strict=True):
        check(found, turn, first @ second)


# what goes wrong


@pytest.fixture
def fragile(monkeypatch):
    monkeypatch.setattr(ChainJob, "work", lambda self, codes: Fragile(self.product_code))


@pytest.mark.parametrize("ahead", [False, True])
def test_a_product_that_fails_takes_those_under_way_with_it_and_later_ones_go_on(kind, fragile, ahead):
    cluster = COUNTED[kind](WORKERS)
    with MatmulStream(cluster, DIP, ahead=ahead) as stream:
        given = pairs(16, sizes=(7, 5, 6))
        given[6][1][2, 3] = UNLUCKY
        futures = [stream.submit(first, second) for first, second in given]
        with pytest.raises(JobFailed, match="an unlucky number"):
            futures[6].result(LIMIT_S)
        for i, (future, (first, second)) in enumerate(zip(futures, given, strict=True)):
            if i not in range(6 - DIP.delay, 7):
                check(future.result(LIMIT_S), first, second)
            elif future.exception(LIMIT_S) is None:
                check(future.result(), first, second)
            else:
                assert "an unlucky number" in str(future.exception())
        idle(stream)
        assert not cluster._works
        if kind == "processes":
            stream._pool.shutdown(wait=True)
            assert not cluster.held


def test_a_loop_over_products_raises_at_the_one_that_failed_and_may_begin_again(fragile):
    with MatmulStream("threads", SCHEMES["uncoded"]) as stream:
        given = pairs(5)
        given[2][1][0, 0] = UNLUCKY
        loop = stream.products(given)
        for first, second in given[:2]:
            check(next(loop), first, second)
        with pytest.raises(JobFailed, match="an unlucky number"):
            next(loop)
        check(next(iter(stream.products(given[3:]))), *given[3])


def test_a_function_that_waits_for_a_product_that_fails_hears_of_it(fragile):
    def made(results):
        yield np.ones((2, 2)), np.full((2, 2), UNLUCKY)
        yield results[0], np.ones((2, 2))

    with MatmulStream("threads", DIP) as stream, pytest.raises(JobFailed, match="an unlucky number"):
        list(stream.products(made))


def test_trying_to_cancel_a_product_does_no_harm(stream):
    given = pairs(6)
    futures = [stream.submit(first, second) for first, second in given]
    futures[2].cancel()
    futures[3].cancel()
    for i in (0, 1, 4, 5):
        check(futures[i].result(LIMIT_S), *given[i])


def test_results_are_right_though_workers_die(kind):
    """One is killed every few products; its successor takes its place."""
    cluster = CLUSTERS[kind](WORKERS)
    with MatmulStream(cluster, SCHEMES["DIP, lambda, mu"]) as stream:
        given = pairs(40, sizes=(30, 20, 30))
        for i, (found, (first, second)) in enumerate(zip(stream.products(given), given, strict=True)):
            check(found, first, second)
            if i % 10 == 3:
                cluster.kill(max(stream._stream._driver.places))


def test_results_are_right_though_all_workers_die_at_once(kind):
    cluster = CLUSTERS[kind](WORKERS)
    with MatmulStream(cluster, SCHEMES["IDIP"]) as stream:
        given = pairs(20, sizes=(30, 20, 30))
        for i, (found, (first, second)) in enumerate(zip(stream.products(given), given, strict=True)):
            check(found, first, second)
            if i == 5:
                for worker in list(stream._stream._driver.places):
                    cluster.kill(worker)


def test_a_stream_that_broke_down_says_so_and_nobody_waits_for_ever():
    cluster = CLUSTERS["threads"](WORKERS)
    stream = MatmulStream(cluster, DIP)
    first, second = pairs(1)[0]
    stream._feed.busy(True)
    futures = [stream.submit(first, second) for _ in range(3)]

    def broken(timeout_s):
        raise RuntimeError("no network")

    cluster.poll = broken
    stream._feed.busy(False)
    cluster.wake()
    for future in futures:
        assert isinstance(future.exception(LIMIT_S), ClusterError | None)
    for _ in range(2):
        with pytest.raises(ClusterError, match="no network"):
            stream.submit(first, second).result(LIMIT_S)
    stream.close()


# the end


def test_closing_waits_for_what_is_outstanding_and_twice_is_fine(kind):
    stream = MatmulStream(kind, DIP)
    given = pairs(8)
    futures = [stream.submit(first, second) for first, second in given]
    stream.close()
    stream.close()
    for future, (first, second) in zip(futures, given, strict=True):
        assert future.done()
        check(future.result(), first, second)
    with pytest.raises(ClusterError, match="this stream is closed: it takes no more products"):
        stream.submit(*given[0])


def test_closing_without_waiting_drops_what_is_outstanding(kind, caplog):
    """Rounds wait for a caller that is busy, so that none of these products is there."""
    caplog.set_level(logging.WARNING)
    stream = MatmulStream(kind, DIP)
    stream._feed.busy(True)
    futures = [stream.submit(first, second) for first, second in pairs(1)]
    stream.close(wait=False)
    stream.close(wait=False)
    stream.close()
    for future in futures:
        with pytest.raises(CancelledError, match=r"was (dropped|cancelled)"):
            future.result(LIMIT_S)


def test_an_error_in_the_body_drops_what_is_outstanding(kind):
    futures = []

    def body():
        with MatmulStream(kind, DIP) as stream:
            futures.extend(stream.submit(first, second) for first, second in pairs(30))
            raise ValueError("of the body")

    with pytest.raises(ValueError, match="of the body"):
        body()
    for future, (first, second) in zip(futures, pairs(30), strict=True):
        if future.exception(LIMIT_S) is None:
            check(future.result(), first, second)
        else:
            assert isinstance(future.exception(), CancelledError)


def test_a_record_tells_what_happened(kind, tmp_path):
    path = tmp_path / "run.jsonl"
    with MatmulStream(kind, DIP, record=path) as stream:
        list(stream.products(pairs(6)))
    record = read_record(path)
    assert len(record.rounds) >= 6
    assert os.path.getsize(path) > 0


# what is refused


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (np.ones((2, 3)), np.ones((2, 3)), "second: shape"),
        (np.ones(3), np.ones((3, 1)), "first: ndarray of shape"),
        (np.ones((3, 1)), 2.0, "second: float of shape"),
        (np.ones((2, 2, 2)), np.ones((2, 2)), "first: ndarray of shape"),
        (np.ones((0, 3)), np.ones((3, 1)), "first: ndarray of shape"),
        ("matrix", np.ones((3, 1)), "first: str of shape"),
        (np.array([["a"]]), np.ones((1, 1)), "first: ndarray of shape"),
        (np.array([[None]]), np.ones((1, 1)), "first: ndarray of shape"),
        (None, np.ones((1, 1)), "first: NoneType of shape"),
        (np.ones((2, 2), dtype=np.longdouble), np.ones((2, 2)), "first: ndarray of shape"),
    ],
)
def test_what_has_no_product_is_refused_and_the_stream_goes_on(first, second, said):
    with MatmulStream("threads", DIP) as stream:
        with pytest.raises(ArgumentError, match=said):
            stream.submit(first, second)
        assert not stream._outstanding
        assert stream.submit(np.eye(2), np.eye(2)).result(LIMIT_S).trace() == pytest.approx(2.0)


def test_factors_that_are_no_pairs_are_refused():
    with MatmulStream("threads", DIP) as stream:
        for wrong in (np.ones((2, 2)), (np.ones((2, 2)),), "ab c"):
            with pytest.raises(ArgumentError, match="must give pairs of factors"):
                list(stream.products([wrong]))
        with pytest.raises(ArgumentError, match="ahead: 0 is not allowed"):
            list(stream.products([], ahead=0))
        assert list(stream.products([])) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"scheme": "DIP"}, "scheme: 'DIP' is not allowed"),
        ({"scheme": DIP, "delay_rounds": 3}, "delay_rounds: 3 is not allowed; the scheme has a delay of 2"),
        ({"scheme": DIP, "unit": 0.0}, "unit: 0.0 is not allowed"),
        ({"scheme": DIP, "threads": 0}, "threads: 0 is not allowed"),
        ({"scheme": DIP, "patience_s": 0.0}, "patience_s: 0.0 is not allowed"),
    ],
)
def test_wrong_arguments_are_named(arguments, said):
    with pytest.raises(ArgumentError, match=said):
        MatmulStream("threads", **arguments)


def test_a_cluster_of_another_size_is_refused_and_closed():
    cluster = CLUSTERS["threads"](2)
    with pytest.raises(ArgumentError, match="scheme: it is for 3 workers; the cluster has 2"):
        MatmulStream(cluster, DIP)
    assert cluster._closed
    MatmulStream("threads", uncoded_products(1), delay_rounds=0).close()


def test_two_streams_do_not_disturb_each_other():
    with (
        MatmulStream("threads", DIP) as one,
        MatmulStream("threads", diagonal_interleaved(2, x=1, y=3, delay=1)) as two,
    ):
        given = pairs(10)
        futures = [(one.submit(first, second), two.submit(first, second)) for first, second in given]
        for both, (first, second) in zip(futures, given, strict=True):
            for future in both:
                check(future.result(LIMIT_S), first, second)


def test_a_function_that_waits_for_a_submitted_product_is_not_waited_for(kind):
    """Its future is of a product that only further rounds can give."""
    with MatmulStream(kind, DIP) as stream:
        (first, second), (third, fourth) = pairs(2)

        def dependent(results):
            future = stream.submit(first, second)
            yield future.result(LIMIT_S), np.eye(second.shape[1])
            yield third, fourth

        found = list(stream.products(dependent))
        np.testing.assert_allclose(found[0], first @ second, atol=1e-9)
        check(found[1], third, fourth)


def test_a_factor_of_another_stream_is_refused():
    with MatmulStream("threads", DIP) as one, MatmulStream("threads", DIP) as other:
        kept = one.keep(np.eye(3))
        with pytest.raises(ArgumentError, match="it was kept by another stream"):
            other.submit(kept, np.eye(3))


def test_a_product_of_unlike_precisions_is_as_exact_as_its_type_says():
    (first, second), *_ = pairs(1)
    with MatmulStream("threads", DIP, ahead=True) as stream:
        found = [stream.submit(first.astype(np.float32), second).result(LIMIT_S) for _ in range(4)]
    for each in found:
        assert each.dtype == np.float64
        np.testing.assert_allclose(each, first.astype(np.float32) @ second, rtol=0, atol=1e-10)
