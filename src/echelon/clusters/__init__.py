"""Where lanes are executed: processes of this machine, or threads. A new one is one file and one line in `CLUSTERS`."""

from collections.abc import Callable

from echelon.clusters.base import Attached, Cluster, Down, Message, Report, Trouble, Up, Work
from echelon.clusters.processes import ProcessCluster
from echelon.clusters.threads import ThreadCluster

CLUSTERS: dict[str, Callable[..., Cluster]] = {
    "processes": ProcessCluster,
    "threads": ThreadCluster,
}

__all__ = [
    "CLUSTERS",
    "Attached",
    "Cluster",
    "Down",
    "Message",
    "ProcessCluster",
    "Report",
    "ThreadCluster",
    "Trouble",
    "Up",
    "Work",
]
