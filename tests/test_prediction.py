import numpy as np
import pytest

import echelon as ec
from echelon.can import Can
from echelon.delays import Exponential, RoundPace
from echelon.plan import Plan, Slot, Task
from echelon.prediction import _rounds
from echelon.profile import Costs
from echelon.simulation import RoundSampler


@pytest.mark.parametrize(
    ("rule", "purge", "delay"), [("theorem2", True, 49.534), ("uniform", True, 148.40), ("theorem2", False, 76.825)]
)
def test_the_numbers_of_example_2(example2, rule, purge, delay):
    plan = ec.schemes.any_k(ec.split_rows(example2, rule).counts, 50)
    seen = ec.predict_jobs(plan, example2, purge=purge)
    assert seen.delay == pytest.approx(delay, abs=5e-3 if delay > 100 else 5e-4)
    assert seen.stable
    assert (seen.method, seen.formula) == ("exact", "Pollaczek-Khinchine")
    assert seen.delay_error < 1e-6


def test_the_uniform_split_is_stable_only_with_purging(example2):
    """Ruling 9: Remark 3's test rejects the run that the paper reports."""
    plan = ec.schemes.any_k([11] * 5, 50)
    assert ec.predict_jobs(plan, example2).stable
    awaited = ec.predict_jobs(plan, example2, purge=False)
    assert not awaited.stable
    assert awaited.delay == np.inf
    assert awaited.service_mean > 100


def test_kingman_is_used_and_named_for_general_arrivals(example2):
    profile = example2.with_workload(arrivals=ec.Arrivals(mean=100.0, second=10_500.0))
    plan = ec.schemes.any_k(ec.split_rows(profile).counts, 50)
    seen = ec.predict_jobs(plan, profile)
    assert (seen.method, seen.delay_method, seen.formula) == ("exact", "approximate", "Kingman")
    assert np.isnan(seen.delay_error)
    assert seen.delay < 49.53


def test_recorded_arrivals_are_simulated_since_no_formula_knows_their_order():
    """Fifty quick arrivals, then fifty slow ones: far from what Kingman's formula would say."""
    job = ec.Workload(critical=10, redundancy=1.3, iterations=3, arrivals=ec.Arrivals.recorded([0.1] * 50 + [7.9] * 50))
    profile = ec.Profile(job, [ec.Worker("a", mean=0.1, std=0.1, link=0.05), ec.Worker("b", mean=0.2, std=0.1)])
    plan = ec.schemes.any_k([9, 4], 10)
    seen = ec.predict_jobs(plan, profile)
    assert (seen.method, seen.delay_method) == ("exact", "sampled")
    run = ec.simulate_jobs(plan, profile, jobs=1000, seeds=50, warmup=200, seed=4)
    assert abs(run.delay.mean - seen.delay) < seen.delay_error + (run.delay.high - run.delay.mean)
    assert seen.delay > 20


@pytest.mark.parametrize("purge", [True, False])
def test_sampling_covers_the_exact_answer(example2, purge, monkeypatch):
    """The sampled method on laws that also have an exact one; its 99 % intervals must hold it (fixed seed)."""
    plan = ec.schemes.any_k(ec.split_rows(example2).counts, 50)
    exact = ec.predict_jobs(plan, example2, purge=purge)
    monkeypatch.setattr("echelon.prediction.can_exactly", lambda plan, laws, rules: Can("it is told not to"))
    seen = ec.predict_jobs(plan, example2, purge=purge)
    assert seen.method == "sampled"
    assert abs(seen.iteration_mean - exact.iteration_mean) < seen.iteration_error
    assert abs(seen.delay - exact.delay) < seen.delay_error
    assert 0 < seen.delay_error < 0.05 * exact.delay


def test_heavy_tails_are_sampled_and_agree_with_the_simulation(example2):
    laws = [ec.delays.fit("pareto", mean, mean) for mean in example2.speeds.mean]
    plan = ec.schemes.any_k(ec.split_rows(example2).counts, 50)
    seen = ec.predict_jobs(plan, example2, laws=laws)
    assert seen.method == "sampled"
    run = ec.simulate_jobs(plan, example2, laws=laws, seeds=20, jobs=500, warmup=100, seed=5)
    assert abs(run.delay.mean - seen.delay) < seen.delay_error + (run.delay.high - run.delay.mean)


def test_bursts_are_simulated_as_streams(example2):
    plan = ec.schemes.any_k(ec.split_rows(example2).counts, 50)
    laws = [ec.delays.fit("gilbert_elliott", mean, mean) for mean in example2.speeds.mean]
    seen = ec.predict_jobs(plan, example2, laws=laws)
    assert (seen.method, seen.formula) == ("sampled", "simulated streams")
    run = ec.simulate_jobs(plan, example2, laws=laws, seeds=20, jobs=500, warmup=100, seed=5)
    assert abs(run.delay.mean - seen.delay) < seen.delay_error + (run.delay.high - run.delay.mean)


def test_plans_with_several_slots_are_exact_for_jobs_as_for_rounds(example2):
    """Two slots, each on its own worker: the round is the later of two shifted exponentials."""
    lanes = [[Task(slot=0, row=0)], [Task(slot=1, row=0)], [], [], []]
    plan = Plan([Slot(rows=1, threshold=1), Slot(rows=1, threshold=1)], lanes)
    seen = ec.predict_jobs(plan, example2)
    a, b = example2.speeds.mean[:2]
    ca, cb = example2.speeds.link[:2]
    # E max(ca + A, cb + B) with the two exponentials, for cb > ca: by splitting at cb - ca
    gap = cb - ca
    exact = cb + b + a * np.exp(-gap / a) - np.exp(-gap / a) / (1 / a + 1 / b)
    assert seen.method == "exact"
    assert seen.iteration_mean == pytest.approx(exact, rel=1e-8)


