"""The exact law of a round of several slots: closed forms, plain Monte Carlo, and other laws of this package."""

from math import comb

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, erlang, ks_2samp

from echelon.delays import (
    Deterministic,
    Exponential,
    Fritchman,
    Gamma,
    GilbertElliott,
    Pareto,
    RoundPace,
    ShiftedExponential,
    Straggler,
    Trace,
)
from echelon.endings import Due
from echelon.errors import ArgumentError, NoClosedForm
from echelon.plan import Plan, Slot, Task
from echelon.prediction import PredictedJobs, PredictedRounds, predict_jobs, predict_rounds
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.schemes import (
    any_k,
    fractional_repetition,
    gradient_coding,
    lagrange,
    multi_message,
    uncoded_multi_message,
)
from echelon.theory import exact, exact_law, iteration_law

SHIFT, RATE, LOAD = 0.01, 10.0, 10
LAW = RoundPace(base=ShiftedExponential(shift=SHIFT, rate=RATE))
Z = 3.2905267314919255  # 99.9 %


def harmonic(n, power=1):
    return sum(1 / i**power for i in range(1, n + 1))


@pytest.mark.parametrize(
    ("plan", "mean", "variance"),
    [
        (
            gradient_coding(workers=40, load=10),
            LOAD * (SHIFT + (harmonic(40) - harmonic(9)) / RATE),
            (LOAD / RATE) ** 2 * (harmonic(40, 2) - harmonic(9, 2)),
        ),
        (
            lagrange(workers=40, load=10),
            LOAD * (SHIFT + (harmonic(40) - harmonic(33)) / RATE),
            (LOAD / RATE) ** 2 * (harmonic(40, 2) - harmonic(33, 2)),
        ),
        (
            fractional_repetition(workers=40, load=10),
            LOAD * SHIFT + LOAD / (10 * RATE) * harmonic(4),
            (LOAD / (10 * RATE)) ** 2 * harmonic(4, 2),
        ),
    ],
    ids=["GC", "LCC", "FR"],
)
def test_moments_are_those_of_order_statistics(plan, mean, variance):
    law = exact_law(plan, [LAW] * 40, np.zeros(40))
    assert law.mean == pytest.approx(mean, rel=1e-9)
    assert law.second - law.mean**2 == pytest.approx(variance, rel=1e-7)
    seen = predict_rounds(plan, LAW)
    assert (seen.method, seen.law is None) == ("exact", False)
    assert abs(seen.mean - mean) <= max(seen.error, 1e-12)
    assert seen.std == pytest.approx(variance**0.5, rel=1e-7)


def of_clusters(paces, links, *, clusters, orders, threshold, whole=None):
    """Return completion times of an uncorrelated design by sorting, from paces of shape (rounds, workers).

    A worker of pace X sends at order * X after its link; with `whole` the plain sum of the cluster comes at whole * X.
    """
    ends = np.zeros(len(paces))
    for members in np.split(np.arange(paces.shape[1]), clusters):
        sent = [links[members] + paces[:, members] * order for order in orders]
        if whole is not None:
            # the sum is one more row, whoever sends it, and enough alone
            ended = (links[members] + paces[:, members] * whole).min(axis=1)
        else:
            ended = np.full(len(paces), np.inf)
        table = np.sort(np.concatenate(sent, axis=1), axis=1)
        if table.shape[1] >= threshold:
            ended = np.minimum(ended, table[:, threshold - 1])
        ends = np.maximum(ends, ended)
    return ends


def check(law, times):
    """Hold mean and second moment to a sample at 99.9 %, and the whole law by a Kolmogorov-Smirnov test."""
    rounds = len(times)
    assert abs(law.mean - times.mean()) < Z * times.std() / rounds**0.5
    assert abs(law.second - np.square(times).mean()) < Z * np.square(times).std() / rounds**0.5
    assert ks_2samp(law.sample(rounds, np.random.default_rng(99)), times).pvalue > 0.001


DESIGNS = {
    "uncorrelated": ({"orders": [6, 8, 10]}, {"orders": [6, 8, 10], "threshold": 7}),
    "hybrid": ({"orders": [6, 8, 10], "hybrid": True}, {"orders": [6, 8], "threshold": 7, "whole": 10}),
    "hybrid of one order": ({"orders": [10], "hybrid": True}, {"orders": [10], "threshold": 1}),
}


