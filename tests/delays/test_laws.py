"""What single laws promise beyond the conformance suite."""

import numpy as np
import pytest

import echelon as ec
from echelon.delays import (
    Deterministic,
    Exponential,
    Fritchman,
    Gamma,
    GilbertElliott,
    Pareto,
    ShiftedExponential,
    Straggler,
    Trace,
    arrival_law,
    fit,
)


def test_gamma_fits_become_exponential_and_constant_at_the_ends():
    assert fit("gamma", 2.0, 2.0) == Exponential(rate=0.5)
    assert fit("gamma", 2.0, 0.0) == Deterministic(time=2.0)
    assert fit("gamma", 2.0, 1.0) == Gamma(shape=4.0, scale=0.5)


@pytest.mark.parametrize("law", ["gamma", "shifted_exponential", "pareto", "straggler", "fritchman", "gilbert_elliott"])
def test_two_parameter_fits_keep_the_deviation(law):
    assert fit(law, 2.0, 1.9).std == pytest.approx(1.9)


def test_pareto_samples_follow_scipys_pareto():
    """By a Kolmogorov-Smirnov test at 99.9 %."""
    from scipy.stats import kstest, pareto

    times = Pareto(shape=2.5, scale=0.3).sample((20_000, 1, 1), np.random.default_rng(1)).ravel()
    assert kstest(times, pareto(2.5, scale=0.3).cdf).pvalue > 0.001


def test_exponential_sums_are_poisson_tails_to_the_last_digit():
    """Against scipy's gamma distribution, another code path."""
    from scipy.stats import gamma

    times = np.array([1e-9, 0.3, 5.0, 40.0, 300.0])
    ours = Exponential(rate=2.0).sums(range(0, 90), times)
    reference = np.column_stack([np.ones(5)] + [gamma.cdf(times, k, scale=0.5) for k in range(1, 90)])
    np.testing.assert_allclose(ours, reference, rtol=1e-11, atol=1e-15)


def test_stragglers_are_slow_for_whole_rounds():
    law = Straggler(base=Deterministic(time=1.0), probability=0.3, slowdown=4.0)
    rounds = law.sample((1, 500, 6), np.random.default_rng(1))[0]
    assert set(np.unique(rounds)) == {1.0, 4.0}
    assert (rounds == rounds[:, :1]).all()


def test_bursts_last_as_long_as_the_chain_says():
    """Mean burst states/leave and mean gap 1/enter, each at 99.9 %."""
    law = Fritchman(base=Deterministic(time=1.0), enter=0.1, leave=0.5, states=3, slowdown=2.0)
    slow = law.sample((1, 200_000, 1), np.random.default_rng(2))[0, :, 0] > 1
    edges = np.flatnonzero(np.diff(slow.astype(int)))
    lengths = np.diff(edges)
    for burst, mean in ((True, 6.0), (False, 10.0)):
        some = lengths[slow[edges[:-1] + 1] == burst]
        assert abs(some.mean() - mean) < 3.29 * some.std() / np.sqrt(len(some))


def test_bursts_go_on_across_pieces():
    """Rounds on either side of a cut are as alike as any neighbours: 99.9 % of a binomial share."""
    law = GilbertElliott(base=Deterministic(time=1.0), enter=0.02, leave=0.05, slowdown=3.0)
    rng = np.random.default_rng(4)
    state = law.begin(5000, rng)
    before, state = law.advance(state, (5000, 7, 1), rng)
    after, state = law.advance(state, (5000, 3, 1), rng)
    changed = (before[:, -1, 0] != after[:, 0, 0]).mean()
    expected = 2 * law.share * 0.05
    assert abs(changed - expected) < 3.29 * np.sqrt(expected / 5000)


def test_a_trace_is_replayed_in_order_and_across_pieces():
    law = Trace(times=[1.0, 2.0, 3.0, 4.0, 5.0])
    rng = np.random.default_rng(1)
    state = np.array([3])
    first, state = law.advance(state, (1, 2, 2), rng)
    second, _ = law.advance(state, (1, 1, 3), rng)
    assert first.ravel().tolist() == [4, 5, 1, 2]
    assert second.ravel().tolist() == [3, 4, 5]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Exponential(rate=0), "rate: 0 is not allowed"),
        (lambda: Pareto(shape=1.0, scale=1.0), "shape: 1.0 is not allowed"),
        (lambda: ShiftedExponential(shift=-1, rate=1), "shift: -1 is not allowed"),
        (lambda: Trace(times=[]), "times: .* is not allowed"),
        (lambda: Trace(times=[1, float("nan")]), r"times\[1\]: nan is not allowed"),
        (lambda: Straggler(base=Exponential(rate=1), probability=2, slowdown=2), "probability: 2 is not allowed"),
        (lambda: Fritchman(base=Exponential(rate=1), enter=0, leave=1, slowdown=2), "enter: 0.0 is not allowed"),
        (lambda: fit("shifted_exponential", 1.0, 2.0), "std: 2.0 is not allowed"),
        (lambda: fit("pareto", 1.0, 0.0), "std: 0.0 is not allowed"),
        (lambda: fit("straggler", 1.0, 0.1), "std: 0.1 is not allowed; must be at least"),
        (lambda: fit("nope", 1.0, 0.1), "law: 'nope' is not allowed; must be one of"),
    ],
)
def test_parameters_that_make_no_law_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_arrivals_become_the_law_of_their_gaps():
    assert arrival_law(ec.Arrivals.poisson(0.01)) == Exponential(rate=0.01)
    assert arrival_law(ec.Arrivals(mean=5.0, second=25.0)) == Deterministic(time=5.0)
    assert arrival_law(ec.Arrivals(mean=2.0, second=5.0)) == Gamma(shape=4.0, scale=0.5)
    assert arrival_law(ec.Arrivals.recorded([1, 2])) == Trace(times=[1.0, 2.0])


def test_rare_changes_of_a_chain_cost_no_memory():
    law = fit("gilbert_elliott", 1.0, 3.0, slowdown=2.0, enter=1e-9, leave=1e-18)
    assert law.sample((10, 20, 2), np.random.default_rng(1)).shape == (10, 20, 2)


def test_whole_numbers_are_taken_for_times():
    assert Deterministic(time=1).sample((2, 3, 4), np.random.default_rng(1)).dtype == np.float64


@pytest.mark.parametrize("key", ["mean", "std", "law"])
def test_parameters_cannot_take_the_place_of_the_moments(key):
    with pytest.raises(ValueError, match=r"parameters: .* not allowed for law"):
        fit("gamma", 1.0, 1.0, **{key: 3})
