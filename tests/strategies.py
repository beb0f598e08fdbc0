"""Random workers and profiles for tests; seeded by whoever asks."""

import numpy as np

import echelon as ec


def random_profile(seed: int, *, spread: str = "exponential", workers: int | None = None) -> ec.Profile:
    """Return a profile of 1 to 6 workers whose queue is about half full under Theorem 2."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 7)) if workers is None else workers
    critical = int(rng.integers(1, 40))
    means = rng.uniform(0.02, 0.4, count)
    ratio = {"exponential": np.ones(count), "gamma": rng.uniform(0.2, 1.5, count)}[spread]
    links = np.where(rng.random(count) < 0.2, 0.0, rng.uniform(0, 0.3, count))
    job = ec.Workload(
        critical=critical,
        redundancy=float(rng.uniform(1, 1.6)),
        iterations=int(rng.integers(1, 12)),
        arrivals=ec.Arrivals.poisson(1.0),
        gamma=float(rng.choice([0.0, 0.3, 1.0])),
    )
    listed = [
        ec.Worker(f"w{p}", mean=float(m), std=float(m * r), link=float(c))
        for p, (m, r, c) in enumerate(zip(means, ratio, links, strict=True))
    ]
    profile = ec.Profile(job, listed)
    plan = ec.schemes.any_k(ec.split_rows(profile).counts, critical)
    service = ec.predict_jobs(plan, profile).service_mean
    return profile.with_workload(arrivals=ec.Arrivals.poisson(0.5 / service))
