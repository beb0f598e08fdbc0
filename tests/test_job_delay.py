"""The delay of jobs whose iterations depend on one another."""

import numpy as np

import echelon as ec
from echelon import job_delay
from echelon.delays import Exponential, GilbertElliott
from echelon.prediction import predict_jobs


def bursty(rate):
    """Return a profile of four workers in bursts, its law, and a plan; a job comes `rate` times a second."""
    law = GilbertElliott(base=Exponential(rate=8.0), enter=0.01, leave=0.04, slowdown=4.0)
    workload = ec.Workload(critical=12, redundancy=1.0, iterations=10, arrivals=ec.Arrivals.poisson(rate))
    workers = [ec.Worker(f"w{i}", mean=law.mean, std=law.std) for i in range(4)]
    return ec.Profile(workload, workers), law, ec.schemes.any_k([3] * 4, critical=12)


def test_where_jobs_hardly_wait_no_stream_is_simulated_and_the_delay_is_that_of_streams(monkeypatch):
    profile, law, plan = bursty(1e-5)
    with monkeypatch.context() as patched:
        patched.setattr(job_delay, "_streams", None)
        found = predict_jobs(plan, profile, laws=law)
    seen = ec.simulate_jobs(plan, profile, laws=law, jobs=300, seeds=40).delay
    # two independent samples: their difference is within both 99 % intervals added up
    assert abs(found.delay - seen.mean) <= found.delay_error + (seen.high - seen.mean)


def test_where_jobs_wait_bursts_lengthen_the_delay_beyond_the_formula():
    profile, law, plan = bursty(0.04)
    found = predict_jobs(plan, profile, laws=law)
    assert found.delay_method == "sampled"
    moments = job_delay.Moments(found.iteration_mean, found.iteration_second, 0.0, np.zeros(2))
    assert found.delay > job_delay.by_formula(profile, moments).mean + found.delay_error
    seen = ec.simulate_jobs(plan, profile, laws=law, jobs=600, seeds=40, seed=2, warmup=300).delay
    assert abs(found.delay - seen.mean) <= found.delay_error + (seen.high - seen.mean)  # both at 99 %
