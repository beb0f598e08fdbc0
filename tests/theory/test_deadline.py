"""DIP with a deadline, exactly: against closed forms, against simulation, and at the figures that are told of it."""

import numpy as np
import pytest

from echelon.errors import ArgumentError
from echelon.schemes import diagonal_interleaved
from echelon.simulation import simulate_chain
from echelon.theory import dip_deadline_time, dip_time, polynomial_time

PAPER = {"slowdown": 5.0, "workers": 4, "probability": 0.3}
RULES = ("due", "fastest")


def test_the_figures_of_the_two_waiting_rules():
    """P = 4, xy = 16, T = 3, lambda = 1, delta = .3, alpha = 5; to the last digit, by the exact chain."""
    due, fastest = (dip_deadline_time(results=16, delay=3, waiting=waiting, **PAPER) for waiting in RULES)
    assert due == pytest.approx(0.375262, abs=5e-7)
    assert fastest == pytest.approx(0.578309, abs=5e-7)


def test_the_best_of_figure_1_by_each_rule():
    """At delta = .3 and T = 3, over all beta from P to P W and all lambda: .375 is ours, .421 the paper's."""
    for waiting, least, where in (("due", 0.374935, (14, 1)), ("fastest", 0.420849, (7, 1))):
        times = {
            (results, spread): dip_deadline_time(results=results, delay=3, spread=spread, waiting=waiting, **PAPER)
            for results in range(4, 17)
            for spread in range(1, 5)
        }
        best = min(times, key=lambda at: times[at])
        assert (best, times[best]) == (where, pytest.approx(least, abs=5e-7))


@pytest.mark.parametrize("waiting", RULES)
@pytest.mark.parametrize(
    ("results", "delay", "spread", "setting"),
    [
        (16, 3, 1, PAPER),
        (7, 3, 1, PAPER),
        (9, 2, 2, PAPER),
        (6, 0, 2, PAPER),
        (14, 4, 2, {"slowdown": 10.0, "workers": 6, "probability": 0.3}),
        (11, 2, 1, {"slowdown": 2.7, "workers": 3, "probability": 0.6}),
    ],
)
def test_a_simulated_chain_has_the_exact_mean(waiting, results, delay, spread, setting):
    """At 99.9 %, over 40 runs of 1000 rounds with a full window."""
    expected = dip_deadline_time(results=results, delay=delay, spread=spread, waiting=waiting, **setting)
    scheme = diagonal_interleaved(setting["workers"], x=1, y=results, delay=delay, spread=spread, waiting=waiting)
    draws = np.random.default_rng(results).random((40, 1000 + 3 * delay, setting["workers"]))
    paces = np.where(draws < setting["probability"], setting["slowdown"], 1.0)
    seen = simulate_chain(scheme, paces=paces, products=1000 + 2 * delay)
    means = seen.durations[:, 2 * delay : 1000 + 2 * delay].mean(axis=1)
    assert abs(means.mean() - expected) < 3.29 * means.std(ddof=1) / 40**0.5


@pytest.mark.parametrize("waiting", RULES)
def test_without_delay_and_one_task_each_it_is_the_polynomial_code(waiting):
    for results in range(1, 5):
        found = dip_deadline_time(results=results, delay=0, spread=4, waiting=waiting, **PAPER)
        assert found == pytest.approx(polynomial_time(stragglers=4 - results, **PAPER), rel=1e-12)


@pytest.mark.parametrize("waiting", RULES)
def test_with_a_long_delay_and_stragglers_that_return_nothing_it_is_the_formula_for_infinity(waiting):
    setting = {**PAPER, "slowdown": 100.0}
    expected = dip_time(results=4, **setting)
    assert dip_deadline_time(results=4, delay=9, waiting=waiting, **setting) == pytest.approx(expected, rel=1e-4)


def test_our_rule_is_never_slower_on_the_grid_of_figure_1():
    for results in (4, 7, 12, 16):
        for probability in (0.0, 0.05, 0.3, 0.5, 1.0):
            setting = {**PAPER, "probability": probability, "results": results, "delay": 3}
            due, fastest = (dip_deadline_time(waiting=waiting, **setting) for waiting in RULES)
            assert due <= fastest * (1 + 1e-12)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"waiting": "slowest"}, "waiting: 'slowest' is not allowed; must be one of due, fastest"),
        ({"spread": 5}, "spread: 5"),
        ({"slowdown": 0.5}, "slowdown: 0.5"),
        ({"results": 0}, "results: 0"),
        ({"delay": -1}, "delay: -1"),
        ({"probability": 2}, "probability: 2"),
    ],
)
def test_wrong_arguments_are_named(wrong, said):
    with pytest.raises(ArgumentError, match=said):
        dip_deadline_time(**{"results": 6, "delay": 3, **PAPER, **wrong})


def test_too_many_states_are_refused(monkeypatch):
    monkeypatch.setattr("echelon.theory.deadline.STATES", 100)
    with pytest.raises(ArgumentError, match="more than 100 states are not allowed"):
        dip_deadline_time(results=200, delay=4, **{**PAPER, "workers": 30})
