"""Single rounds: the numbers of the mmc paper's setting, closed forms, and orderings that hold in every round."""

from functools import cache

import numpy as np
import pytest

from echelon.delays import Deterministic, Exponential, Fritchman, RoundPace, ShiftedExponential, Trace
from echelon.errors import ArgumentError
from echelon.plan import Plan, Slot, Task
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.schemes import (
    any_k,
    fractional_repetition,
    gradient_coding,
    lagrange,
    multi_message,
    uncoded_multi_message,
)
from echelon.simulation import SimulatedJobs, SimulatedRounds, simulate_jobs, simulate_rounds

SHIFT, RATE, WORKERS, LOAD = 0.01, 10.0, 40, 10
LAW = RoundPace(base=ShiftedExponential(shift=SHIFT, rate=RATE))
Z = 3.2905267314919255  # 99.9 %
PAPER = {
    "gradient coding": gradient_coding(workers=WORKERS, load=LOAD),
    "lagrange": lagrange(workers=WORKERS, load=LOAD),
    "fractional repetition": fractional_repetition(workers=WORKERS, load=LOAD),
    "GC-MMC-1": multi_message(workers=WORKERS, load=LOAD, clusters=4, order=6),
    "GC-MMC-1 hybrid": multi_message(workers=WORKERS, load=LOAD, clusters=4, order=6, hybrid=True),
    "GC-MMC-2": multi_message(workers=WORKERS, load=LOAD, clusters=4, orders=[6, 8, 10]),
    "GC-MMC-2 hybrid": multi_message(workers=WORKERS, load=LOAD, clusters=4, orders=[6, 8, 10], hybrid=True),
}


@cache
def run(name):
    return simulate_rounds(PAPER[name], LAW, rounds=100_000, seed=1)


def harmonic(n, power=1):
    return sum(1 / i**power for i in range(1, n + 1))


@pytest.mark.parametrize(
    ("name", "mean", "within"),
    [
        ("gradient coding", 1.5496, 0.005),
        ("lagrange", 0.2897, 0.001),
        ("GC-MMC-1", 0.272, 0.0015),
        ("GC-MMC-2", 0.4391, 0.002),
    ],
)
def test_the_completion_times_of_the_papers_setting(name, mean, within):
    assert run(name).mean == pytest.approx(mean, abs=within)


def test_the_communication_loads_of_the_papers_setting():
    """Where one message a worker is sent the load is the threshold, in every round; 28 is four clusters times 7."""
    assert run("gradient coding").load == run("gradient coding").load_with_stop == 31
    assert run("lagrange").load == run("lagrange").load_with_stop == 7
    assert run("GC-MMC-1").load == pytest.approx(42.5, abs=0.3)
    assert run("GC-MMC-2").load_with_stop == 28
    assert run("fractional repetition").load_with_stop == 4
    assert run("GC-MMC-1").load_with_stop < run("GC-MMC-1").load


@pytest.mark.parametrize(
    ("name", "mean", "variance"),
    [
        # the k-th of n exponentials is a sum of independent ones with rates n, n - 1, …, n - k + 1
        (
            "gradient coding",
            LOAD * (SHIFT + (harmonic(40) - harmonic(9)) / RATE),
            (LOAD / RATE) ** 2 * (harmonic(40, 2) - harmonic(9, 2)),
        ),
        (
            "lagrange",
            LOAD * (SHIFT + (harmonic(40) - harmonic(33)) / RATE),
            (LOAD / RATE) ** 2 * (harmonic(40, 2) - harmonic(33, 2)),
        ),
        # the last of 4 groups, each as quick as the quickest of 10
        (
            "fractional repetition",
            LOAD * (SHIFT + harmonic(4) / (10 * RATE)),
            (LOAD / (10 * RATE)) ** 2 * harmonic(4, 2),
        ),
    ],
)
def test_mean_and_deviation_are_those_of_order_statistics(name, mean, variance):
    """The mean at 99.9 % confidence; the deviation, and with it the standard error, to 2 %."""
    seen = run(name)
    assert abs(seen.mean - mean) < Z * (variance / len(seen.times)) ** 0.5
    assert seen.error == pytest.approx((variance / len(seen.times)) ** 0.5, rel=0.02)
    assert seen.mean == pytest.approx(seen.times.mean(), rel=1e-12)
    half = 2.5758293035489004 * seen.error
    np.testing.assert_allclose(
        (seen.interval.mean, seen.interval.low, seen.interval.high), (seen.mean, seen.mean - half, seen.mean + half)
    )


