"""The cluster that a stream is asked for, started."""

import logging
import os
import sys
from typing import Any

from echelon import checks
from echelon.clusters import CLUSTERS, Cluster
from echelon.errors import ArgumentError
from echelon.profile import Profile

log = logging.getLogger("echelon.stream")


def started(
    cluster: str | Cluster,
    workers: int | None,
    profile: Profile | None,
    emulate: Profile | None,
    seed: int,
    address: str | None = None,
    resources: Any = None,
) -> Cluster:
    """Return a cluster by its name, or the one that is given; where there is no Linux, threads instead of processes."""
    for name, value in (("profile", profile), ("emulate", emulate)):
        if value is not None and not isinstance(value, Profile):
            raise ArgumentError(f"{name}: {value!r} is not allowed; must be a Profile (see read_profile)")
    engine = {name: value for name, value in (("address", address), ("resources", resources)) if value is not None}
    if engine and cluster != "ray":
        raise ArgumentError(f"{', '.join(engine)}: not allowed here; only with cluster='ray'")
    if not isinstance(cluster, str):
        if isinstance(cluster, type) or not hasattr(cluster, "poll"):
            raise ArgumentError(
                f"cluster: {cluster!r} is not allowed; must be a name ({', '.join(CLUSTERS)}) or a cluster"
            )
        if workers is not None or emulate is not None:
            raise ArgumentError("workers, emulate: not allowed beside a cluster that is started already")
        return cluster
    checks.one_of("cluster", cluster, CLUSTERS)
    if cluster == "processes" and not sys.platform.startswith("linux"):
        log.warning("worker processes need Linux; threads of this process are used instead")
        cluster = "threads"
    if workers is None and emulate is None and cluster != "mpi":  # there the ranks are the workers
        if cluster == "ray" and profile is None:
            engine.setdefault("resources", "cpu")
        elif resources is None or isinstance(resources, dict):
            workers = len(profile.workers) if profile is not None else os.cpu_count() or 1
    return CLUSTERS[cluster](workers, emulate=emulate, seed=seed, **engine)
