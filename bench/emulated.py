"""Emulated clusters, in units of about one task: each measurement scales them to its time."""

from collections.abc import Sequence

from echelon.profile import Arrivals, Profile, Worker, Workload

SLOW = {"probability": 0.1, "slowdown": 5.0}
BURSTS = {"enter": 0.02, "leave": 0.1, "slowdown": 6.0}
RARELY = Arrivals.poisson(1e-6)


def cluster(parts: int, workers: Sequence[Worker]) -> Profile:
    """Return workers for jobs of this many parts, which come rarely."""
    return Profile(Workload(critical=parts, redundancy=1.0, iterations=50, arrivals=RARELY), workers)


def equal(count: int, law: str, spread: float, link: float = 0.05, **parameters: float) -> list[Worker]:
    """Return workers of one law, whose deviation is `spread` times their mean."""
    return [
        Worker(f"w{p}", mean=1.0, std=spread, link=link, law=law, parameters=parameters) for p in range(count)
    ]  # fmt: skip


def unequal(means: Sequence[float], spread: float, link: float = 0.05) -> list[Worker]:
    """Return workers whose deviations are `spread` times their means."""
    return [Worker(f"w{p}", mean=mean, std=spread * mean, link=link) for p, mean in enumerate(means)]
