import numpy as np
import pytest
from scipy import stats

from echelon.delays import Deterministic, Exponential, ShiftedExponential, Straggler
from echelon.errors import ArgumentError
from echelon.theory import TabulatedCdf, iteration_law


@pytest.mark.parametrize(
    "law", [stats.gamma(0.3), stats.gamma(200), stats.expon(scale=1e-6), stats.weibull_min(0.7), stats.uniform(3, 2)]
)
def test_moments_of_known_laws(law):
    table = TabulatedCdf(law.cdf, start=law.mean())
    assert table.mean == pytest.approx(law.mean(), rel=1e-8)
    assert table.second == pytest.approx(law.var() + law.mean() ** 2, rel=1e-7)
    assert table.error < 1e-8 * law.mean() * 10


def test_a_bad_first_guess_costs_time_and_not_accuracy():
    for start in (1e-6, 1.0, 1e6):
        assert TabulatedCdf(stats.gamma(3).cdf, start=start).mean == pytest.approx(3.0, rel=1e-8)


def test_jumps_keep_their_probability():
    table = TabulatedCdf(lambda t: 0.3 * (t >= 1) + 0.7 * (t >= 2), start=1.0, cuts=np.array([1.0, 2.0]))
    assert table.mean == pytest.approx(1.7, abs=1e-9)
    drawn = table.sample(20_000, np.random.default_rng(1))
    share = np.mean(np.abs(drawn - 1) < 1e-6)
    assert abs(share - 0.3) < 3.29 * np.sqrt(0.21 / 20_000)  # 99.9 %
    assert np.all((np.abs(drawn - 1) < 1e-6) | (np.abs(drawn - 2) < 1e-6))


def test_samples_follow_the_law():
    """By a Kolmogorov-Smirnov test of 200 000 draws at 99.9 %."""
    drawn = TabulatedCdf(stats.gamma(5).cdf, start=5.0).sample(200_000, np.random.default_rng(3))
    assert stats.kstest(drawn, stats.gamma(5).cdf).pvalue > 0.001


def test_a_function_that_never_reaches_one_is_refused():
    with pytest.raises(ValueError, match="does not reach 1"):
        TabulatedCdf(lambda t: 0.5 * (t > 0), start=1.0)


SHARES = np.array([1e-9, 1e-6, 0.01, 0.25, 0.5, 0.9, 0.999, 1 - 1e-6, 1 - 1e-9])


@pytest.mark.parametrize(("workers", "critical"), [(1, 1), (5, 1), (5, 5), (12, 7), (40, 30)])
def test_quantiles_of_exponential_order_statistics(workers, critical):
    """T_(k) = -log(1 - U_(k)), and U_(k) has a beta law."""
    law = iteration_law([Exponential(rate=2.0)] * workers, np.zeros(workers), np.ones(workers, dtype=int), critical)
    beta = stats.beta(critical, workers + 1 - critical)
    inner = SHARES[1:-1]
    # the CDF is right to about 1e-12, hence a quantile to that over the density
    wanted = -np.log1p(-beta.ppf(inner)) / 2
    density = beta.pdf(beta.ppf(inner)) * 2 * np.exp(-2 * wanted)
    np.testing.assert_array_less(np.abs(law.quantile(inner) - wanted), 1e-11 / density + 1e-12 * wanted)


def test_quantiles_of_a_hypoexponential_law():
    """Exp(1) + Exp(3): y = exp(-t) solves y^3 - 3 y + 2 (1 - p) = 0, so that y is twice a cosine."""
    law = TabulatedCdf(lambda t: 1 - (3 * np.exp(-t) - np.exp(-3 * t)) / 2, start=1.0)
    p = np.linspace(0.001, 0.999, 999)
    wanted = -np.log(2 * np.cos((2 * np.pi - np.arccos(p - 1)) / 3))
    np.testing.assert_allclose(law.quantile(p), wanted, rtol=1e-9)


def test_quantiles_jump_where_the_law_does():
    """Two constant workers, one twenty times slower in a quarter of the rounds: two times, exactly."""
    slow = Straggler(base=Deterministic(time=0.1), probability=0.25, slowdown=20.0)
    law = iteration_law([slow, Deterministic(time=0.7)], np.array([0.3, 0.0]), np.array([1, 1]), 2)
    # 0.7 with 3/4, else 0.3 + 2.0
    shares = np.array([1e-9, 0.3, 0.75 - 1e-9, 0.75 + 1e-9, 1 - 1e-9])
    assert law.quantile(shares).tolist() == [0.7, 0.7, 0.7, 2.3, 2.3]
    both = TabulatedCdf(
        lambda t: 0.5 * (t >= 1) + 0.5 * (t >= 1) * -np.expm1(-(t - 1)), start=1.0, cuts=np.array([1.0])
    )
    assert both.quantile(0.5) == 1.0  # half of it is there at once
    assert both.quantile(0.75) == pytest.approx(1 + np.log(2), rel=1e-12)


def test_a_time_that_is_always_the_same_is_every_quantile():
    law = iteration_law([Deterministic(time=0.1)] * 3, np.full(3, 0.2), np.full(3, 3), 9)
    np.testing.assert_allclose(law.quantile(SHARES), 0.5, rtol=1e-15)


def test_quantiles_have_the_shape_of_what_is_asked_and_rise():
    law = iteration_law(
        [Straggler(base=ShiftedExponential(shift=1.0, rate=1.0), probability=0.1, slowdown=5.0)] * 3,
        np.zeros(3), np.array([2, 2, 2]), 4,
    )  # fmt: skip
    assert law.quantile(0.5).shape == ()
    assert law.quantile(np.full((2, 3), 0.5)).shape == (2, 3)
    rising = law.quantile(np.linspace(0.001, 0.999, 500))
    assert (np.diff(rising) > 0).all()


@pytest.mark.parametrize("p", [0.0, 1.0, -0.5, float("nan"), 1e-12])
def test_a_quantile_beyond_the_table_is_refused(p):
    with pytest.raises(ArgumentError, match=r"p: .* is not allowed; must be from 1e-09 to 1 - 1e-09"):
        TabulatedCdf(stats.expon.cdf, start=1.0).quantile(np.array([0.5, p]))


def test_a_kink_that_is_named_costs_no_panels():
    """The CDF of a uniform time: one straight piece between its ends."""
    law, calls = stats.uniform(3, 2), []

    def cdf(times):
        calls.append(len(times))
        return law.cdf(times)

    told = TabulatedCdf(cdf, start=4.0, cuts=np.array([3.0, 5.0]))
    looked = sum(calls)
    calls.clear()
    found = TabulatedCdf(cdf, start=4.0)
    assert looked < sum(calls) / 2
    assert abs(told.mean - 4.0) < 1e-12
    assert abs(found.mean - 4.0) < 1e-9
