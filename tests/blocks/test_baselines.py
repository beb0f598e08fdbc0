import numpy as np
import pytest
from scipy.special import gammaln

from echelon.blocks import baselines, ferdinand, order_means, single_block, tandon, uncoded
from echelon.delays import Deterministic, Pareto
from echelon.errors import ArgumentError, NoClosedForm
from tests.blocks.setting import COORDINATES, LAW, drawn, literal_runtime, unit, within_999


def test_expected_runtimes_lie_in_the_intervals_of_a_simulation():
    times = drawn(LAW, 20, 100_000, 11)
    found = baselines(20, COORDINATES, LAW, unit(20))
    assert sorted(found) == ["ferdinand", "single", "tandon", "uncoded"]
    for name, partition in found.items():
        assert partition.method == name
        assert partition.x.sum() == pytest.approx(COORDINATES)
        assert within_999(literal_runtime(partition.x, times, unit(20)), partition.expected), name


def test_one_block_and_no_code_have_formulas():
    found = baselines(20, COORDINATES, LAW, unit(20))
    times = order_means(20, LAW)
    assert found["uncoded"].expected == pytest.approx(unit(20) * COORDINATES * times[-1], rel=1e-11)
    best = min((n + 1) * times[19 - n] for n in range(20))
    assert found["single"].expected == pytest.approx(unit(20) * COORDINATES * best, rel=1e-11)


def test_a_straggler_ends_its_uncoded_part_when_others_end_all():
    x = tandon(20, COORDINATES, LAW)
    s = int(np.flatnonzero(x)[-1])
    assert np.count_nonzero(x) == 2
    assert 6 * x[0] == pytest.approx(x[0] + (s + 1) * x[s])
    assert x[0] == pytest.approx(COORDINATES * (s + 1) / (s + 6))


def test_the_best_of_tandons_levels_is_taken():
    times = drawn(LAW, 10, 50_000, 3)

    def mean(s):
        x = np.zeros(10)
        x[0] = (s + 1) / (s + 6)
        x[s] += 5 / (s + 6)
        return literal_runtime(x, times).mean()

    best = int(np.flatnonzero(tandon(10, 100, LAW))[-1])
    assert mean(best) <= 1.005 * min(mean(s) for s in range(10))


@pytest.mark.parametrize("layers", [20_000, 10_000])
def test_both_numbers_of_layers_of_ferdinand_give_the_same_blocks(layers):
    times = order_means(10, LAW)
    # layer l waits for the most workers k with l t_k <= r t_1
    k = np.array(
        [np.flatnonzero(layer * times <= layers * times[0] * (1 + 1e-12))[-1] + 1 for layer in range(1, layers + 1)]
    )
    shares = np.bincount(10 - k, minlength=10) / layers
    np.testing.assert_allclose(ferdinand(10, 1, LAW), shares, atol=1.01 / layers)


def test_laws_without_a_formula_are_compared_over_draws():
    """Pareto times, sampled afresh: every runtime lies within 99.9 % of a second sample."""
    law = Pareto(shape=3.0, scale=1.0)
    found = baselines(6, 60, law, 2.0)
    assert list(found) == ["single", "tandon", "ferdinand", "uncoded"]
    times = drawn(law, 6, 100_000, 77)
    for name, partition in found.items():
        assert partition.x.sum() == pytest.approx(60)
        again = literal_runtime(partition.x, times, 2.0)
        slack = 3.2905 * np.hypot(partition.error, again.std() / np.sqrt(len(times)))
        assert abs(partition.expected - again.mean()) <= slack, name
    assert found["uncoded"].x.tolist() == [60.0, 0, 0, 0, 0, 0]
    # means of order statistics of a Pareto law are known: N!/(N-n)! G(N-n+1-1/a)/G(N+1-1/a)
    ranks = np.arange(1, 7)
    means = np.exp(gammaln(7) - gammaln(7 - ranks) + gammaln(7 - ranks - 1 / 3) - gammaln(7 - 1 / 3))
    assert int(np.argmax(found["single"].x)) == int(np.argmin(ranks * means[::-1]))


def test_constants_gain_nothing_from_redundancy():
    found = baselines(4, 12, Deterministic(time=2.0))
    assert found["uncoded"].expected == found["single"].expected == pytest.approx(24.0)


def test_what_is_not_allowed_is_named():
    with pytest.raises(ArgumentError, match="workers: "):
        uncoded(0, 10)
    with pytest.raises(ArgumentError, match="coordinates: "):
        single_block(3, 0, LAW)
    with pytest.raises(ArgumentError, match="alpha: "):
        tandon(3, 10, LAW, alpha=1.0)
    with pytest.raises(NoClosedForm, match="use a method that samples, subgradient or lp"):
        single_block(3, 10, Pareto(shape=3.0, scale=1.0))
    with pytest.raises(ArgumentError, match="law: "):
        baselines(3, 10, [LAW] * 3)
