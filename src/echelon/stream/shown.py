"""A stream at a prompt and in a notebook, as it is at that moment."""

from collections.abc import Collection, Sequence

from echelon.html import table
from echelon.profile import Speeds
from echelon.stream.handle import Handle


def line(cluster: str, there: int, places: int, jobs: int, *, closed: bool) -> str:
    """Return a stream in one line.

    >>> line("ThreadCluster", 3, 4, 2, closed=False)
    'stream on ThreadCluster: workers 3 of 4, jobs outstanding 2'
    """
    return f"stream on {cluster}: workers {there} of {places}, jobs outstanding {jobs}{', closed' if closed else ''}"


def tables(
    title: str, names: Sequence[str], there: Collection[int], speeds: Speeds | None, handles: Sequence[Handle]
) -> str:
    """Return tables of a stream's places, of which `there` have a worker, and of the jobs that have not ended."""
    means = [None] * len(names) if speeds is None else (1e3 * speeds.mean).tolist()
    rows = [
        [name, "yes" if place in there else "no", mean]
        for place, (name, mean) in enumerate(zip(names, means, strict=True))
    ]
    workers = table(title, ["worker", "there", "ms per part"], rows)
    if not handles:
        return workers
    jobs = [[job.name, job.number, job.iteration, job.progress.iterations] for job in handles]
    return workers + table("Jobs that have not ended", ["name", "number", "iteration", "of"], jobs)
