"""The promises of M-SGC and SR-SGC, over all patterns of stragglers that conform, and over some that do not."""

from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from echelon.errors import ArgumentError
from echelon.schemes import GRADIENT_CHAINS, GradientWindow, m_sgc, sr_sgc
from echelon.schemes.reattempted import Reattempted
from tests.schemes.gradient_chains import Chain, through_all

# workers n, lambda, B, W, rounds
M_SGC = [
    (4, 1, 1, 2, 4), (4, 2, 1, 2, 4), (4, 1, 2, 3, 5), (4, 4, 1, 2, 3), (4, 3, 1, 3, 4), (3, 1, 2, 4, 7),
    (3, 3, 2, 3, 5), (5, 2, 1, 2, 3), (6, 1, 1, 2, 4), (4, 0, 1, 2, 4), (2, 2, 3, 4, 7),
]  # fmt: skip
SR_SGC = [
    (4, 1, 1, 2, 4), (4, 2, 1, 2, 4), (4, 3, 1, 2, 3), (4, 4, 1, 2, 3), (4, 2, 1, 3, 5), (4, 2, 2, 3, 5),
    (3, 3, 2, 3, 5), (3, 3, 1, 4, 6), (3, 3, 2, 5, 6), (5, 3, 1, 3, 3), (6, 2, 1, 2, 3), (4, 0, 1, 2, 4),
]  # fmt: skip
CASES = [(m_sgc, *case) for case in M_SGC] + [(sr_sgc, *case) for case in SR_SGC]
LARGER = [
    (m_sgc, 6, 2, 2, 4), (m_sgc, 6, 5, 3, 4), (m_sgc, 6, 6, 2, 5), (sr_sgc, 6, 4, 2, 5), (sr_sgc, 6, 6, 1, 4),
    (m_sgc, 16, 4, 1, 2), (m_sgc, 12, 7, 2, 4), (sr_sgc, 16, 5, 2, 3), (sr_sgc, 12, 8, 1, 4),
]  # fmt: skip


def made(make, workers, at_once, length, window):
    return make(workers, workers_at_once=at_once, length=length, window=window)


@pytest.mark.parametrize(("make", "n", "at_once", "length", "window", "rounds"), CASES)
def test_every_conforming_pattern_leaves_every_gradient_there_in_time(make, n, at_once, length, window, rounds):
    scheme = made(make, n, at_once, length, window)
    for chain in through_all(scheme, scheme.model.all_patterns(n, rounds)):
        for gradient in range(rounds - scheme.delay):
            assert chain.found[gradient] <= scheme.delay
        assert chain.most <= scheme.load * (1 + 1e-12)


@pytest.mark.parametrize(("make", "n", "at_once", "length", "window"), LARGER)
def test_worst_patterns_of_larger_chains_leave_every_gradient_there_in_time(make, n, at_once, length, window):
    scheme, rounds = made(make, n, at_once, length, window), 3 * window
    for pattern in scheme.model.worst_patterns(n, rounds, np.random.default_rng(5), 40):
        chain = Chain(scheme)
        for slow in pattern:
            chain.step(slow)
        assert all(chain.found[gradient] <= scheme.delay for gradient in range(rounds - scheme.delay))


@pytest.mark.parametrize(("make", "n", "at_once", "length", "window"), LARGER)
def test_a_round_that_waits_for_the_first_set_that_conforms_has_all_that_is_due(make, n, at_once, length, window):
    """Any workers are slow; those that are waited for come one after another, in a random order."""
    scheme, rng = made(make, n, at_once, length, window), np.random.default_rng(6)
    waited = 0
    for _ in range(15):
        chain = Chain(scheme)
        for _ in range(4 * window):
            waited += chain.step(rng.random(n) < 0.4, rng.permutation(n))
        assert all(chain.found[gradient] <= scheme.delay for gradient in range(4 * window - scheme.delay))
    assert waited


def test_with_less_redundancy_some_pattern_is_too_much():
    """The checks above can fail: one spare result less than SR-SGC has."""

    class Less(Reattempted):
        @property
        def spare(self):
            return super().spare - 1

    scheme = Less(workers=4, workers_at_once=2, length=1, window=3)
    with pytest.raises(AssertionError, match="lacks"):
        for _ in through_all(scheme, scheme.model.all_patterns(4, 5)):
            pass


@pytest.mark.parametrize(("n", "at_once", "length", "window", "_"), M_SGC)
def test_the_load_of_m_sgc(n, at_once, length, window, _):
    scheme, some = m_sgc(n, workers_at_once=at_once, length=length, window=window), at_once + 1
    load = Fraction(some * (window - 1 + length), n * (length + (window - 1) * some))
    if at_once == n:
        load = Fraction(window - 1 + length, n * (window - 1))
    assert scheme.load == pytest.approx(float(load), rel=1e-12)
    assert scheme.delay == window - 2 + length
    assert scheme.shares.sum() == pytest.approx(1.0, rel=1e-12)
    assert len(scheme.shares) == n * (window - 1 + (length if at_once < n else 0)) == scheme.parts
    seen = sum(code.parts * (1 if unit == 0 else length) for unit, code in enumerate(scheme.codes))
    assert seen == scheme.parts


