"""Starts the cluster that a stream asks for."""

from echelon import checks
from echelon.clusters import CLUSTERS, Cluster
from echelon.errors import ArgumentError
from echelon.profile import Profile


def started(
    cluster: str | Cluster, workers: int | None, profile: Profile | None, emulate: Profile | None, seed: int
) -> Cluster:
    """Return a cluster by its name, or the one that is given."""
    for name, value in (("profile", profile), ("emulate", emulate)):
        if value is not None and not isinstance(value, Profile):
            raise ArgumentError(f"{name}: {value!r} is not allowed; must be a Profile (see read_profile)")
    if not isinstance(cluster, str):
        if isinstance(cluster, type) or not hasattr(cluster, "poll"):
            raise ArgumentError(
                f"cluster: {cluster!r} is not allowed; must be a name ({', '.join(CLUSTERS)}) or a cluster"
            )
        if workers is not None or emulate is not None:
            raise ArgumentError("workers, emulate: not allowed together with a cluster that is started already")
        return cluster
    checks.one_of("cluster", cluster, CLUSTERS)
    workers, emulate = as_profiled(cluster, workers, profile, emulate)
    return CLUSTERS[cluster](workers, emulate=emulate, seed=seed)


def as_profiled(
    cluster: str, workers: int | None, profile: Profile | None, emulate: Profile | None
) -> tuple[int | None, Profile | None]:
    """Return how many workers to start, and what they emulate: by default what a profile says."""
    if emulate is None and profile is not None:
        kind = CLUSTERS[cluster].type
        emulate = profile if kind.virtual else None
        workers = len(profile.workers) if workers is None and not kind.fixed else workers
    return workers, emulate
