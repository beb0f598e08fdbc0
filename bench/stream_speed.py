"""Speed of the two simulation paths against SimPy, for K = 1000, Omega = 1.06, P = 5, I = 10, J = 1000."""

import tracemalloc

import numpy as np
from scipy import stats

import echelon as ec
from bench import simpy_stream
from bench.results import markdown_table
from bench.timing import best_of
from echelon.papers.stream_workers import strong_five
from echelon.prediction import plan_law
from echelon.seeds import generators
from echelon.simulation import simulate_law
from echelon.simulation.simulated_jobs import CHUNK

JOBS = 1000


def report() -> str:
    profile = strong_five().with_workload(redundancy=1.06)
    counts = ec.split_rows(profile).counts
    plan = ec.schemes.any_k(counts, profile.workload.critical)
    draws = JOBS * profile.workload.iterations * plan.tasks

    reference = simpy_stream.run(profile, counts.tolist(), JOBS, seed=1)

    def bare() -> None:
        rng = generators(1)[1]
        for _ in range(0, draws, CHUNK):
            rng.standard_exponential(CHUNK)

    law = plan_law(plan, profile)
    simpy_s = best_of({"SimPy": lambda: simpy_stream.run(profile, counts.tolist(), JOBS, seed=1)}, repeats=3)["SimPy"]
    took = best_of(
        {
            "tasks": lambda: ec.simulate_jobs(plan, profile, jobs=JOBS, seeds=1),
            "bare": bare,
            "law": lambda: simulate_law(law, profile, jobs=JOBS, seeds=1),
            "law, built anew": lambda: simulate_law(plan_law(plan, profile), profile, jobs=JOBS, seeds=1),
        },
        repeats=15,
    )
    labels = {
        "tasks": ("every task sampled, full records", "≥ 150 × SimPy, ≤ 2.5 × random numbers"),
        "law": ("iterations from their exact law", "≥ 5000 × SimPy"),
        "law, built anew": ("… with the law built anew", ""),
        "bare": ("bare cost of the random numbers", ""),
    }
    rows = [["SimPy", f"{simpy_s * 1e3:,.0f} ms", "1", "–", ""]]
    for name, (label, target) in labels.items():
        ratios = [f"{simpy_s / took[name]:,.0f}", f"{took[name] / took['bare']:.2f}"]
        rows.append([label, f"{took[name] * 1e3:,.2f} ms", *ratios, target])
    return "\n\n".join(
        [
            f"Stream of {JOBS} jobs, K = 1000, Ω = 1.06, P = 5, I = 10: {draws:,} tasks. Shortest of 15 runs each, "
            "of 3 for SimPy, all in one process on one core.",
            markdown_table(["path", "time", "× SimPy", "× random numbers", "wanted"], rows),
            _agreement(profile, plan, law, reference),
            _memory(profile, plan),
        ]
    )


def _half(value: ec.simulation.Interval) -> str:
    return f"± {value.high - value.mean:.4f}"


def _agreement(profile: ec.Profile, plan: ec.Plan, law: ec.theory.TabulatedCdf, reference: simpy_stream.Seen) -> str:
    """Say whether all three give the same mean service time, and whether the two paths have one law."""
    services = np.array(reference.services)
    half = stats.norm.ppf(0.995) * services.std(ddof=1) / len(services) ** 0.5
    exact = law.mean * profile.workload.iterations
    sampler = ec.simulation.RoundSampler(plan, ec.delays.task_laws(profile), profile.speeds.link)
    rng = np.random.default_rng(1)
    tasks = sampler.draw(sampler.begin(1, rng), 1, 20_000, rng)[0].times[0]
    test = stats.ks_2samp(tasks, law.sample(20_000, rng))
    sampled = ec.simulate_jobs(plan, profile, jobs=JOBS, seeds=10)
    drawn = simulate_law(law, profile, jobs=JOBS, seeds=10, seed=2)
    means = [
        ["SimPy (one stream)", f"{services.mean():.4f}", f"± {half:.4f}"],
        [
            "every task sampled (ten streams)",
            f"{sampled.service.mean:.4f}",
            _half(sampled.service),
        ],
        ["iterations from their exact law (ten streams)", f"{drawn.service.mean:.4f}", _half(drawn.service)],
        ["exact law", f"{exact:.4f}", "exact"],
    ]
    if (
        abs(services.mean() - exact) > half
        or exact not in sampled.service
        or exact not in drawn.service
        or test.pvalue < 0.01
    ):
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
        ec.simulate_jobs(plan, profile, jobs=jobs, seeds=1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        tasks = jobs * profile.workload.iterations * plan.tasks
        rows.append([f"{jobs}", f"{tasks:,}", f"{tasks * 8 / 2**20:,.1f} MiB", f"{peak / 2**20:.1f} MiB"])
    return markdown_table(["jobs", "tasks", "all task times at once would take", "peak memory"], rows)