def test_percentiles_are_those_of_the_closed_form():
    """The quickest of 10 in each of 4 groups: P(T <= t) = (1 - exp(-10 mu (t / r - alpha)))^4; at 99.9 %."""
    seen = run("fractional repetition")
    for percent in (1, 25, 50, 90, 99):
        share = percent / 100
        time = seen.percentile(percent)
        reached = (1 - np.exp(-10 * RATE * (time / LOAD - SHIFT))) ** 4
        assert abs(reached - share) < Z * (share * (1 - share) / len(seen.times)) ** 0.5


def test_gc_mmc_1_is_in_no_round_slower_than_fractional_repetition():
    """A worker that has computed all chunks of its cluster has sent 5 rows, which are enough."""
    assert (run("GC-MMC-1").times <= run("fractional repetition").times * (1 + 1e-12)).all()


@pytest.mark.parametrize("design", ["GC-MMC-1", "GC-MMC-2"])
def test_a_hybrid_is_in_no_round_slower_than_either_of_its_parents(design):
    hybrid = run(f"{design} hybrid").times
    assert (hybrid <= run(design).times * (1 + 1e-12)).all()
    assert (hybrid <= run("fractional repetition").times * (1 + 1e-12)).all()


def test_only_the_uncorrelated_design_gains_from_the_plain_sum():
    """In a correlated cluster of `load` workers one worker's messages are a threshold of rows already."""
    np.testing.assert_array_equal(run("GC-MMC-1 hybrid").times, run("GC-MMC-1").times)
    assert run("GC-MMC-2 hybrid").times.mean() < 0.75 * run("GC-MMC-2").times.mean()


def test_gc_mmc_2_does_not_equal_lagrange_but_its_hybrid_comes_near():
    """Note 6: the paper's claim does not reproduce; the hybrid variant is within 5 %."""
    exact = LOAD * (SHIFT + (harmonic(40) - harmonic(33)) / RATE)
    assert run("GC-MMC-2").interval.low > 1.4 * exact
    assert run("GC-MMC-2 hybrid").interval.high < 1.06 * exact
    assert run("GC-MMC-2 hybrid").mean == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("clusters", [1, 2, 4])
def test_uncoded_computation_is_the_correlated_design_of_order_one(clusters):
    uncoded = uncoded_multi_message(workers=40, load=10, clusters=clusters)
    plan = multi_message(workers=40, load=10, clusters=clusters, order=1)
    ours, theirs = (simulate_rounds(some, LAW, rounds=4000, seed=3) for some in (uncoded, plan))
    np.testing.assert_array_equal(ours.times, theirs.times)
    assert ours.load == theirs.load


def test_plans_for_the_same_workers_see_the_same_paces():
    """Gradient coding ends with the 31st pace of a round, Lagrange coding with the 7th, any 40 of 40 with the last."""
    rounds, seed = 5000, 9
    last = simulate_rounds(any_k([1] * 40, critical=40), LAW, rounds=rounds, seed=seed).times
    thirty_first = simulate_rounds(gradient_coding(workers=40, load=10), LAW, rounds=rounds, seed=seed).times
    seventh = simulate_rounds(lagrange(workers=40, load=10), LAW, rounds=rounds, seed=seed).times
    assert (seventh <= thirty_first).all()
    assert (thirty_first <= 10 * last * (1 + 1e-12)).all()
    np.testing.assert_allclose(
        simulate_rounds(any_k([1] * 40, critical=31), LAW, rounds=rounds, seed=seed).times * 10,
        thirty_first,
        rtol=1e-12,
    )


