"""Products whose factors depend on the results of earlier ones."""

import numpy as np
import pytest

from echelon.products import MatmulStream
from tests.products.works import (
    LIMIT_S,
    SCHEMES,
    check,
    pairs,
)

DIP = SCHEMES["DIP"]


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
