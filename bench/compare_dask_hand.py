"""Dask by hand: an actor on each worker, whose calls go straight to it, and a pool for those that are done first."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from distributed import Client

from bench.compare_cases import VICTIM, Case, Run
from bench.compare_dask_session import cluster
from bench.compare_emulation import Place
from bench.compare_hand import Hand
from bench.compare_jobs import Job

Call = asyncio.Task[Any]
LOOK_S = 0.02  # how often to look which workers are still there


class DaskWorker:
    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place, self._latest = job, place, 0

    def pid(self) -> int:
        return os.getpid()

    async def begin(self, iteration: int) -> None:
        """Learn of a new round, while the actor's thread may still compute a part of another one."""
        self._latest = iteration

    def message(self, iteration: int, sent: float, request: np.ndarray, parts: Sequence[int]) -> dict[int, np.ndarray]:
        if iteration < self._latest:
            return {}
        return {number: self._place.do(self._job, iteration, sent, request, number) for number in parts}


class Actors:
    """Actors by place. Where one dies with its worker, the others take over: an actor is not started again."""

    def __init__(self, case: Case, actors: dict[int, Any], alive: Callable[[int], bool]) -> None:
        self._case, self._hand, self._actors, self._alive = case, Hand(case), actors, alive
        self._calls: dict[Call, int] = {}
        self._late: set[Call] = set()

    async def iterate(self, iteration: int, request: np.ndarray) -> np.ndarray:
        """Return what all parts give together."""
        late = {place for call, place in self._calls.items() if not call.done()}
        self._late = {call for call in {*self._late, *self._calls} if not call.done()}
        self._calls = {}
        told = [_call(self._actors[place], "begin", iteration) for place in late if place in self._actors]
        for place, lane in self._hand.begin(self._actors).items():
            self._send(place, iteration, request, lane or self._hand.more(place))
        while not self._hand.done:
            came, _ = await asyncio.wait(self._calls, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            # a call to a worker that died may raise, and may never end
            gone = {place for place in self._actors if not self._alive(place)}
            idle: list[int] = []
            for call in came:
                place = self._calls.pop(call)
                try:
                    if place in self._actors:
                        self._hand.came(place, call.result())
                        idle.append(place)
                except (OSError, ValueError):
                    gone.add(place)
            for place in gone:
                del self._actors[place]
                self._hand.lost(place)
            for place in self._actors if gone else idle:
                self._send(place, iteration, request, self._hand.more(place))
        await asyncio.gather(*told, return_exceptions=True)
        return self._hand.whole()

    def _send(self, place: int, iteration: int, request: np.ndarray, parts: list[int]) -> None:
        for message in self._case.messages(parts):
            call = _call(self._actors[place], "message", iteration, time.monotonic(), request, message)
            self._calls[call] = place


def _call(actor: Any, method: str, *arguments: Any) -> Call:
    async def wait() -> Any:
        return await getattr(actor, method)(*arguments)

    return asyncio.create_task(wait())


def run(case: Case) -> Run:
    with cluster(case.workers) as workers:
        addresses = {place: worker.worker_address for place, worker in workers.workers.items()}
        return asyncio.run(_run(case, workers.scheduler_address, addresses))


async def _run(case: Case, scheduler: str, addresses: dict[int, str]) -> Run:
    job, ends = case.work, []
    async with Client(scheduler, asynchronous=True, direct_to_workers=True) as client:
        futures = {
            place: client.submit(DaskWorker, job, case.place(place), workers=[address], actor=True, pure=False)
            for place, address in addresses.items()
        }
        actors = {place: await future for place, future in futures.items()}
        pid = await actors[VICTIM].pid()
        lanes, state = Actors(case, actors, lambda place: futures[place].status == "finished"), job.begin()
        for iteration in range(1, job.iterations + 1):
            state = job.step(state, await lanes.iterate(iteration, job.request(state)))
            ends.append(time.monotonic())
            if iteration == case.kill_after:
                case.kill(pid)
    job.check(state)
    return Run(ends)
