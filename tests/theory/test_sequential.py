"""Section 4 of the sequential paper: its formulas, by enumeration and by simulation of the two-speed workers."""

from itertools import product

import numpy as np
import pytest

from echelon.errors import ArgumentError
from echelon.stragglers import Arbitrary, waited
from echelon.theory import (
    dip_time,
    idip_bound_fails_from,
    idip_time,
    idip_time_bound,
    idip_time_corrected_bound,
    optimal_load,
    polynomial_time,
    rounds_needed,
    uncoded_time,
)

GRID = [0.0, 0.05, 0.2, 0.3, 0.5, 0.7, 0.95, 1.0]


def enumerated(workers, window, probability, is_long):
    """Return the chance that is_long(pattern) holds, over all patterns of (window, workers)."""
    chance = 0.0
    for bits in product((0, 1), repeat=workers * window):
        pattern = np.array(bits).reshape(window, workers)
        if is_long(pattern):
            slow = int(pattern.sum())
            chance += probability**slow * (1 - probability) ** (pattern.size - slow)
    return chance


def test_the_numbers_of_the_paper_setting():
    four = {"workers": 4, "probability": 0.3}
    assert rounds_needed(results=6, **four) == pytest.approx(2.461714, abs=5e-7)
    assert uncoded_time(slowdown=5, **four) == pytest.approx(1.0099, abs=1e-12)
    assert polynomial_time(slowdown=5, stragglers=2, **four) == pytest.approx(0.6674, abs=1e-12)
    assert dip_time(slowdown=5, results=6, **four) == pytest.approx(0.4236, abs=5e-5)
    assert idip_time_bound(slowdown=5, count=10, window=4, **four) == pytest.approx(0.6708, abs=5e-5)
    assert idip_time_corrected_bound(slowdown=5, count=10, window=4, **four) == pytest.approx(0.6916, abs=5e-5)
    assert idip_time(slowdown=5, count=10, window=4, **four) == pytest.approx(0.6894, abs=5e-5)


@pytest.mark.parametrize(("results", "workers", "probability"), [(6, 4, 0.3), (9, 2, 0.6), (5, 7, 0.5)])
def test_rounds_needed_by_monte_carlo(results, workers, probability):
    """Mean over 100 000 jobs, at 99.9 %."""
    rng = np.random.default_rng(7)
    missing = np.full(100_000, results)
    rounds = np.zeros(len(missing))
    while (missing > 0).any():
        rounds += missing > 0
        slow = (rng.random((len(missing), workers)) < probability).sum(axis=1)
        missing -= np.where(slow == workers, workers, workers - slow)
    exact = rounds_needed(results=results, workers=workers, probability=probability)
    assert abs(rounds.mean() - exact) < 3.29 * rounds.std() / np.sqrt(len(rounds))


def test_rounds_needed_where_nothing_is_random():
    for results, workers, rounds in [(1, 1, 1), (6, 4, 2), (8, 4, 2), (9, 4, 3), (1, 10, 1)]:
        for probability in (0.0, 1.0):
            assert rounds_needed(results=results, workers=workers, probability=probability) == pytest.approx(rounds)
    # one worker returns a result in every round: as a straggler it is also the fastest
    assert rounds_needed(results=5, workers=1, probability=0.4) == pytest.approx(5)


def test_dip_of_a_simulated_stream():
    """Jobs never due: each round all unfinished jobs get a result from each worker in time; at 99.9 %, over batches."""
    rng = np.random.default_rng(8)
    results, workers, slowdown, probability, jobs = 6, 4, 5.0, 0.3, 60_000
    missing: list[int] = []
    times = np.empty(jobs)
    for t in range(jobs):
        missing.append(results)
        slow = int((rng.random(workers) < probability).sum())
        back = workers if slow == workers else workers - slow
        times[t] = len(missing) / results * (slowdown if slow == workers else 1.0)
        missing = [m - back for m in missing if m > back]
    batches = times[100:59_900].reshape(-1, 100).mean(axis=1)
    exact = dip_time(slowdown=slowdown, results=results, workers=workers, probability=probability)
    assert abs(batches.mean() - exact) < 3.29 * batches.std() / np.sqrt(len(batches))


@pytest.mark.parametrize("probability", GRID)
def test_the_polynomial_code_by_enumeration(probability):
    for stragglers in range(3):
        long = enumerated(3, 1, probability, lambda pattern, most=stragglers: pattern.sum() > most)
        time = polynomial_time(slowdown=4, stragglers=stragglers, workers=3, probability=probability)
        assert time == pytest.approx((1 + 3 * long) / (3 - stragglers), rel=1e-12)


@pytest.mark.parametrize("probability", GRID)
def test_the_bounds_on_idip_by_enumeration(probability):
    for workers, window in [(2, 3), (3, 2), (3, 1)]:
        for count in range(workers * window):
            setting = {"count": count, "window": window, "workers": workers, "probability": probability}
            load = optimal_load(workers=workers, count=count, window=window)
            printed = enumerated(workers, window, probability, lambda p, n=count: p.sum() > n)
            true = enumerated(workers, window, probability, lambda p, n=count: p.sum() > n or p[-1].all())
            assert idip_time_bound(slowdown=3, **setting) == pytest.approx(load * (1 + 2 * printed), rel=1e-12)
            assert idip_time_corrected_bound(slowdown=3, **setting) == pytest.approx(load * (1 + 2 * true), rel=1e-12)
            assert idip_time(slowdown=3, **setting) <= load * (1 + 2 * true) * (1 + 1e-12)