@pytest.mark.parametrize("linked", [False, True], ids=["no links", "links"])
@pytest.mark.parametrize("workers", ["alike", "unequal"])
@pytest.mark.parametrize("name", DESIGNS)
def test_uncorrelated_and_hybrid_designs_agree_with_sorting_of_plain_draws(name, workers, linked):
    design, by_hand = DESIGNS[name]
    plan = multi_message(workers=40, load=10, clusters=4, **design)
    rng = np.random.default_rng(1)
    shifts, rates = np.full(40, 0.01), np.full(40, 10.0)
    if workers == "unequal":
        shifts, rates = rng.uniform(0.0, 0.05, 40), rng.uniform(2.0, 20.0, 40)
    links = rng.uniform(0.0, 0.4, 40) if linked else np.zeros(40)
    laws = [
        RoundPace(base=ShiftedExponential(shift=float(s), rate=float(r))) for s, r in zip(shifts, rates, strict=True)
    ]
    paces = shifts + rng.exponential(1.0, (40_000, 40)) / rates
    times = of_clusters(paces, links, clusters=4, **by_hand)
    check(exact_law(plan, laws, links), times)


@pytest.mark.parametrize("base", [Gamma(shape=2.0, scale=0.5), Exponential(rate=1.0)])
def test_paces_of_any_closed_law_will_do(base):
    plan = multi_message(workers=6, load=5, orders=[3, 5])
    paces = base.sample((40_000, 6), np.random.default_rng(2))
    times = of_clusters(paces, np.zeros(6), clusters=1, orders=[3, 5], threshold=5)
    check(exact_law(plan, [RoundPace(base=base)] * 6, np.zeros(6)), times)


def test_independent_tasks_of_cost_one_agree_with_sums_of_plain_draws():
    """Two slots of two lanes each; a row that is enough alone at the end of lane 1."""
    plan = Plan(
        [Slot(rows=4, threshold=4, alone=(3,)), Slot(rows=3, threshold=2)],
        [
            [Task(slot=0, row=0), Task(slot=0, row=1)],
            [Task(slot=0, row=2), Task(slot=0, row=3)],
            [Task(slot=1, row=0)],
            [Task(slot=1, row=2), Task(slot=1, row=1)],
        ],
    )
    laws = [Gamma(shape=2.0, scale=0.3), Exponential(rate=1.0), Exponential(rate=0.5), Gamma(shape=0.5, scale=2.0)]
    links = np.array([0.0, 0.3, 0.1, 0.0])
    rng = np.random.default_rng(3)
    sent = [
        link + np.cumsum(law.sample((40_000, len(lane)), rng), axis=1)
        for link, law, lane in zip(links, laws, plan.lanes, strict=True)
    ]
    second = np.sort(np.column_stack([sent[2], sent[3]]), axis=1)[:, 1]
    times = np.maximum(sent[1][:, 1], second)
    check(exact_law(plan, laws, links), times)


def test_one_slot_of_unit_tasks_has_the_law_of_an_iteration():
    """By convolution of what is missing, another code path; unequal rates, links, an empty lane."""
    counts, critical = [3, 2, 0, 4], 5
    laws = [Exponential(rate=rate) for rate in (1.0, 2.5, 1.0, 0.7)]
    links = np.array([0.2, 0.0, 9.0, 0.5])
    ours = exact_law(any_k(counts, critical), laws, links)
    theirs = iteration_law(laws, links, np.array(counts), critical)
    assert ours.mean == pytest.approx(theirs.mean, rel=1e-8)
    assert ours.second == pytest.approx(theirs.second, rel=1e-8)


def test_single_exponential_tasks_have_the_mean_of_inclusion_and_exclusion():
    """Slots of one task each end with the last of exponentials of rates 1, 2 and 4."""
    plan = Plan([Slot(rows=1, threshold=1)] * 3, [[Task(slot=s, row=0)] for s in range(3)])
    law = exact_law(plan, [Exponential(rate=rate) for rate in (1.0, 2.0, 4.0)], np.zeros(3))
    assert law.mean == pytest.approx(1 + 1 / 2 + 1 / 4 - 1 / 3 - 1 / 5 - 1 / 6 + 1 / 7, rel=1e-9)


