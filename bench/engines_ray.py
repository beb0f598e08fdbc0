"""Ray: our cluster against bare actors that stream the same bytes, Example 2 emulated by actors, and a run under kills.

Everything is measured in one Ray of our own, in its own process (``python -m bench.engines_ray``); ours and the bare
ones take turns.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import echelon as ec
from bench.engines_example2 import emulated_rows, normalised
from echelon.clusters import Message, Up
from echelon.plan import Task

ROOT = Path(__file__).parents[1]
WORKERS, TASKS = 5, 11
LENGTHS = {1: "8 B", 1000: "8 kB", 1_000_000: "8 MB"}  # float64 numbers in a result
ROUNDS = {1: 30, 1000: 30, 1_000_000: 4}  # per turn
TURNS, WARM_UP = 5, 5
ITERATIONS = 100  # of Example 2
KILL_SECONDS, KILL_PAUSE_S = 60.0, 2.0


def ray_rows() -> list[list[str]]:
    """Return what, size, ours, bare and ratio: of messages, rounds, emulated iterations, and jobs under kills."""
    ended = subprocess.run(
        [sys.executable, "-m", "bench.engines_ray"],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    rows: list[list[str]] = json.loads(ended.stdout.splitlines()[-1])
    return rows


@cache
def ready(length: int) -> np.ndarray:
    """Return a worker's array, the same one each time."""
    return np.ones(length)


class Ready:
    """Every row is one part, and every part is ready."""

    def __init__(self, length: int) -> None:
        self.length, self.weight = length, np.ones(1)

    def row(self, slot: int, row: int) -> tuple[tuple[int], np.ndarray]:
        return (row,), self.weight

    def part(self, state: Any, part: int) -> np.ndarray:
        return ready(self.length)


class Streamer:
    """A bare actor: a generator for every round, an item for every result."""

    def stream(self, length: int, tasks: int) -> Iterator[np.ndarray]:
        for _ in range(tasks):
            yield ready(length)


class Bare:
    """Bare actors, read in the quickest way we found: `ray.wait` over the generators, one `ray.get` for all."""

    def __init__(self) -> None:
        import ray

        self.ray = ray
        self.actors = [ray.remote(Streamer).options(num_cpus=1).remote() for _ in range(WORKERS)]

    def exchange(self, length: int, tasks: int) -> None:
        streams = [actor.stream.options(num_returns="streaming").remote(length, tasks) for actor in self.actors]
        references = []
        while len(references) < WORKERS * tasks:
            (stream,), _ = self.ray.wait(streams, num_returns=1, fetch_local=False)
            reference = next(stream, None)
            if reference is None:
                streams.remove(stream)
            else:
                references.append(reference)
        assert sum(result.size for result in self.ray.get(references)) == WORKERS * tasks * length


class Ours:
    """The same exchange by our cluster: broadcast, assign, poll, purge, release."""

    def __init__(self, cluster: Any) -> None:
        self.cluster, self.numbers = cluster, count(1)
        self.workers: list[int] = []
        while len(self.workers) < WORKERS:
            self.workers += [report.worker for report in cluster.poll(None) if isinstance(report, Up)]
        for length in LENGTHS:
            cluster.load(length, Ready(length))

    def exchange(self, length: int, tasks: int) -> None:
        number = next(self.numbers)
        self.cluster.broadcast(number, length, np.zeros(4))
        for i, worker in enumerate(self.workers):
            self.cluster.assign(worker, number, [Task(slot=0, row=tasks * i + j) for j in range(tasks)])
        held: list[Message] = []
        while len(held) < WORKERS * tasks:
            for report in self.cluster.poll(None):
                assert isinstance(report, Message), report
                held.append(report)
        self.cluster.purge(number)
        assert sum(message.segments[0].size for message in held) == WORKERS * tasks * length
        for message in held:
            self.cluster.release(message)


def _seconds(action: Callable[[int, int], None], length: int, tasks: int) -> list[float]:
    for _ in range(WARM_UP):
        action(length, tasks)
    times = []
    for _ in range(ROUNDS[length]):
        start = time.perf_counter()
        action(length, tasks)
        times.append(time.perf_counter() - start)
    return times


def _exchange_rows() -> list[list[str]]:
    from echelon.clusters.ray import RayCluster
    from echelon.clusters.ray_session import Session

    times: dict[tuple[str, int, int], list[float]] = {}
    session = Session(None, 2 * WORKERS)
    try:
        with closing(RayCluster(WORKERS)) as cluster:
            actions = {"ours": Ours(cluster).exchange, "bare": Bare().exchange}
            for _ in range(TURNS):
                for length in LENGTHS:
                    for tasks in (1, TASKS):
                        for name, action in actions.items():
                            times.setdefault((name, length, tasks), []).extend(_seconds(action, length, tasks))
    finally:
        session.close()
    rows = []
    for tasks, what in (
        (1, f"Ray: a round of {WORKERS} workers with a message each, against actors that stream it"),
        (TASKS, f"Ray: a message of {WORKERS} x {TASKS}, against actors that stream them"),
    ):
        for length, size in LENGTHS.items():
            share = 1 if tasks == 1 else WORKERS * tasks
            ours, bare = (float(np.median(times[name, length, tasks])) / share for name in ("ours", "bare"))
            rows.append([what, size, f"{1e6 * ours:,.1f} µs", f"{1e6 * bare:,.1f} µs", f"{ours / bare:.2f}"])
    return rows


def _killed_rows() -> list[list[str]]:
    """Return how many jobs were delivered, in order and right, while an actor was killed every two seconds."""
    from echelon.clusters.ray import RayCluster

    matrix = np.random.default_rng(1).standard_normal((500, 500)) / 500**0.5
    state = np.ones(500)
    for _ in range(40):
        state = normalised(state, matrix @ state)
    over, kills = threading.Event(), 0
    cluster = RayCluster(3)

    def kill() -> None:
        nonlocal kills
        rng, end = np.random.default_rng(1), time.monotonic() + KILL_SECONDS
        while time.monotonic() < end and not over.wait(KILL_PAUSE_S):
            alive = list(cluster.pids())
            if alive:
                cluster.kill(int(rng.choice(alive)))
                kills += 1

    thread, jobs, right = threading.Thread(target=kill), 0, 0
    with ec.Stream(cluster, redundancy=1.5) as stream:
        thread.start()
        try:
            while thread.is_alive():
                job = ec.LinearJob(matrix=matrix, parts=30, state=np.ones(500), update=normalised, iterations=40)
                done = stream.submit(job).delivery()
                right += done.error is None and done.number == jobs and bool(np.abs(done.result - state).max() < 1e-8)
                jobs += 1
        finally:
            over.set()
            thread.join()
    what = (
        f"Ray: jobs of 40 iterations on 3 actors, one of which is killed every {KILL_PAUSE_S:g} s: right and in order"
    )
    return [[what, f"{kills} kills", f"{right} jobs", f"{jobs} jobs", f"{right / jobs:.0%}"]]


def main() -> None:
    print(json.dumps(_exchange_rows() + emulated_rows("ray", "Ray", ITERATIONS) + _killed_rows()), flush=True)


if __name__ == "__main__":
    from bench import engines_ray

    engines_ray.main()  # by its name, so that workers can import it
