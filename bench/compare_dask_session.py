"""The Dask that the comparison runs on, and what its workers know about the emulated cluster."""

import contextlib
import logging
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from distributed import LocalCluster, WorkerPlugin

from bench.compare_cases import Case
from bench.compare_emulation import Place


class Emulation(WorkerPlugin):
    """What a worker knows about the emulated cluster, and when its orders came."""

    name = "emulation"

    def __init__(self, case: Case) -> None:
        self._case = case
        self.came: dict[Any, float] = {}

    def setup(self, worker: Any) -> None:
        self.place: Place = self._case.place(worker.name)

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        if start == "released":
            self.came[key] = time.monotonic()
        elif finish == "released":
            self.came.pop(key, None)


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[LocalCluster]:
    """Start workers of one thread each that only this machine can reach."""
    with (
        tempfile.TemporaryDirectory(prefix="dask-", ignore_cleanup_errors=True) as folder,
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            local_directory=folder,
        ) as started,
    ):
        yield started
