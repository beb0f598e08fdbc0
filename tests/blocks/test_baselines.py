import numpy as np
import pytest

from echelon.blocks import baselines, ferdinand, order_means, single_block, tandon, uncoded
from echelon.delays import Pareto
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


def test_what_is_not_allowed_is_named():
    with pytest.raises(ArgumentError, match="workers: "):
        uncoded(0, 10)
    with pytest.raises(ArgumentError, match="coordinates: "):
        single_block(3, 0, LAW)
    with pytest.raises(ArgumentError, match="alpha: "):
        tandon(3, 10, LAW, alpha=1.0)
    with pytest.raises(NoClosedForm):
        baselines(3, 10, Pareto(shape=3.0, scale=1.0))
