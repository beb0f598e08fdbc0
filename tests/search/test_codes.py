import numpy as np
import pytest

import echelon as ec
from echelon.search.codes import (
    COSTS,
    CodeShape,
    algorithm1,
    best_code,
    code_grid,
    default_grid,
    fixed_work,
    gradient_work,
    recode,
)


def test_recoding_scales_both_moments_and_leaves_links(example2):
    coded = recode(example2, CodeShape(critical=100, tasks=120))
    np.testing.assert_allclose(coded.speeds.mean, example2.speeds.mean / 2)
    np.testing.assert_allclose(coded.speeds.std, example2.speeds.std / 2)
    np.testing.assert_array_equal(coded.speeds.link, example2.speeds.link)
    assert coded.workload.tasks == 120
    assert coded.workload.operations == pytest.approx(2827440 / 2)


def test_a_profile_recoded_to_its_own_code_is_itself(example2):
    for cost in COSTS.values():
        np.testing.assert_allclose(
            recode(example2, CodeShape(critical=50, tasks=55), cost).speeds.mean, example2.speeds.mean
        )


def test_gradient_rows_cost_what_they_touch():
    """d = n - K + 1 of n chunks (note 14); without redundancy one chunk of n."""
    assert gradient_work(50, 50) == pytest.approx(1 / 50)
    assert gradient_work(2, 3) == pytest.approx(2 / 3)
    assert fixed_work(50, 55) == pytest.approx(1 / 50)


def test_algorithm_1_orders_by_mismatch_as_printed(example2):
    trials = algorithm1(example2, code_grid([20, 50, 100], [1.0, 1.1]))
    assert [t.mismatch for t in trials] == sorted(t.mismatch for t in trials)
    for trial in trials:
        levels = ec.theory.metric(trial.profile.speeds, trial.split.counts, 1.0)
        assert trial.mismatch == pytest.approx(np.mean(levels**2) - np.mean(levels) ** 2, rel=1e-6)
        assert trial.split.tasks == trial.code.tasks


def test_the_best_code_has_the_least_exact_delay(example2):
    grid = code_grid([25, 50, 100], [1.0, 1.1, 1.3])
    trials = best_code(example2, grid)
    delays = []
    for code in grid:
        coded = recode(example2, code)
        plan = ec.schemes.any_k(ec.split_rows(coded, tasks=code.tasks).counts, code.critical)
        delays.append(ec.predict_jobs(plan, coded).delay)
    assert trials[0].prediction.delay == pytest.approx(min(delays))
    assert [t.prediction.delay for t in trials] == sorted(t.prediction.delay for t in trials)


def test_under_the_gradient_cost_redundancy_is_not_free(example2):
    """At d/n a row much redundancy is slower than none; at fixed work it never is."""
    grid = code_grid([50], [1.0, 2.0])
    by_cost = {
        name: {trial.code.tasks: trial.prediction.service_mean for trial in best_code(example2, grid, cost=cost)}
        for name, cost in COSTS.items()
    }
    assert by_cost["fixed"][100] < by_cost["fixed"][50]
    assert by_cost["gradient"][100] > by_cost["gradient"][50]


def test_the_default_grid_holds_the_profile_s_own_code(example2):
    assert CodeShape(critical=50, tasks=55) in default_grid(example2)


def test_unstable_codes_come_last(example2):
    trials = best_code(example2.with_workload(arrivals=ec.Arrivals.poisson(0.025)), code_grid([50], [1.0, 1.1, 1.3]))
    assert [t.prediction.stable for t in trials] == [True, True, False]
    assert trials[-1].code.tasks == 50


def test_grids_that_hold_nothing_are_refused(example2):
    with pytest.raises(ValueError, match="grid: empty"):
        best_code(example2, [])
    with pytest.raises(ValueError, match=r"redundancy: 0\.9 is not allowed"):
        code_grid([5], [0.9])
    with pytest.raises(ValueError, match="tasks: 4 is not allowed"):
        CodeShape(critical=5, tasks=4)
