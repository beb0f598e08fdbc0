"""Chunks of the next step, read by processes of their own while this step is computed."""

import ctypes
import logging
import os
import signal
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from typing import Any

import torch
from torch import multiprocessing

from echelon.torch.numerics import Numerics, computing_by, numerics
from echelon.torch.sources import At, Batch, Source, gathered

log = logging.getLogger("echelon.torch")

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, in <sys/prctl.h>
_source: Source | None = None  # of a loader process


class Prefetched(Source):
    """Another source whose chunks are read ahead by `loaders` processes of each worker.

    A worker is taken to compute the same chunks in the next step, by the same settings of torch. A chunk is always read
    by the same loader, which goes on where it was in data that has an order only. Where a loader dies, the worker reads
    by itself, and starts others.
    """

    def __init__(self, source: Source, loaders: int) -> None:
        self._source, self._count = source, loaders
        self.batches = source.batches
        self._loaders: dict[int, ProcessPoolExecutor] = {}
        self._ahead: dict[tuple[At, int, Numerics], Future[Batch | None]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_loaders": {}, "_ahead": {}}

    def __del__(self) -> None:
        for loader in self._loaders.values():
            loader.shutdown(wait=False, cancel_futures=True)

    def whole(self, at: At) -> int | None:
        """Return how many samples a step has."""
        return self._source.whole(at)

    def read(self, at: At, chunks: Sequence[int]) -> Batch | None:
        """Return some chunks, and have those of the next step read."""
        for past in [key for key in self._ahead if key[0].step < at.step]:
            self._ahead.pop(past).cancel()
        following, by = at._replace(step=at.step + 1), numerics()
        # no name here is left for what failed: its traceback would lead back to it, and hold the loaders
        asked: list[Future[Batch | None]] = []
        found: list[Batch | None] = []
        try:
            asked += [self._asked(at, chunk, by) for chunk in chunks]
            for chunk in chunks:
                if (following, chunk, by) not in self._ahead:
                    self._ahead[following, chunk, by] = self._ask(following, chunk, by)
            while asked:
                found.append(asked.pop(0).result())
        except BrokenExecutor as error:
            log.warning("a process that reads data has died, and its worker reads by itself for now: %s", str(error))
            self._loaders, self._ahead = {}, {}
            asked.clear()  # they all failed with this error
            return self._source.read(at, chunks)
        return gathered([None if one is None or not any(one.sizes) else one.samples for one in found])

    def _asked(self, at: At, chunk: int, by: Numerics) -> Future[Batch | None]:
        ahead = at, chunk, by
        return self._ahead.pop(ahead) if ahead in self._ahead else self._ask(at, chunk, by)

    def _ask(self, at: At, chunk: int, by: Numerics) -> Future[Batch | None]:
        number = chunk % self._count
        if number not in self._loaders:
            context = multiprocessing.get_context("fork")
            self._loaders[number] = ProcessPoolExecutor(1, context, _begin, (self._source, os.getpid()))
        return self._loaders[number].submit(_read, at, chunk, by)


def _begin(source: Source, worker: int) -> None:
    """Make this process a loader, which ends with its worker."""
    global _source
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the master alone
    with suppress(AttributeError):  # another system
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != worker:
        os._exit(0)
    torch.set_num_threads(1)  # threads of the worker are not in this process
    _source = source


def _read(at: At, chunk: int, by: Numerics) -> Batch | None:
    assert _source is not None
    with computing_by(by):
        return _source.read(at, [chunk])
