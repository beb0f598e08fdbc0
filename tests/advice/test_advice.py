"""Advice against independent computations, at the corners, and on silly workers."""

import numpy as np
import pytest

from echelon import ArgumentError, Costs, advise, predict, simulate
from echelon.advice import STRATEGIES
from echelon.advice.rehearsal import HISTORIES, Rehearsal
from echelon.delays import Deterministic, Exponential, GilbertElliott, RoundPace, Straggler
from echelon.profile import Arrivals, Job, Profile, Worker
from echelon.schemes import CodedPlan, any_k, pull


def cluster(means, std=0.0, link=0.0, critical=12, **costs):
    job = Job(critical=critical, redundancy=1.0, iterations=5, arrivals=Arrivals.poisson(1e-4))
    workers = [Worker(f"w{p}", mean=mean, std=std * mean, link=link) for p, mean in enumerate(means)]
    return Profile(job, workers, costs=Costs(**costs))


def named(advice):
    return {outcome.name: outcome for outcome in advice.ranked}


@pytest.mark.parametrize("work", ["gradient", "linear"])
def test_iterations_are_those_that_the_exact_law_predicts(work):
    profile = cluster([0.05, 0.1, 0.2], std=1.0, link=0.02)
    exact = predict(any_k([4, 4, 4], critical=12), profile).iteration_mean
    within = 0
    for seed in range(5):
        low, high = named(advise(profile, work=work, seed=seed))["uncoded, uniform"].interval
        within += low < exact < high
    assert within >= 4  # of five intervals that hold in 99 of 100 cases, two miss once in a thousand


def test_all_strategies_see_the_same_draws():
    laws = [Exponential(rate=1.0), Exponential(rate=0.5)]
    rehearsal = Rehearsal(laws, np.zeros(2), costs=Costs(), nbytes=0, rounds=400, seed=3)
    twice, once = rehearsal.times([any_k([2, 2], 4), any_k([2, 2], 4)])
    np.testing.assert_array_equal(twice, once)
    faster, all_rows = rehearsal.times([any_k([2, 2], 3), any_k([2, 2], 4)])
    assert faster.shape == (HISTORIES, 10)
    assert (faster <= all_rows).all()
    pulled, shared = rehearsal.times([pull(workers=2, parts=4, shares=[2, 2]), any_k([2, 2], 4)])
    np.testing.assert_allclose(pulled, shared)  # nothing is left to be pulled


def test_messages_bytes_and_rounds_cost_what_the_profile_says():
    """Four parts a worker of 1 s each, a message of 0.1 s and 1 MB at 10 MB/s after each, 0.5 s a round."""
    profile = cluster([1.0, 1.0, 1.0], message=0.1, bandwidth=1e7, round=0.5)
    advice = named(advise(profile, bytes_per_message=1e6))
    assert advice["uncoded, uniform"].iteration == pytest.approx(4 * 1.2 + 0.5)
    assert advice["gradient code, 2 parts a row"].iteration == pytest.approx(5 + 4 * 0.2 + 0.5, abs=0.21)


def test_steady_unequal_workers_need_no_code_but_shares_by_speed():
    best = advise(cluster([1.0, 2.0, 3.0, 6.0])).best
    assert best.strategy.family == "uncoded"
    assert best.iteration == pytest.approx(6.0)  # twelve parts at two a second


def test_stragglers_make_coding_pay_for_products_with_a_vector():
    advice = advise(cluster([0.05, 0.1, 0.2, 0.1], std=1.0, critical=40), work="linear")
    assert advice.coding_pays
    assert "coding pays" in advice.why


def test_bursts_are_followed_from_round_to_round():
    law = GilbertElliott(base=Exponential(rate=1.0), enter=0.05, leave=0.3, slowdown=10.0)
    profile = cluster([1.0] * 4, std=1.0)
    found = named(advise(profile, laws=law))["uncoded, uniform"]
    seen = simulate(any_k([3, 3, 3, 3], 12), law, rounds=40_000)
    assert abs(found.iteration - seen.mean) < found.error + 2.6 * seen.error


@pytest.mark.parametrize("work", STRATEGIES)
def test_the_best_strategy_s_plan_is_one_that_a_job_can_run(work):
    for outcome in advise(cluster([0.1, 0.1, 0.3], std=1.0), work=work).ranked:
        plan = outcome.plan()
        assert isinstance(plan, CodedPlan)
        assert len(plan.lanes) == 3


def test_one_worker_has_no_choice():
    advice = advise(cluster([1.0]))
    assert len(advice.ranked) == 1
    assert "one worker" in advice.why


def test_a_worker_a_million_times_slower_gets_nothing_and_costs_nothing():
    for work in STRATEGIES:
        best = advise(cluster([1.0, 1.0, 1e6], std=0.1), work=work).best
        assert best.iteration < 8.0


def test_more_workers_than_parts_are_fine():
    assert advise(cluster([1.0] * 6, critical=2)).best.iteration == pytest.approx(1.0)


def test_links_that_take_longer_than_the_work_speak_against_pulling():
    assert advise(cluster([0.01] * 4, std=0.5, link=1.0)).best.strategy.family != "pull"


def test_chains_of_products_are_advised_on():
    law = RoundPace(base=Straggler(base=Deterministic(time=0.01), probability=0.3, slowdown=5.0))
    advice = advise(cluster([0.01] * 3, std=1.0, critical=6), work="product", laws=law, delay_rounds=1)
    assert {outcome.strategy.family for outcome in advice.ranked} == {"uncoded", "coded"}
    assert advice.best.plan().workers == 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"work": "x"}, "work"), ({"bytes_per_message": -1}, "bytes_per_message"), ({"seed": -1}, "seed")],
)
def test_silly_questions_are_refused(asked, said):
    with pytest.raises(ArgumentError, match=said):
        advise(cluster([1.0, 1.0]), **asked)
    with pytest.raises(ArgumentError, match="profile"):
        advise(3)


def test_plans_without_their_codes_take_the_times_of_those_with_them():
    profile = cluster([0.05, 0.1, 0.2, 0.1], std=1.0, link=0.02, critical=12)
    for work, strategies in STRATEGIES.items():
        for strategy in strategies(profile):
            if strategy.lighter is not None:
                light, whole = (
                    simulate(plan, Exponential(rate=1.0), rounds=300) for plan in (strategy.lighter(), strategy.plan())
                )
                np.testing.assert_allclose(light.times, whole.times, err_msg=f"{work}: {strategy.name}")
