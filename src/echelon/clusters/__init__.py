"""Where lanes are executed: virtual time, threads, processes, engines. A new one is one file and one line here."""

import logging
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from echelon.clusters.ahead import AheadRequest, AheadState
from echelon.clusters.base import (
    Added,
    AtOnce,
    Attached,
    Cluster,
    Doing,
    Down,
    Message,
    Remembers,
    Report,
    Room,
    Sum,
    Total,
    Trouble,
    Unread,
    Up,
    Vanished,
    Work,
    Writes,
)
from echelon.clusters.shelf import new_key

if TYPE_CHECKING:
    from echelon.clusters.mpi import MpiCluster
    from echelon.clusters.processes import ProcessCluster
    from echelon.clusters.ray import RayCluster
    from echelon.clusters.threads import ThreadCluster
    from echelon.clusters.virtual import VirtualCluster


log = logging.getLogger("echelon.clusters")


@dataclass(frozen=True)
class Kind:
    """A kind of cluster, ``module.Class``; its module, and an engine, are imported on first use.

    elsewhere: what replaces it on systems other than Linux, where it is not available.
    """

    where: str
    elsewhere: str | None = None

    @property
    def type(self) -> Any:
        """The class."""
        module, _, name = self.where.partition(".")
        return getattr(import_module(f"echelon.clusters.{module}"), name)

    def __call__(self, workers: int | None = None, **options: Any) -> Cluster:
        """Start a cluster."""
        if self.elsewhere is not None and not sys.platform.startswith("linux"):
            log.warning("%s needs Linux; %s is used instead", self.where, self.elsewhere)
            return Kind(self.elsewhere)(workers, **options)
        started: Cluster = self.type(workers, **options)
        return started

    def enter(self) -> None:
        """Where a program runs as several processes, make all but the master work for it from here on."""
        getattr(self.type, "enter", lambda: None)()


CLUSTERS: dict[str, Kind] = {
    "mpi": Kind("mpi.MpiCluster"),
    "processes": Kind("processes.ProcessCluster", elsewhere="threads.ThreadCluster"),
    "ray": Kind("ray.RayCluster"),
    "threads": Kind("threads.ThreadCluster"),
    "virtual": Kind("virtual.VirtualCluster"),
}
_CLASSES = {kind.where.partition(".")[2]: kind for kind in CLUSTERS.values()}


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module 'echelon.clusters' has no attribute {name!r}")
    return _CLASSES[name].type


__all__ = [
    "CLUSTERS", "Added", "AheadRequest", "AheadState", "AtOnce", "Attached", "Cluster", "Doing", "Down", "Kind",
    "Message", "MpiCluster", "ProcessCluster", "RayCluster", "Remembers", "Report", "Room", "Sum", "ThreadCluster",
    "Total", "Trouble", "Unread", "Up", "Vanished", "VirtualCluster", "Work", "Writes", "new_key",
]  # fmt: skip