def test_one_plan_is_exact_for_jobs_where_it_is_for_rounds():
    """Gradient coding in two clusters, of workers that keep one pace in a round."""
    plan, law = ec.schemes.gradient_coding(workers=6, load=2, clusters=2), RoundPace(base=Exponential(rate=1.0))
    workload = ec.Workload(critical=6, redundancy=1.0, iterations=4, arrivals=ec.Arrivals.poisson(0.01))
    profile = ec.Profile(workload, [ec.Worker(f"w{i}", mean=1.0, std=1.0) for i in range(6)])
    rounds, jobs = ec.predict_rounds(plan, law), ec.predict_jobs(plan, profile, laws=law)
    assert rounds.method == jobs.method == jobs.delay_method == "exact"
    assert jobs.iteration_mean == pytest.approx(rounds.mean, rel=1e-9)


def test_a_prediction_has_quantiles_where_the_law_is_known(example2):
    """Any two of three exponential workers: P(T <= t) = 3 F^2 - 2 F^3."""
    seen = ec.predict_rounds(ec.schemes.any_k([1, 1, 1], 2), ec.delays.Exponential(rate=1.0))
    for share in (0.1, 0.5, 0.99):
        reached = 1 - np.exp(-seen.quantile(share))
        assert 3 * reached**2 - 2 * reached**3 == pytest.approx(share, rel=1e-9)
    sampled = ec.predict_rounds(ec.schemes.pull(workers=2, parts=3), ec.delays.Exponential(rate=1.0))
    with pytest.raises(ec.errors.NoClosedForm, match="quantile"):
        sampled.quantile(0.5)


def test_messages_and_rounds_cost_what_the_profile_says_in_predictions_and_simulations(example2):
    """Two constant workers with two rows each, 0.1 s for each message and 0.5 s for each round, as in virtual time."""
    workload = ec.Workload(critical=4, redundancy=1.0, iterations=3, arrivals=ec.Arrivals.poisson(1e-3))
    workers = [ec.Worker("a", mean=1.0, std=0.0, link=0.2), ec.Worker("b", mean=1.0, std=0.0)]
    profile = ec.Profile(workload, workers, costs=Costs(message=0.1, round=0.5))
    plan = ec.schemes.any_k([2, 2], 4)
    seen, run = ec.predict_jobs(plan, profile), ec.simulate_jobs(plan, profile, jobs=3, seeds=2)
    assert seen.iteration_mean == pytest.approx(0.5 + 0.2 + 2 * 1.1)
    assert run.iteration_mean == pytest.approx(0.5 + 0.2 + 2 * 1.1)
    with pytest.raises(ec.errors.NoClosedForm, match="cost time, too"):
        ec.prediction.plan_law(plan, profile)


def test_an_unused_worker_may_have_any_law(example2):
    laws = [*ec.delays.task_laws(example2)[:4], ec.delays.Trace(times=[1.0])]
    assert ec.predict_jobs(ec.schemes.any_k([20, 20, 10, 5, 0], 50), example2, laws=laws).method == "exact"


def test_a_plan_for_other_workers_is_refused(example2):
    with pytest.raises(ValueError, match="plan: 1 lanes are not allowed; must be 5"):
        ec.predict_jobs(ec.schemes.any_k([55], 50), example2)


def test_an_exact_law_is_asked_only_of_plans_that_have_one(example2):
    slot = Slot(rows=2, threshold=2)
    lanes = [[Task(slot=0, row=0), Task(slot=0, row=1)], [Task(slot=0, row=0)], [], [], []]
    with pytest.raises(ec.errors.NoClosedForm, match="row 0 of slot 0 is in several lanes"):
        ec.prediction.plan_law(Plan([slot], lanes), example2)
    with pytest.raises(ec.errors.NoClosedForm):
        ec.prediction.plan_law(ec.schemes.any_k([11] * 5, 50), example2, laws=ec.delays.fit("pareto", 1.0, 1.0))


def test_an_unstable_stream_that_is_sampled_has_no_delay_and_no_warning():
    times = {"times": np.random.default_rng(1).exponential(1e-3, 200).tolist()}
    workers = [ec.Worker(name, mean=1e-3, std=1e-3, link=0.01, law="trace", parameters=times) for name in "a"]
    job = ec.Workload(critical=50, redundancy=1.1, iterations=10, arrivals=ec.Arrivals.poisson(2000.0))
    crowded = ec.Profile(job, workers)
    found = ec.predict_jobs(ec.schemes.any_k(ec.split_rows(crowded).counts, 50), crowded)
    assert found.method == "sampled"
    assert not found.stable
    assert not np.isfinite(found.delay)


def test_large_rounds_are_sampled_less_often():
    for rows, wanted in ((50, 100_000), (5_000, 10_000), (200_000, 250)):
        plan = ec.schemes.any_k([rows // 2, rows // 2], rows)
        assert _rounds(RoundSampler(plan, [ec.delays.Pareto.fit(1.0, 0.5)] * 2, np.zeros(2))) == wanted


def test_streams_that_would_take_too_long_are_not_simulated_and_that_is_said():
    arrivals = ec.Arrivals.recorded([9e9, 8e9])
    job = ec.Workload(critical=3_000, redundancy=1.0, iterations=100_000, arrivals=arrivals)
    profile = ec.Profile(job, [ec.Worker("a", mean=1.0, std=1.0), ec.Worker("b", mean=1.0, std=1.0)])
    found = ec.predict_jobs(ec.schemes.any_k([1_500, 1_500], 3_000), profile)
    assert (found.stable, found.delay_method) == (True, "approximate")
    assert found.formula.endswith("; too large to be simulated")
    assert np.isnan(found.delay_error)
