"""Ray by hand: a lane for each actor, whose results are streamed, and a pool for those that are done first."""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayActorError

from bench.compare_cases import VICTIM, Case, Run
from bench.compare_emulation import Place
from bench.compare_hand import Hand
from bench.compare_jobs import Job
from bench.compare_ray_session import started

CALLS = 16  # that an actor accepts at once: it does one after another, and learns of a new round from the others


class LaneWorker:
    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        self._turn, self._latest = threading.Lock(), 0

    def pid(self) -> int:
        return os.getpid()

    def lane(
        self, iteration: int, sent: float, request: np.ndarray, messages: Sequence[Sequence[int]]
    ) -> Iterator[dict[int, np.ndarray]]:
        self._latest = max(self._latest, iteration)
        with self._turn:
            for message in messages:
                if iteration < self._latest:
                    return
                yield {number: self._place.do(self._job, iteration, sent, request, number) for number in message}


class Lanes:
    def __init__(self, case: Case) -> None:
        self._case, self._hand, self._job = case, Hand(case), ray.put(case.work)
        self._remote = ray.remote(LaneWorker).options(num_cpus=1, max_concurrency=CALLS)
        self._actors: dict[int, Any] = {}
        self._starting: dict[Any, tuple[int, Any]] = {}
        self._streams: dict[Any, tuple[int, Any]] = {}
        self.pids: dict[int, int] = {}
        for place in range(case.workers):
            self._start(place)
        while self._starting:
            self._started(ray.wait(list(self._starting))[0][0])

    def _start(self, place: int) -> None:
        actor = self._remote.remote(self._job, self._case.place(place))
        self._starting[actor.pid.remote()] = place, actor

    def _started(self, reference: Any) -> None:
        place, self._actors[place] = self._starting.pop(reference)
        self.pids[place] = ray.get(reference)

    def iterate(self, iteration: int, request: np.ndarray) -> np.ndarray:
        """Return what all parts give together."""
        self._streams = {}
        for reference in ray.wait(list(self._starting), timeout=0)[0] if self._starting else []:
            self._started(reference)
        lanes = self._hand.begin(self._actors)
        for place, lane in lanes.items():
            self._send(place, iteration, request, lane or self._hand.more(place))
        while not self._hand.done:
            (stream,), _ = ray.wait(list(self._streams), fetch_local=False)
            place, actor = self._streams[stream]
            try:
                self._hand.came(place, ray.get(next(stream)))
                idle = [place]
            except StopIteration:
                del self._streams[stream]
                idle = []
            except RayActorError:
                del self._streams[stream]
                idle = self._lost(place, actor)
            for place in idle:
                self._send(place, iteration, request, self._hand.more(place))
        return self._hand.whole()

    def _send(self, place: int, iteration: int, request: np.ndarray, parts: Sequence[int]) -> None:
        if parts:
            actor, messages = self._actors[place], self._case.messages(parts)
            stream = actor.lane.options(num_returns="streaming").remote(iteration, time.monotonic(), request, messages)
            self._streams[stream] = place, actor

    def _lost(self, place: int, actor: Any) -> list[int]:
        """Start another actor in place of one that died; return which actors may have to take over its parts."""
        if self._actors.get(place) is not actor:
            return []
        del self._actors[place]
        self._start(place)
        self._hand.lost(place)
        return list(self._actors)


def run(case: Case) -> Run:
    job, ends = case.work, []
    with started(case.workers):
        lanes, state = Lanes(case), job.begin()
        for iteration in range(1, job.iterations + 1):
            state = job.step(state, lanes.iterate(iteration, job.request(state)))
            ends.append(time.monotonic())
            if iteration == case.kill_after:
                case.kill(lanes.pids[VICTIM])
    job.check(state)
    return Run(ends)
