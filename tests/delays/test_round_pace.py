import numpy as np
import pytest
from scipy.stats import kstest

from echelon.delays import (
    Deterministic,
    Exponential,
    Gamma,
    GilbertElliott,
    Pareto,
    RoundPace,
    ShiftedExponential,
    Straggler,
    Trace,
    fit,
)

BASE = ShiftedExponential(shift=0.01, rate=10.0)


@pytest.mark.parametrize("size", [(1, 1), (500, 6), (3, 200, 4), (2, 3, 50, 1)])
def test_all_tasks_of_a_round_take_the_same_time(size):
    times = RoundPace(base=BASE).sample(size, np.random.default_rng(1))
    assert times.shape == size
    assert times.dtype == np.float64
    assert (times == times[..., :1]).all()
    assert len(np.unique(times[..., 0])) == np.prod(size[:-1])


def test_paces_follow_the_base_whatever_the_number_of_tasks():
    """By a Kolmogorov-Smirnov test at 99.9 %, and the same draws for one task as for seven."""
    law = RoundPace(base=BASE)
    paces = law.sample((20_000, 7), np.random.default_rng(2))[:, 0]
    assert kstest(paces, lambda t: 1 - np.exp(-10.0 * np.maximum(t - 0.01, 0.0))).pvalue > 0.001
    np.testing.assert_array_equal(paces, law.sample((20_000, 1), np.random.default_rng(2))[:, 0])


def test_s_tasks_take_s_times_the_pace():
    """Model (5): F_s(t) = 1 - exp(-mu (t / s - alpha)) from s alpha on, and no task takes no time."""
    times = np.array([-1.0, 0.0, 0.005, 0.01, 0.3, 2.0])
    ours = RoundPace(base=BASE).sums(range(0, 5), times)
    assert ours.shape == (6, 5)
    for k in range(1, 5):
        expected = [1 - np.exp(-10.0 * (t / k - 0.01)) if t >= k * 0.01 else 0.0 for t in times]
        np.testing.assert_allclose(ours[:, k], expected, rtol=1e-12, atol=1e-15)
    assert ours[:, 0].tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_sums_from_a_later_count_on_are_columns_of_all_sums():
    law, times = RoundPace(base=Gamma(shape=2.0, scale=0.3)), np.linspace(0.0, 5.0, 11)
    np.testing.assert_array_equal(law.sums(range(2, 6), times), law.sums(range(0, 6), times)[:, 2:])


def test_atoms_are_multiples_of_the_atoms_of_a_single_task():
    constant = RoundPace(base=Deterministic(time=2.0))
    assert set(constant.atoms(range(1, 4))) == {2.0, 4.0, 6.0}
    assert set(constant.atoms(range(3, 5))) == {6.0, 8.0}
    two = RoundPace(base=Straggler(base=Deterministic(time=1.0), probability=0.5, slowdown=3.0))
    assert set(two.atoms(range(1, 3))) == {1.0, 2.0, 3.0, 6.0}
    assert len(RoundPace(base=BASE).atoms(range(1, 4))) == 0


def test_sums_jump_at_their_atoms_and_nowhere_else():
    law = RoundPace(base=Straggler(base=Deterministic(time=1.0), probability=0.25, slowdown=3.0))
    jumps = law.atoms(range(2, 3))
    before, after = (law.sums(range(2, 3), jumps * (1 + step))[:, 0] for step in (-1e-9, 1e-9))
    np.testing.assert_allclose(sorted(after - before), [0.25, 0.75])


def test_mean_and_deviation_are_those_of_the_pace():
    assert RoundPace(base=BASE).mean == pytest.approx(0.11)
    assert RoundPace(base=BASE).std == pytest.approx(0.1)


def test_a_pace_is_as_closed_and_as_forgetful_as_its_base():
    for base in (BASE, Exponential(rate=1.0), Pareto(shape=3.0, scale=1.0), Trace(times=[1.0, 2.0])):
        law = RoundPace(base=base)
        assert law.one_pace
        assert law.closed == base.closed
        assert law.independent_rounds == base.independent_rounds
        assert not base.one_pace
    chain = GilbertElliott(base=Exponential(rate=1.0), enter=0.1, leave=0.5, slowdown=3.0)
    assert not RoundPace(base=chain).independent_rounds


@pytest.mark.parametrize(
    ("mean", "std", "base"),
    [
        (2.0, 0.0, Deterministic(time=2.0)),
        (2.0, 0.5, ShiftedExponential(shift=1.5, rate=2.0)),
        (2.0, 2.0, ShiftedExponential(shift=0.0, rate=0.5)),
        (2.0, 4.0, Gamma(shape=0.25, scale=8.0)),
    ],
    ids=["constant", "std < mean", "std = mean", "std > mean"],
)
def test_a_fit_has_both_moments(mean, std, base):
    law = RoundPace.fit(mean, std)
    assert law == RoundPace(base=base) == fit("round_pace", mean, std)
    assert (law.mean, law.std) == (pytest.approx(mean), pytest.approx(std))


def test_paces_with_memory_go_on_from_draw_to_draw():
    law = RoundPace(base=Trace(times=[1.0, 2.0, 4.0]))
    rng = np.random.default_rng(3)
    state, paces = law.begin(5, rng), []
    for rounds in (1, 2, 4, 3):
        times, state = law.advance(state, (5, rounds, 2), rng)
        assert (times == times[..., :1]).all()
        paces.append(times[..., 0])
    following = {1.0: 2.0, 2.0: 4.0, 4.0: 1.0}
    for own in np.concatenate(paces, axis=1).tolist():
        assert [following[pace] for pace in own[:-1]] == own[1:]


def test_laws_of_equal_bases_are_equal():
    """Workers of equal laws are drawn together: equality and hashes must see the base."""
    same = RoundPace(base=ShiftedExponential(shift=0.01, rate=10.0))
    assert same == RoundPace(base=BASE)
    assert len({same, RoundPace(base=BASE), RoundPace(base=Exponential(rate=10.0))}) == 2