def test_slots_of_equal_workers_and_unequal_costs_are_told_apart():
    """The later of X and 3 Y, exponentials of means 1 and 3: 1 + 3 - 1 / (1 + 1 / 3)."""
    plan = Plan([Slot(rows=1, threshold=1)] * 2, [[Task(slot=0, row=0)], [Task(slot=1, row=0, cost=3.0)]])
    law = exact_law(plan, [RoundPace(base=Exponential(rate=1.0))] * 2, np.zeros(2))
    assert law.mean == pytest.approx(3.25, rel=1e-9)


def test_copies_of_a_row_that_is_enough_alone_may_be_in_many_lanes():
    """The quickest of three exponentials, 1 / (1 + 2 + 4)."""
    plan = Plan([Slot(rows=3, threshold=3, alone=(1,))], [[Task(slot=0, row=1)]] * 3)
    law = exact_law(plan, [Exponential(rate=rate) for rate in (1.0, 2.0, 4.0)], np.zeros(3))
    assert law.mean == pytest.approx(1 / 7, rel=1e-9)


def test_tasks_of_whole_parts_take_sums_of_their_times():
    """Gradient coding (6, 3): the fourth of six Erlang times of three parts, by quadrature."""
    law = exact_law(gradient_coding(workers=6, load=3), [Exponential(rate=1.0)] * 6, np.zeros(6))
    expected = quad(lambda t: binom.cdf(3, 6, erlang.cdf(t, 3)), 0, 80, epsabs=1e-11)[0]
    assert law.mean == pytest.approx(expected, rel=1e-8)


def test_lanes_of_long_tasks_count_what_they_have_sent():
    """Two workers, tasks of 2 and 3 parts, any two of the four rows; by the chance of no row, or one, until t."""
    lanes = [[Task(slot=0, row=2 * p, cost=2.0), Task(slot=0, row=2 * p + 1, cost=3.0)] for p in range(2)]
    law = exact_law(Plan([Slot(rows=4, threshold=2)], lanes), [Exponential(rate=1.0)] * 2, np.zeros(2))

    def late(t):
        one, two = erlang.cdf(t, 2), erlang.cdf(t, 5)
        return (1 - one) ** 2 + 2 * (1 - one) * (one - two)

    assert law.mean == pytest.approx(quad(late, 0, 80, epsabs=1e-12)[0], rel=1e-8)


def test_without_a_purge_the_last_message_of_every_lane_is_awaited():
    plan = gradient_coding(workers=4, load=2)
    law = exact_law(plan, [Exponential(rate=1.0)] * 4, np.zeros(4), purge=False)
    assert law.mean == pytest.approx(quad(lambda t: 1 - erlang.cdf(t, 2) ** 4, 0, 80, epsabs=1e-11)[0], rel=1e-8)


def test_constant_paces_give_a_constant_round():
    for time in (0.1, 1 / 3, 0.7):
        law = RoundPace(base=Deterministic(time=time))
        seen = predict_rounds(multi_message(workers=6, load=3, clusters=2, orders=[1, 3]), law)
        # of each cluster's 6 rows, 3 of them at X and 3 at 3 X, any 3 are enough
        assert (seen.method, seen.mean) == ("exact", pytest.approx(time, rel=1e-9))
        assert seen.std < 1e-6


def test_paces_that_take_two_values_give_a_binomial_round():
    """Gradient coding (6, 3), a pace of 1 or, with probability 1/4, of 4: slow where more than two are slow."""
    law = RoundPace(base=Straggler(base=Deterministic(time=1.0), probability=0.25, slowdown=4.0))
    slow = 1 - sum(comb(6, k) * 0.25**k * 0.75 ** (6 - k) for k in range(3))
    seen = predict_rounds(gradient_coding(workers=6, load=3), law)
    assert seen.method == "exact"
    assert seen.mean == pytest.approx(3 + 9 * slow, rel=1e-9)
    assert seen.std == pytest.approx(9 * (slow * (1 - slow)) ** 0.5, rel=1e-6)


