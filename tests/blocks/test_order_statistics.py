from itertools import pairwise
from math import comb

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expi
from scipy.stats import binom

from echelon.blocks import order_harmonic_means, order_means
from echelon.delays import Deterministic, Exponential, Gamma, Pareto, RoundPace, ShiftedExponential, Straggler
from echelon.errors import ArgumentError, NoClosedForm
from tests.blocks.setting import LAW, drawn, within_999


def printed(n: int, workers: int, law: ShiftedExponential) -> float:
    """(8) as printed, an alternating sum."""
    a = law.rate * law.shift
    terms = [
        (-1) ** i * comb(n - 1, i) * np.exp(a * (workers - n + i + 1)) * expi(-a * (workers - n + i + 1))
        for i in range(n)
    ]
    return -1 / (law.rate * (workers + 1 - n) * comb(workers, n - 1) * sum(terms))


def test_harmonic_means_agree_with_the_printed_formula_while_it_is_good():
    expected = [printed(n, 8, LAW) for n in range(1, 9)]
    np.testing.assert_allclose(order_harmonic_means(8, LAW), expected, rtol=1e-9)


@pytest.mark.parametrize("workers", [1000, 10_000])
def test_harmonic_means_of_many_workers_rise_between_the_shift_and_the_means(workers):
    found = order_harmonic_means(workers, LAW)
    assert np.isfinite(found).all()
    assert (np.diff(found) > 0).all()
    assert found[0] > 50.0
    assert (found <= order_means(workers, LAW)).all()  # Jensen


def test_the_fastest_of_many_has_an_exponential_integral():
    # T_(1) is shift + Exp(N rate), so E[1/T_(1)] = N rate e^a E1(a), a = N rate shift
    a = 1000 * LAW.rate * LAW.shift
    integral = quad(lambda y: np.exp(-y) / (1 + y / a), 0, 60)[0] / LAW.shift
    assert order_harmonic_means(1000, LAW)[0] == pytest.approx(1 / integral, rel=1e-10)


def test_means_are_harmonic_numbers():
    numbers = [50 + 1000 * sum(1 / i for i in range(20 - n + 1, 21)) for n in range(1, 21)]
    np.testing.assert_allclose(order_means(20, LAW), numbers, rtol=1e-13)
    np.testing.assert_allclose(order_means(20, RoundPace(base=LAW)), numbers, rtol=1e-13)


@pytest.mark.parametrize("shape", [0.5, 2.5, 40.0])
def test_other_laws_agree_with_adaptive_integration_and_simulation(shape):
    law = Gamma(shape=shape, scale=2.0)
    means = order_means(7, law)
    assert means.mean() == pytest.approx(law.mean, rel=1e-10)
    slowest = quad(lambda t: 1 - law.sums(range(1, 2), np.array([t]))[0, 0] ** 7, 0, 40 * law.mean, limit=400)[0]
    assert means[-1] == pytest.approx(slowest, rel=1e-7)
    times = drawn(law, 7, 100_000, 1)
    for n in range(7):
        assert within_999(times[:, n], means[n])
    if shape > 2:
        harmonic = order_harmonic_means(7, law)
        for n in range(7):
            assert within_999(1 / times[:, n], 1 / harmonic[n])


@pytest.mark.parametrize("rate", [1.0, 10.0])
def test_a_law_with_a_kink_agrees_with_adaptive_integration_between_its_kinks(rate):
    law = Straggler(base=ShiftedExponential(shift=1.0, rate=rate), probability=0.1, slowdown=5.0)
    cuts = [1, 1.01, 1.03, 1.1, 1.2, 1.5, 2, 3, 4, 5, 5.1, 5.3, 5.6, 6, 8, 12, 20, 40, 80, 160, 400]

    def below(t):
        return 0.9 * -np.expm1(-rate * (t - 1)) + (0.1 * -np.expm1(-rate * (t / 5 - 1)) if t > 5 else 0.0)

    def integral(of):
        return sum(quad(of, a, b, epsabs=1e-14, epsrel=1e-13, limit=300)[0] for a, b in pairwise(cuts))

    means, harmonic = order_means(5, law), order_harmonic_means(5, law)
    for n in range(1, 6):
        mean = 1 + integral(lambda t, n=n: binom.cdf(n - 1, 5, below(t)))
        inverse = 1 / 400 + integral(lambda t, n=n: binom.sf(n - 1, 5, below(t)) / t**2)
        assert means[n - 1] == pytest.approx(mean, rel=1e-11)
        assert harmonic[n - 1] == pytest.approx(1 / inverse, rel=1e-11)


def test_jumps_keep_their_probability():
    """1 with 3/4, else 3: the slowest of four is 1 only where all are."""
    law = Straggler(base=Deterministic(time=1.0), probability=0.25, slowdown=3.0)
    slow = binom.sf(np.arange(3, -1, -1), 4, 0.25)
    np.testing.assert_allclose(order_means(4, law), 1 + 2 * slow, rtol=1e-10)


def test_the_general_integral_agrees_with_the_closed_form_at_a_thousand_workers():
    # a gamma law of shape 1 is the exponential one, but takes the general way
    np.testing.assert_allclose(
        order_means(1000, Gamma(shape=1.0, scale=3.0)), order_means(1000, Exponential(rate=1 / 3)), rtol=1e-9
    )


def test_harmonic_mean_of_one_gamma_worker():
    assert order_harmonic_means(1, Gamma(shape=3.0, scale=2.0))[0] == pytest.approx(4.0, rel=1e-10)  # (shape-1) scale
    assert order_harmonic_means(1, Gamma(shape=1.5, scale=2.0))[0] == pytest.approx(1.0, rel=1e-5)


def test_constants_are_their_own_means():
    law = Deterministic(time=2.0)
    assert order_means(3, law) == pytest.approx([2.0] * 3)
    assert order_harmonic_means(3, law) == pytest.approx([2.0] * 3)


@pytest.mark.parametrize("law", [Exponential(rate=1.0), Gamma(shape=1.0, scale=1.0), Gamma(shape=0.7, scale=1.0)])
def test_no_mean_frequency_is_an_error(law):
    with pytest.raises(ArgumentError, match=r"law: .* mean"):
        order_harmonic_means(4, law)


def test_what_is_not_allowed_is_named():
    with pytest.raises(ArgumentError, match="workers: "):
        order_means(0, LAW)
    with pytest.raises(ArgumentError, match="law: "):
        order_means(3, 1.0)
    with pytest.raises(NoClosedForm, match="law: "):
        order_means(3, Pareto(shape=3.0, scale=1.0))
