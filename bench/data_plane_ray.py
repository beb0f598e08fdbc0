"""Ray: rounds whose rows stay in the object store, beside a bare exchange in which the driver gets and adds them all.

Both run in one Ray of our own, in its own process (``python -m bench.data_plane_ray``), and take turns.
"""

import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from bench.results import markdown_table
from echelon.clusters import Added, Message, Sum, Up
from echelon.plan import Task

ROOT = Path(__file__).parents[1]
LENGTHS = {1_000_000: "8 MB", 12_500_000: "100 MB"}  # float64 numbers of a row, and of the state
WORKERS, WARM_UP, ROUNDS = (2, 4), 4, 12


def report() -> str:
    """Return a table of rounds: ours, bare, their ratio, and the bytes that passed through the driver."""
    ended = subprocess.run(
        [sys.executable, "-m", "bench.data_plane_ray"],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    rows: list[list[str]] = json.loads(ended.stdout.splitlines()[-1])
    columns = ["workers", "row", "ours", "bare", "ratio", "through the driver, ours", "bare"]
    return (
        "A round: the state goes out, every worker computes a row of the same size, and their sum is in the driver's "
        "memory. Bare: `ray.put` of the state, one call per actor, `ray.get` of all rows, and a sum by NumPy. Medians; "
        "both take turns on one machine, where no network is between the driver and the rows.\n\n"
        + markdown_table(columns, rows)
    )


class Rows:
    """Row r is the state times r; rows are only added up."""

    added = True

    def row(self, slot: int, row: int) -> tuple[tuple[int], np.ndarray]:
        return (row,), np.ones(1)

    def part(self, state: np.ndarray, part: int) -> np.ndarray:
        return state * float(part)


class Ours:
    """Rounds of our cluster."""

    def __init__(self, cluster: Any) -> None:
        self.cluster, self.numbers = cluster, count(1)
        self.workers: list[int] = []
        while len(self.workers) < cluster.workers:
            self.workers += [report.worker for report in cluster.poll(None) if isinstance(report, Up)]
        cluster.load(1, Rows())

    def total(self, state: np.ndarray) -> np.ndarray:
        number, cluster = next(self.numbers), self.cluster
        cluster.broadcast(number, 1, state)
        for row, worker in enumerate(self.workers):
            cluster.assign(worker, number, [Task(slot=0, row=row)])
        rows: list[Message] = []
        while len(rows) < len(self.workers):
            rows += [report for report in cluster.poll(None) if isinstance(report, Message)]
        cluster.purge(number)
        cluster.add(number, [Sum(np.ones(len(rows)), rows)])
        while not (added := [report for report in cluster.poll(None) if isinstance(report, Added)]):
            pass
        for message in rows:
            cluster.release(message)
        total: np.ndarray = added[0].totals[0].segments[0]
        return total


class Computer:
    """A bare actor."""

    def compute(self, state: np.ndarray, row: int) -> np.ndarray:
        return state * float(row)


class Bare:
    """Rounds of bare actors; the driver adds in memory that it keeps."""

    def __init__(self, workers: int) -> None:
        import ray

        self.ray = ray
        self.actors = [ray.remote(Computer).options(num_cpus=1).remote() for _ in range(workers)]
        self.room = np.empty(0)

    def total(self, state: np.ndarray) -> np.ndarray:
        reference = self.ray.put(state)
        rows = self.ray.get([actor.compute.remote(reference, i) for i, actor in enumerate(self.actors)])
        if len(self.room) != len(state):
            self.room = np.empty(len(state))
        np.add(rows[0], rows[1], out=self.room)
        for row in rows[2:]:
            self.room += row
        return self.room


class Counter:
    """Counts the bytes that this process puts into Ray's store and gets from it."""

    def __init__(self) -> None:
        import ray

        self.nbytes = 0
        put, get = ray.put, ray.get

        def counted_put(value: Any, **more: Any) -> Any:
            self._add(value)
            return put(value, **more)

        def counted_get(references: Any, **more: Any) -> Any:
            found = get(references, **more)
            self._add(found)
            return found

        ray.put, ray.get = counted_put, counted_get

    def _add(self, value: Any) -> None:
        beside: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(value, protocol=5, buffer_callback=beside.append)
        self.nbytes += len(pickled) + sum(buffer.raw().nbytes for buffer in beside)


def _measured(
    totals: dict[str, Callable[[np.ndarray], np.ndarray]], length: int, workers: int, counter: Counter
) -> Any:
    """Return seconds and bytes of a round, by name."""
    state = np.linspace(1.0, 2.0, length)
    seconds: dict[str, list[float]] = {name: [] for name in totals}
    nbytes: dict[str, list[int]] = {name: [] for name in totals}
    for turn in range(WARM_UP + ROUNDS):
        for name, total in totals.items():
            before, start = counter.nbytes, time.perf_counter()
            found = total(state)
            if turn >= WARM_UP:
                seconds[name].append(time.perf_counter() - start)
                nbytes[name].append(counter.nbytes - before)
            np.testing.assert_allclose(found, state * (workers * (workers - 1) / 2), rtol=1e-14)
            del found
    return {name: (float(np.median(seconds[name])), max(nbytes[name])) for name in totals}


def main() -> None:
    from echelon.clusters.ray import RayCluster
    from echelon.clusters.ray_session import Session

    rows: dict[int, list[list[str]]] = {length: [] for length in LENGTHS}
    session, counter = Session(None, 2 * max(WORKERS)), Counter()
    try:
        for workers in WORKERS:
            bare = Bare(workers)
            with closing(RayCluster(workers)) as cluster:
                totals = {"ours": Ours(cluster).total, "bare": bare.total}
                for length, size in LENGTHS.items():
                    found = _measured(totals, length, workers, counter)
                    (ours, ours_nbytes), (plain, plain_nbytes) = found["ours"], found["bare"]
                    rows[length].append([
                        str(workers), size, f"{1e3 * ours:,.0f} ms", f"{1e3 * plain:,.0f} ms", f"{ours / plain:.2f}",
                        f"{ours_nbytes / 1e6:,.1f} MB", f"{plain_nbytes / 1e6:,.1f} MB",
                    ])  # fmt: skip
            for actor in bare.actors:
                bare.ray.kill(actor)
    finally:
        session.close()
    print(json.dumps([row for listed in rows.values() for row in listed]), flush=True)


if __name__ == "__main__":
    from bench import data_plane_ray

    data_plane_ray.main()  # by its name, so that workers can import it