@pytest.mark.parametrize(("count", "window", "workers", "probability"), [
    (8, 4, 4, 0.3), (10, 4, 4, 0.3), (3, 2, 2, 0.5), (2, 3, 3, 0.2), (1, 1, 3, 0.4),
])  # fmt: skip
def test_idip_by_simulated_waiting(count, window, workers, probability):
    """Share of long rounds at 99.9 %, over batches of 100 rounds."""
    rng = np.random.default_rng(9)
    slow = rng.random((40_000, workers)) < probability
    left = waited(slow, Arbitrary(count=count, window=window), rng, together=True)
    long = (slow != left).any(axis=1)
    assert long[slow.all(axis=1)].all()
    batches = long.reshape(-1, 100).mean(axis=1)
    setting = {"count": count, "window": window, "workers": workers, "probability": probability}
    load = optimal_load(workers=workers, count=count, window=window)
    exact = idip_time(slowdown=2, **setting) / load - 1
    assert abs(batches.mean() - exact) < 3.29 * batches.std() / np.sqrt(len(batches))


def test_the_printed_bound_lies_below_the_truth_where_everybody_may_straggle():
    """P = W = 2, N = 3: a round is long whenever both straggle, which the printed bound takes for granted."""
    setting = {"slowdown": 5, "count": 3, "window": 2, "workers": 2, "probability": 0.3}
    assert idip_time_bound(**setting) == pytest.approx(2 * (1 + 4 * 0.3**4))
    assert idip_time(**setting) == pytest.approx(2 * (1 + 4 * 0.3**2))
    assert idip_time(**setting) > 1.3 * idip_time_bound(**setting)


@pytest.mark.parametrize(("stragglers", "workers", "window", "crossing"), [
    (2, 4, 4, 0.43838), (1, 4, 4, 0.18438), (3, 4, 4, 0.69564), (3, 6, 5, 0.46302), (1, 2, 2, 1 / 3),
])  # fmt: skip
def test_the_printed_bound_is_below_the_polynomial_code_up_to_some_probability_only(
    stragglers, workers, window, crossing
):
    found = idip_bound_fails_from(stragglers=stragglers, workers=workers, window=window)
    assert found == pytest.approx(crossing, abs=5e-6)
    for probability in np.linspace(0.01, 0.99, 99):
        setting = {"slowdown": 5, "workers": workers, "probability": probability}
        bound = idip_time_bound(count=stragglers * window, window=window, **setting)
        polynomial = polynomial_time(stragglers=stragglers, **setting)
        assert (bound > polynomial) == (probability > found)


def test_idip_itself_is_never_slower_than_the_polynomial_code():
    for workers in range(2, 5):
        for window in range(1, 5):
            for stragglers in range(workers):
                for probability in GRID:
                    setting = {"slowdown": 5, "workers": workers, "probability": probability}
                    idip = idip_time(count=stragglers * window, window=window, **setting)
                    assert idip <= polynomial_time(stragglers=stragglers, **setting) * (1 + 1e-12)


def test_idip_has_no_more_long_rounds_than_the_polynomial_code_on_any_pattern():
    """The same pathwise, on all patterns: P = 2, S = 1, W = 2 over 6 rounds, and P = 3 over 4."""
    for workers, stragglers, window, rounds in [(2, 1, 2, 6), (3, 1, 2, 4), (3, 2, 3, 4)]:
        model = Arbitrary(count=stragglers * window, window=window)
        order = np.arange(workers)
        for bits in product((False, True), repeat=workers * rounds):
            slow = np.array(bits).reshape(rounds, workers)
            left = waited(slow, model, order, together=True)
            assert (slow != left).any(axis=1).sum() <= (slow.sum(axis=1) > stragglers).sum()


def test_waiting_for_one_worker_at_a_time_may_cost_more_long_rounds():
    """Who is not waited for stays a straggler of the window, and makes a later round wait, too."""
    slow = np.zeros((2, 4), dtype=bool)
    slow[0, :3] = slow[1, 0] = True
    model = Arbitrary(count=2, window=2)
    order = np.arange(4)
    assert (waited(slow, model, order) != slow).any(axis=1).tolist() == [True, True]
    assert (waited(slow, model, order, together=True) != slow).any(axis=1).tolist() == [True, False]


def test_the_optimal_load():
    assert optimal_load(workers=4, count=10, window=4) == pytest.approx(1 / (4 - 10 / 4))
    assert optimal_load(workers=4, count=0, window=3) == 0.25


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: rounds_needed(results=0, workers=2, probability=0.1), "results: 0"),
        (lambda: rounds_needed(results=1, workers=0, probability=0.1), "workers: 0"),
        (lambda: dip_time(slowdown=0.5, results=1, workers=2, probability=0.1), "slowdown: 0.5"),
        (lambda: polynomial_time(slowdown=2, stragglers=4, workers=4, probability=0.1), "stragglers: 4"),
        (lambda: uncoded_time(slowdown=2, workers=4, probability=1.1), "probability: 1.1"),
        (lambda: optimal_load(workers=2, count=8, window=4), "count: 8"),
        (lambda: idip_time_bound(slowdown=2, count=1, window=0, workers=2, probability=0.1), "window: 0"),
        (lambda: idip_time(slowdown=2, count=1, window=20, workers=4, probability=0.1), "window: 20"),
        (lambda: idip_bound_fails_from(stragglers=0, workers=4, window=4), "stragglers: 0"),
        (lambda: idip_bound_fails_from(stragglers=1, workers=4, window=1), "window: 1"),
    ],
)
def test_wrong_arguments_are_named(call, named):
    with pytest.raises(ArgumentError, match=named):
        call()
