"""Speed of the two simulation paths against SimPy, for K = 1000, Omega = 1.06, P = 5, I = 10, J = 1000."""

import time
import tracemalloc

import numpy as np
from scipy import stats

import echelon as ec
from bench import simpy_stream
from bench.results import markdown_table
from bench.timing import best_of
from echelon.papers.stream_workers import strong_five
from echelon.simulation.stream import _CHUNK, generators

JOBS = 1000


def report() -> str:
    profile = strong_five().with_job(redundancy=1.06)
    counts = ec.split_rows(profile).counts
    plan = ec.schemes.any_k(counts, profile.job.critical)
    draws = JOBS * profile.job.iterations * plan.tasks

    start = time.perf_counter()
    reference = simpy_stream.run(profile, counts.tolist(), JOBS, seed=1)
    simpy_s = time.perf_counter() - start

    def bare() -> None:
        rng = generators(1)[1]
        for _ in range(0, draws, _CHUNK):
            rng.standard_exponential(_CHUNK)

    law = ec.plan_law(plan, profile)
    took = best_of(
        {
            "tasks": lambda: ec.simulate(plan, profile, jobs=JOBS, seeds=1),
            "bare": bare,
            "law": lambda: ec.simulate_law(law, profile, jobs=JOBS, seeds=1),
            "law, built anew": lambda: ec.simulate_law(ec.plan_law(plan, profile), profile, jobs=JOBS, seeds=1),
        },
        repeats=15,
    )
    rows = [["SimPy", f"{simpy_s * 1e3:,.0f} ms", "1", "–"]]
    labels = {
        "tasks": "every task sampled, full records",
        "law": "iterations from their exact law",
        "law, built anew": "… with the law built anew",
        "bare": "bare cost of the random numbers",
    }
    for name, label in labels.items():
        rows.append(
            [label, f"{took[name] * 1e3:,.2f} ms", f"{simpy_s / took[name]:,.0f}", f"{took[name] / took['bare']:.2f}"]
        )
    return "\n\n".join(
        [
            f"Stream of {JOBS} jobs, K = 1000, Ω = 1.06, P = 5, I = 10: {draws:,} tasks. Shortest of 15 runs each, "
            "SimPy once, all in one process on one core.",
            markdown_table(["path", "time", "× SimPy", "× random numbers"], rows),
            _agreement(profile, plan, law, reference),
            _memory(profile, plan),
        ]
    )


def _agreement(profile: ec.Profile, plan: ec.Plan, law: ec.theory.TabulatedCdf, reference: simpy_stream.Seen) -> str:
    """Say whether all three give the same mean service time, and whether the two paths have one law."""
    services = np.array(reference.services)
    half = stats.norm.ppf(0.995) * services.std(ddof=1) / len(services) ** 0.5
    exact = law.mean * profile.job.iterations
    sampler = ec.simulation.RoundSampler(plan, ec.delays.task_laws(profile), profile.speeds.link)
    rng = np.random.default_rng(1)
    tasks = sampler.draw(sampler.begin(1, rng), 1, 20_000, rng)[0].times[0]
    test = stats.ks_2samp(tasks, law.sample(20_000, rng))
    sampled = ec.simulate(plan, profile, jobs=JOBS, seeds=10)
    means = [
        ["SimPy (one stream)", f"{services.mean():.4f}", f"± {half:.4f}"],
        [
            "every task sampled (ten streams)",
            f"{sampled.service.mean:.4f}",
            f"± {sampled.service.high - sampled.service.mean:.4f}",
        ],
        ["exact law", f"{exact:.4f}", "exact"],
    ]
    if abs(services.mean() - exact) > half or exact not in sampled.service or test.pvalue < 0.01:
        raise SystemExit("the paths disagree: " + str(means))
    return "\n\n".join(
        [
            markdown_table(["mean service time of a job", "seconds", "99 %"], means),
            "Kolmogorov-Smirnov test of 20 000 iterations from either path: "
            f"distance {test.statistic:.4f}, p = {test.pvalue:.2f}.",
        ]
    )


def _memory(profile: ec.Profile, plan: ec.Plan) -> str:
    rows = []
    for jobs in (10, 100, 1000):
        tracemalloc.start()
        ec.simulate(plan, profile, jobs=jobs, seeds=1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        tasks = jobs * profile.job.iterations * plan.tasks
        rows.append([f"{jobs}", f"{tasks:,}", f"{tasks * 8 / 2**20:,.1f} MiB", f"{peak / 2**20:.1f} MiB"])
    return markdown_table(["jobs", "tasks", "all task times at once would take", "peak memory"], rows)
