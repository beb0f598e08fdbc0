import numpy as np
import pytest
from scipy import stats

from echelon.theory import TabulatedCdf


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