def test_the_same_seed_gives_the_same_result_and_another_one_does_not():
    plan = PAPER["GC-MMC-2 hybrid"]
    once, again, other = (simulate_rounds(plan, LAW, rounds=5000, seed=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(once.times, again.times)
    assert (once.mean, once.error, once.load, once.load_error, once.load_with_stop) == (
        again.mean,
        again.error,
        again.load,
        again.load_error,
        again.load_with_stop,
    )
    assert not (once.times == other.times).any()


def test_links_and_unequal_laws_are_each_workers_own():
    """Constant paces 1, 2 and 5, links 0, 3 and 0: lanes end at 2 * 1, 3 + 2 * 2 and 2 * 5; any two of three."""
    laws = [RoundPace(base=Deterministic(time=time)) for time in (1.0, 2.0, 5.0)]
    seen = simulate_rounds(gradient_coding(workers=3, load=2), laws, rounds=3, links=[0.0, 3.0, 0.0])
    assert seen.times.tolist() == [7.0] * 3
    assert (seen.mean, seen.error, seen.load, seen.load_error) == (7.0, 0.0, 2.0, 0.0)


def test_rounds_that_depend_on_each_other_have_their_error_from_stretches():
    """Over 60 seeds the spread of the means is what each run says of itself, within 25 %: single rounds say a third."""
    law = Fritchman(base=Deterministic(time=1.0), enter=0.02, leave=0.1, states=1, slowdown=5.0)
    seen = [simulate_rounds(any_k([1], 1), law, rounds=20_000, seed=seed) for seed in range(60)]
    spread = np.std([one.mean for one in seen], ddof=1)
    said = np.mean([one.error for one in seen])
    assert spread == pytest.approx(said, rel=0.25)
    assert np.mean([one.times.std() for one in seen]) / 20_000**0.5 < spread / 2


def test_a_record_goes_on_from_one_piece_of_rounds_to_the_next():
    """100 histories of 500 rounds are drawn in several pieces; in none a record of 7 times is broken off."""
    times = simulate_rounds(any_k([1], 1), Trace(times=[1, 2, 3, 4, 5, 6, 7]), rounds=50_000).times.reshape(100, 500)
    np.testing.assert_array_equal(times[:, 7:], times[:, :-7])
    assert set(np.diff(times, axis=1).ravel()) == {1.0, -6.0}


def test_runs_from_other_places_of_a_record_differ_by_no_more_than_their_errors_say():
    """Two workers on a record of two times are in step for good, or out of step for good: 1.5 or 2 on average."""
    seen = [simulate_rounds(any_k([1, 1], 2), Trace(times=[1.0, 2.0]), rounds=2000, seed=seed) for seed in range(20)]
    assert np.std([one.mean for one in seen]) <= 2 * np.mean([one.error for one in seen])


def test_progress_counts_rounds_up_to_the_last():
    said = []
    simulate_rounds(
        any_k([1], 1), Exponential(rate=1.0), rounds=5000, progress=lambda done, of: said.append((done, of))
    )
    assert [done for done, _ in said] == sorted({done for done, _ in said})
    assert said[-1] == (5000, 5000)
    assert {of for _, of in said} == {5000}


def test_one_call_simulates_rounds_under_laws_and_streams_of_a_profile():
    plan = any_k([1, 1], critical=2)
    rounds = simulate_rounds(plan, [Deterministic(time=2.0), Deterministic(time=3.0)], rounds=10, links=[0.5, 0.0])
    assert isinstance(rounds, SimulatedRounds)
    assert rounds.times.tolist() == [3.0] * 10
    job = Workload(critical=2, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(0.01))
    profile = Profile(job, [Worker("a", mean=2, std=0), Worker("b", mean=3, std=0)])
    assert isinstance(simulate_jobs(plan, profile, jobs=5, seeds=2), SimulatedJobs)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"rounds": 1}, "rounds"),
        ({"rounds": 2.5}, "rounds"),
        ({"rounds": 10**9}, "rounds"),
        ({"seed": -1}, "seed"),
        ({"seed": 0.5}, "seed"),
        ({"links": [0.0]}, "links"),
        ({"links": [[0.0, 0.0]]}, "links"),
        ({"laws": [Exponential(rate=1.0)] * 3}, "laws"),
        ({"laws": [1.0, 2.0]}, "laws"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_by_name(arguments, named):
    chosen = {"laws": Exponential(rate=1.0), "rounds": 10, **arguments}
    with pytest.raises(ArgumentError, match=f"^{named}: "):
        simulate_rounds(any_k([1, 1], 1), chosen.pop("laws"), **chosen)


def test_a_plan_of_many_tasks_is_drawn_in_small_pieces_and_still_right():
    """3000 tasks of cost 1 at a constant pace of 2: the last of 1500 a worker comes at 3000."""
    slots = [Slot(rows=1500, threshold=1500)] * 2
    plan = Plan(slots, [[Task(slot=s, row=row) for row in range(1500)] for s in (0, 1)])
    seen = simulate_rounds(plan, RoundPace(base=Deterministic(time=2.0)), rounds=1500)
    assert (seen.mean, seen.load, seen.load_with_stop) == (3000.0, 3000.0, 3000.0)
