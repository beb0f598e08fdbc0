"""Where lanes are executed: processes of this machine, or threads. A new one is one file and one line in `CLUSTERS`."""

from collections.abc import Callable
from typing import Any

from echelon.clusters.base import AtOnce, Attached, Cluster, Down, Message, Report, Trouble, Up, Work
from echelon.clusters.beside import Beside, Request
from echelon.clusters.mpi import MpiCluster
from echelon.clusters.processes import ProcessCluster
from echelon.clusters.threads import ThreadCluster


def _ray(*arguments: Any, **options: Any) -> Cluster:
    """Start a `RayCluster`; Ray is imported by those alone who ask for it."""
    from echelon.clusters.ray import RayCluster

    return RayCluster(*arguments, **options)


CLUSTERS: dict[str, Callable[..., Cluster]] = {
    "mpi": MpiCluster,
    "processes": ProcessCluster,
    "ray": _ray,
    "threads": ThreadCluster,
}

__all__ = [
    "CLUSTERS",
    "AtOnce",
    "Attached",
    "Beside",
    "Cluster",
    "Down",
    "Message",
    "MpiCluster",
    "ProcessCluster",
    "Report",
    "Request",
    "ThreadCluster",
    "Trouble",
    "Up",
    "Work",
]