UNKNOWN = {
    "correlated designs": (multi_message(workers=6, load=3, order=2), LAW, "in several lanes"),
    "lanes of several slots": (uncoded_multi_message(workers=6, load=3), LAW, "serves several slots"),
    "a record": (gradient_coding(workers=6, load=1), Trace(times=[1.0, 2.0, 5.0, 3.0, 9.0]), "no closed sums"),
    "no closed sums": (gradient_coding(workers=6, load=1), Pareto(shape=3.0, scale=1.0), "no closed sums"),
    "paces without a closed law": (
        gradient_coding(workers=6, load=3),
        RoundPace(base=Pareto(shape=3.0, scale=1.0)),
        "no closed sums",
    ),
    "memory": (
        gradient_coding(workers=6, load=1),
        GilbertElliott(base=Exponential(rate=1.0), enter=0.1, leave=0.5, slowdown=3.0),
        "memory",
    ),
    "more memory": (
        gradient_coding(workers=6, load=1),
        Fritchman(base=Exponential(rate=1.0), enter=0.1, leave=0.5, states=2, slowdown=3.0),
        "memory",
    ),
    "shares of parts": (
        Plan([Slot(rows=6, threshold=4)], [[Task(slot=0, row=row, cost=2.5)] for row in range(6)]),
        Exponential(rate=1.0),
        "does not cost a whole number of parts",
    ),
    "an ending": (
        Plan([Slot(rows=6, threshold=4)], [[Task(slot=0, row=row)] for row in range(6)], ending=Due()),
        Exponential(rate=1.0),
        "ends by a rule of its own",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_there_is_no_exact_law_it_is_refused_and_sampled_instead(name, monkeypatch):
    plan, law, said = UNKNOWN[name]
    assert not exact.can(plan, [law] * 6)
    with pytest.raises(NoClosedForm, match=said):
        exact_law(plan, [law] * 6, np.zeros(6))
    monkeypatch.setattr("echelon.prediction.SAMPLED_ROUNDS", 2000)
    seen = predict_rounds(plan, law)
    assert isinstance(seen, PredictedRounds)
    assert (seen.method, seen.law) == ("sampled", None)
    assert seen.error > 0
    assert seen.std > 0


def test_a_sampled_prediction_covers_what_plain_draws_say():
    """Uncoded (6, 3): chunk j comes first from the workers j, j - 1 and j - 2, at 1, 2 and 3 paces."""
    paces = SHIFT + np.random.default_rng(4).exponential(1 / RATE, (100_000, 6))
    chunks = [np.min([(i + 1) * paces[:, (j - i) % 6] for i in range(3)], axis=0) for j in range(6)]
    times = np.max(chunks, axis=0)
    seen = predict_rounds(uncoded_multi_message(workers=6, load=3), LAW)
    assert seen.method == "sampled"
    spread = times.std() / len(times) ** 0.5
    assert abs(seen.mean - times.mean()) < Z * 2**0.5 * spread
    assert seen.error == pytest.approx(2.5758293 * spread, rel=0.03)
    assert seen.std == pytest.approx(times.std(), rel=0.03)


def test_links_shift_a_prediction_and_must_fit_the_lanes():
    plan = gradient_coding(workers=6, load=3)
    assert predict_rounds(plan, LAW, links=[0.5] * 6).mean == pytest.approx(
        predict_rounds(plan, LAW).mean + 0.5, rel=1e-9
    )
    with pytest.raises(ArgumentError, match=r"^links: shape \(2,\)"):
        predict_rounds(plan, LAW, links=[0.0, 0.0])
    with pytest.raises(ArgumentError, match=r"^laws: 5 given"):
        predict_rounds(plan, [LAW] * 5)


def test_a_profile_is_predicted_by_jobs_and_laws_by_rounds():
    job = Workload(critical=1, redundancy=2.0, iterations=1, arrivals=Arrivals.poisson(1.0))
    profile = Profile(job, [Worker("a", mean=1, std=1), Worker("b", mean=1, std=1)])
    plan = any_k([1, 1], critical=1)
    jobs, rounds = predict_jobs(plan, profile), predict_rounds(plan, Exponential(rate=1.0))
    assert isinstance(jobs, PredictedJobs)
    assert isinstance(rounds, PredictedRounds)
    assert jobs.iteration_mean == pytest.approx(0.5, rel=1e-9)
    assert rounds.mean == pytest.approx(0.5, rel=1e-9)
