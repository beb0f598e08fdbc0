"""The exact law, the simulation of every task and the queueing formula agree on random profiles.

36 profiles, with and without purging, five checks each: 360 in all, each at 1 - 0.01/360, so that the whole of them
has a confidence of 99 %. The seeds are fixed, so the outcome is too.
"""

import numpy as np
import pytest
from scipy import stats

import echelon as ec
from tests.strategies import random_profile

ALPHA = 0.01 / 360
Z = stats.norm.ppf(1 - ALPHA / 2)


@pytest.mark.parametrize("purge", [True, False])
@pytest.mark.parametrize("seed", range(36))
def test_theory_and_simulation_agree(seed, purge):
    profile = random_profile(seed, spread="exponential" if seed % 2 else "gamma")
    split = ec.split_rows(profile)
    plan = ec.schemes.any_k(split.counts, profile.workload.critical)
    if not purge:
        # keep the queue half full, so that a moderate warm-up reaches its long run
        service = ec.predict_jobs(plan, profile, purge=False).service_mean
        profile = profile.with_workload(arrivals=ec.Arrivals.poisson(0.5 / service))
    exact = ec.predict_jobs(plan, profile, purge=purge)
    assert exact.method == "exact"

    sampler = ec.simulation.RoundSampler(plan, ec.delays.task_laws(profile), profile.speeds.link, purge=purge)
    rng = np.random.default_rng([seed, 1])
    times = sampler.draw(sampler.begin(1, rng), 1, 20_000, rng)[0].times[0]
    assert abs(times.mean() - exact.iteration_mean) <= Z * times.std() / np.sqrt(len(times))
    squares = times**2
    assert abs(squares.mean() - exact.iteration_second) <= Z * squares.std() / np.sqrt(len(times))

    seen = ec.simulate_jobs(plan, profile, jobs=400, seeds=40, seed=seed, purge=purge, warmup=60)
    means = seen.delays.mean(axis=1)
    half = stats.t.ppf(1 - ALPHA / 2, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
    assert abs(means.mean() - exact.delay) <= half

    law = ec.prediction.plan_law(plan, profile, purge=purge)
    assert stats.kstest(times, lambda t: ec.theory.iteration_cdf(
        ec.delays.task_laws(profile), profile.speeds.link, split.counts,
        profile.workload.critical if purge else plan.tasks, t,
    )).pvalue > ALPHA  # fmt: skip
    assert stats.ks_2samp(times, law.sample(20_000, rng)).pvalue > ALPHA