@pytest.mark.parametrize(("n", "at_once", "length", "window", "_"), SR_SGC)
def test_the_load_of_sr_sgc(n, at_once, length, window, _):
    scheme = sr_sgc(n, workers_at_once=at_once, length=length, window=window)
    assert scheme.load == (ceil(Fraction(length * at_once, window - 1 + length)) + 1) / n
    assert scheme.delay == length
    assert scheme.shares.tolist() == [1 / n] * n


def test_what_a_row_holds_costs_what_it_holds():
    """Chunks of a mini-task, by their shares of the data, are what it costs; every chunk is in one unit."""
    for make in GRADIENT_CHAINS.values():
        scheme = made(make, 5, 3, 1, 3)
        chunks = []
        for unit in range(scheme.units):
            code, first = scheme.codes[min(unit, len(scheme.codes) - 1)], scheme.first_chunk(unit)
            chunks += range(first, first + code.parts)
            costs = code.support @ scheme.shares[first : first + code.parts]
            np.testing.assert_allclose(costs, scheme.share, rtol=1e-12)
        assert chunks == list(range(scheme.parts))


def test_a_worker_repeats_its_own_failed_mini_task_in_place_of_a_coded_one():
    window = GradientWindow(m_sgc(3, workers_at_once=1, length=1, window=2))
    first = window.open(0)
    assert [[(task.slot, task.row) for task in lane] for lane in first.lanes] == [[(0, 0)], [(0, 1)], [(0, 2)]]
    assert window.close([(0, 0), (0, 2)], []) == []
    second = window.open(1)
    assert second.units == ((1, 0), (1, 1), (0, 0), (0, 1))
    tasks = [[(task.slot, task.row) for task in lane] for lane in second.lanes]
    assert tasks == [[(0, 0), (3, 0)], [(0, 1), (2, 1)], [(0, 2), (3, 2)]]
    assert second.ending.due == (2, 3)
    assert second.ending.limits == (((0, 2), 0), ((1,), 0))
    assert window.close([at for lane in tasks for at in lane], [0, 2, 3]) == [0]


def test_rounds_without_work_pass_at_once():
    """Two workers of four failed; nothing else begins, so that the repetition two rounds later comes next."""
    window = GradientWindow(sr_sgc(4, workers_at_once=2, length=2, window=3))
    window.open(0)
    window.close([(0, 0), (0, 1)], [])
    plan = window.open()
    assert [[task.row for task in lane] for lane in plan.lanes] == [[], [], [2], []]
    assert window.history.astype(int).tolist() == [[0, 0, 1, 1], [0, 0, 0, 0]]  # the round between had no work
    assert window.close([(0, 2)], [0]) == [0]
    assert window.open() is None


@pytest.mark.parametrize("make", GRADIENT_CHAINS.values())
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"workers_at_once": 5}, "workers_at_once: 5"),
        ({"length": 0}, "length: 0"),
        ({"window": 1}, "window: 1"),
        ({"length": 2}, "length: 2"),
        ({"waiting": "long"}, "waiting: 'long'"),
        ({"tolerance": -1.0}, "tolerance: -1.0"),
    ],
)
def test_what_makes_no_chain_is_refused(make, wrong, said):
    with pytest.raises(ArgumentError, match=said):
        make(4, **({"workers_at_once": 1, "length": 1, "window": 2} | wrong))


def test_windows_of_sr_sgc_are_whole_bursts_and_one_round():
    with pytest.raises(ArgumentError, match="window: 4 is not allowed with length 2"):
        sr_sgc(4, workers_at_once=1, length=2, window=4)
    with pytest.raises(ArgumentError, match="workers: 1 is not allowed"):
        sr_sgc(1, workers_at_once=1, length=1, window=2)


@pytest.mark.parametrize("samples", [8, 9, 100, 1001])
def test_the_data_is_cut_by_shares_and_no_chunk_is_empty(samples):
    scheme = replace(m_sgc(4, workers_at_once=3, length=1, window=2))
    cut = scheme.cut(samples)
    sizes = np.array([part.stop - part.start for part in cut])
    assert [part.start for part in cut[1:]] == [part.stop for part in cut[:-1]]
    assert (cut[0].start, cut[-1].stop) == (0, samples)
    assert sizes.min() >= 1
    if samples >= 100:
        assert np.abs(sizes - samples * scheme.shares).max() <= 1
    with pytest.raises(ArgumentError, match="samples: 7"):
        scheme.cut(7)
