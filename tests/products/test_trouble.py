"""The stream of products where something goes wrong, is refused, or comes to its end."""

import logging
import os
from concurrent.futures import CancelledError

import numpy as np
import pytest

from echelon.clusters import CLUSTERS
from echelon.errors import ArgumentError, ClusterError, JobFailed
from echelon.products import MatmulStream
from echelon.products.chain import ChainJob
from echelon.schemes import diagonal_interleaved, uncoded_products
from echelon.stream import read_record
from tests.products.works import (
    COUNTED,
    LIMIT_S,
    SCHEMES,
    UNLUCKY,
    WORKERS,
    Fragile,
    check,
    holds,
    idle,
    pairs,
)

DIP = SCHEMES["DIP"]


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
        assert not holds(cluster)
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
