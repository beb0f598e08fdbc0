import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.delays import Deterministic, Exponential, Fritchman, GilbertElliott, Straggler
from echelon.errors import ArgumentError
from echelon.stragglers import Arbitrary, Bursts, paces, slow_rounds, waited
from tests.stragglers.naive import naive

BASE = Exponential(rate=2.0)


def test_independent_stragglers_come_at_their_rate():
    """Share of slow rounds at 99.9 %, and no correlation from round to round."""
    slow = slow_rounds(Straggler(base=BASE, probability=0.3, slowdown=5.0), 20_000, 4, np.random.default_rng(1))
    assert slow.shape == (20_000, 4)
    assert slow.dtype == bool
    assert abs(slow.mean() - 0.3) < 3.29 * np.sqrt(0.3 * 0.7 / slow.size)
    both = slow[1:] & slow[:-1]
    assert abs(both.mean() - 0.09) < 4 * np.sqrt(0.09 / slow.size)


@pytest.mark.parametrize("law", [
    Fritchman(base=BASE, enter=0.1, leave=0.5, states=3, slowdown=5.0),
    GilbertElliott(base=BASE, enter=0.1, leave=0.5, slowdown=5.0),
])  # fmt: skip
def test_bursts_have_the_length_of_their_chain(law):
    """Mean length of a burst at 99.9 %: states / leave rounds."""
    slow = slow_rounds(law, 50_000, 2, np.random.default_rng(2))
    for column in slow.T:
        edges = np.diff(np.concatenate([[0], column.astype(int), [0]]))
        lengths = (np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1))[1:-1]
        assert abs(lengths.mean() - law.states / law.leave) < 3.29 * lengths.std() / np.sqrt(len(lengths))


def test_slow_rounds_do_not_depend_on_the_slowdown_and_come_from_the_seed():
    laws = [Straggler(base=BASE, probability=0.3, slowdown=slowdown) for slowdown in (1.0, 5.0)]
    drawn = [slow_rounds(law, 50, 3, np.random.default_rng(3)) for law in laws]
    assert (drawn[0] == drawn[1]).all()
    assert drawn[0].any()


def test_paces_are_one_or_the_slowdown():
    assert paces(np.array([[True, False], [False, False]]), 4).tolist() == [[4.0, 1.0], [1.0, 1.0]]


def test_who_finishes_first_is_waited_for_first():
    slow = np.array([[True, True, False], [False, True, True], [True, True, True]])
    model = Arbitrary(count=2, window=2)
    left = waited(slow, model, np.array([[0, 1, 2], [0, 2, 1], [2, 1, 0]]))
    assert left.astype(int).tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 0]]


def test_a_worker_that_finishes_before_the_one_that_matters_is_no_straggler_either():
    """Worker 0 may go on with its burst, but may be done before worker 1, which may not begin one."""
    model = Bursts(workers_at_once=1, length=3, window=3)
    slow = np.array([[True, False, False], [True, True, False]])
    assert waited(slow, model, np.array([0, 1, 2])).astype(int).tolist() == [[1, 0, 0], [0, 0, 0]]
    assert waited(slow, model, np.array([1, 0, 2])).astype(int).tolist() == [[1, 0, 0], [1, 0, 0]]


def test_where_all_are_equally_slow_nobody_straggles():
    model = Arbitrary(count=3, window=2)
    slow = np.array([[True, True], [True, False], [True, True]])
    assert waited(slow, model, np.array([0, 1])).astype(int).tolist() == [[1, 1], [1, 0], [1, 1]]
    assert waited(slow, model, np.array([0, 1]), together=True).astype(int).tolist() == [[0, 0], [1, 0], [0, 0]]


@given(st.integers(0, 2**32 - 1), st.sampled_from([
    Arbitrary(count=4, window=3),
    Arbitrary(count=0, window=2),
    Bursts(workers_at_once=2, length=2, window=4),
    Bursts(workers_at_once=1, length=3, window=3),
]), st.booleans())  # fmt: skip
def test_what_is_left_conforms_and_no_more_was_waited_for_than_needed(seed, model, together):
    rng = np.random.default_rng(seed)
    slow = rng.random((12, 4)) < rng.random()
    order = rng.permuted(np.tile(np.arange(4), (12, 1)), axis=1)
    left = waited(slow, model, order, together=together)
    assert naive(model, left)
    assert not (left & ~slow).any()
    for t, finished in enumerate(order):
        gone = [j for j in finished if slow[t, j] and not left[t, j]]
        if together:
            assert not gone or not left[t].any()
        elif gone:
            before = left[: t + 1].copy()
            before[t, gone[-1]] = True
            assert not naive(model, before)
            assert gone == [j for j in finished if slow[t, j]][: len(gone)]


def test_a_pattern_that_conforms_is_left_alone():
    model = Bursts(workers_at_once=2, length=2, window=4)
    for pattern in model.worst_patterns(4, 12, np.random.default_rng(5), 20):
        assert (waited(pattern, model, np.random.default_rng(6)) == pattern).all()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: slow_rounds(BASE, 3, 2, np.random.default_rng(1)), "law: Exponential"),
        (lambda: slow_rounds(Straggler(base=Deterministic(time=1.0), probability=0.1, slowdown=2.0), 3, 0, None),
         "workers: 0"),
        (lambda: paces(np.array([[True]]), 0.5), "slowdown: 0.5"),
        (lambda: waited(np.array([[True, True]]), Arbitrary(count=1, window=2), np.array([0, 0])), "order:"),
        (lambda: waited(np.array([[True, True]]), Arbitrary(count=1, window=2), np.array([0])), "order:"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(call, named):
    with pytest.raises(ArgumentError, match=named):
        call()
