"""Torch as its documentation has it: equal shares, and an exchange by gloo in which all wait for all.

Training is `DistributedDataParallel`; a solve does the same for products: every rank multiplies its rows, and all ranks
sum up what they have. Gloo does not survive a rank that dies: the others end with an error, and as many new ranks as
are left begin with the last state of the first one. That state costs nothing to hand over, and new ranks are forked;
a real program would write checkpoints and start Python again.
"""

import contextlib
import multiprocessing
import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any

import numpy as np
import torch
import torch._dynamo  # else every rank would import it with its first model
from torch import distributed, nn

from bench.compare_cases import VICTIM, Case, Run
from bench.compare_emulation import wait
from bench.compare_jobs import ROWS, SAMPLES, Job, Solve, Training

PATIENCE = timedelta(seconds=60)
_HALF_WAY = "half-way"


class Ranked(ABC):
    """A job on one of several ranks, which has a range of its parts."""

    @abstractmethod
    def step(self, due: float) -> None:
        """Take a step, whose share is computed when it is due."""

    @abstractmethod
    def state(self) -> Any:
        """Return the state of the job."""


class RankedTraining(Ranked):
    def __init__(self, job: Training, share: range, state: Any) -> None:
        held = slice(share.start * SAMPLES, share.stop * SAMPLES)
        self._inputs, self._labels = torch.from_numpy(job.inputs[held]), torch.from_numpy(job.labels[held])
        self._model = nn.Linear(len(state), 1, bias=False, dtype=torch.float64)
        with torch.no_grad():
            self._model.weight.copy_(torch.from_numpy(state)[None])
        self._parallel = nn.parallel.DistributedDataParallel(self._model)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=job.rate)
        self._loss = nn.BCEWithLogitsLoss(reduction="sum")
        self._weight = distributed.get_world_size() / len(job.inputs)  # gradients are averaged over ranks

    def step(self, due: float) -> None:
        self._optimizer.zero_grad()
        loss = self._loss(self._parallel(self._inputs)[:, 0], self._labels) * self._weight
        wait(due)
        loss.backward()  # and with it the exchange
        self._optimizer.step()

    def state(self) -> np.ndarray:
        return self._model.weight.detach().numpy()[0]


class RankedSolve(Ranked):
    def __init__(self, job: Solve, share: range, state: Any) -> None:
        self._job, self._state = job, state
        self._rows = slice(share.start * ROWS, share.stop * ROWS)
        self._matrix = torch.from_numpy(job.matrix[self._rows])

    def step(self, due: float) -> None:
        direction = torch.from_numpy(self._job.request(self._state))
        product = torch.zeros_like(direction)
        product[self._rows] = self._matrix @ direction
        wait(due)
        distributed.all_reduce(product)
        self._state = self._job.step(self._state, product.numpy())

    def state(self) -> tuple[np.ndarray, ...]:
        return self._state


def run(case: Case) -> Run:
    return run_shares(case, [1] * case.workers)


def run_shares(case: Case, shares: Sequence[int]) -> Run:
    """Run a case in which each place gets parts in proportion to its share."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    places, state, ends = list(range(case.workers)), case.work.begin(), []
    while len(ends) < case.work.iterations:
        with _ranks(case, places, shares, len(ends), state) as (ranks, pipe):
            news = pipe.recv()
            if news == _HALF_WAY:
                case.kill(ranks[VICTIM].pid)
                places.remove(VICTIM)
                news = pipe.recv()
        ended, state = news
        ends += ended
    case.work.check(state)
    return Run(ends)


@contextlib.contextmanager
def _ranks(
    case: Case, places: Sequence[int], shares: Sequence[int], done: int, state: Any
) -> Iterator[tuple[list[ForkProcess], Connection]]:
    """Start a rank for each of these places, the first of which reports."""
    context = multiprocessing.get_context("fork")  # torch is loaded, and there is no thread yet
    ours, theirs = context.Pipe(duplex=False)
    ends = np.cumsum([0, *(shares[place] for place in places)])
    bounds = np.rint(ends / ends[-1] * case.work.parts)
    with tempfile.TemporaryDirectory(prefix="gloo-") as folder, ours:
        ranks = [
            context.Process(
                target=_rank,
                args=(case, list(places), rank, range(int(first), int(end)), done, state, folder, theirs),
                daemon=True,
            )
            for rank, (first, end) in enumerate(pairwise(bounds))
        ]
        for rank in ranks:
            rank.start()
        theirs.close()
        try:
            yield ranks, ours
        finally:
            for rank in ranks:
                rank.kill()
                rank.join()


def _rank(
    case: Case,
    places: Sequence[int],
    rank: int,
    share: range,
    done: int,
    state: Any,
    folder: str,
    reports: Connection,
) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=len(places), timeout=PATIENCE
    )
    job, place, ends = case.work, case.place(places[rank]), []
    ranked, lost = _ranked(job, share, state), False
    for iteration in range(done + 1, job.iterations + 1):
        start = time.monotonic()
        due = max([start, *(place.due(iteration, start) for _ in share)])
        try:
            ranked.step(due)
        except RuntimeError:
            if case.kill_after is None:
                raise
            lost = True
            break
        ends.append(time.monotonic())
        if rank == 0 and iteration == case.kill_after:
            reports.send(_HALF_WAY)
    if rank == 0:
        reports.send((ends, ranked.state()))
    if not lost:
        time.sleep(PATIENCE.total_seconds())  # until killed: others may still need its connections
    os._exit(lost)  # closes all connections at once, so that the others notice


def _ranked(job: Job, share: range, state: Any) -> Ranked:
    if isinstance(job, Solve):
        return RankedSolve(job, share, state)
    assert isinstance(job, Training)
    return RankedTraining(job, share, state)
