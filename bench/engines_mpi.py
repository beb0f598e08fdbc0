"""MPI: our cluster against bare mpi4py exchanges of the same bytes, and Example 2 emulated by ranks.

Everything is measured in one run of mpiexec (``mpiexec -n 6 python -m bench.engines_mpi``), where ours and the bare
ones take turns: the bare workers are tasks of ours that talk to rank 0 directly until it ends them.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np

from bench import mpi_floor
from bench.engines_example2 import emulated_rows
from echelon.clusters import Message, MpiCluster, Up
from echelon.plan import Task

ROOT = Path(__file__).parents[1]
WORKERS, TASKS = 5, 11
LENGTHS = {1: "8 B", 1000: "8 kB", 1_000_000: "8 MB"}  # float64 numbers in a result
ROUNDS = {1: 60, 1000: 60, 1_000_000: 5}  # per turn
TURNS = 6
ITERATIONS = 80  # of Example 2
KEY_OF_BARE = 1 << 40
BY_TCP = "by-tcp"
LARGE, NEXT_S, TIMES = 1_000_000, 0.5, 7  # numbers in a result, how long the next part takes, how often

ALL_AT_ONCE, ONE_BY_ONE, OBJECTS = 1.0, 2.0, 3.0  # how a bare worker sends its results
# tasks per worker, the bare exchange that ours is compared with, and what is compared
COMPARED = (
    (1, "all at once", f"a round of {WORKERS} workers with a message each, against Send and Recv"),
    (TASKS, "one by one", f"a message of {WORKERS} x {TASKS}, against an order and a result at a time"),
    (TASKS, "all at once", f"a message of {WORKERS} x {TASKS}, against all results at once"),
    (1, "objects", f"a round of {WORKERS} workers with a message each, against Python objects"),
    (TASKS, "objects", f"a message of {WORKERS} x {TASKS}, against Python objects"),
)
ORDER = 256  # bytes, about the size of a lane of eleven tasks


def mpi_rows() -> list[list[str]]:
    """Return what, size, ours, bare and ratio: of messages, of rounds and of emulated iterations."""
    # TCP, as between hosts, shows what leaves while a part goes on: within one host a single copy hides it
    return _ran(WORKERS + 1) + _ran(2, BY_TCP, OMPI_MCA_btl="self,tcp")


def _ran(ranks: int, *arguments: str, **environment: str) -> list[list[str]]:
    mpiexec = Path(sys.executable).with_name("mpiexec")
    root_too = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    ended = subprocess.run(
        [str(mpiexec), "--oversubscribe", "-n", str(ranks), sys.executable, "-m", "bench.engines_mpi", *arguments],
        cwd=ROOT, env=os.environ | root_too | {"OMP_NUM_THREADS": "1"} | environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True, check=True,
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


class BareWorker(Ready):
    """A task that takes orders from rank 0 by bare mpi4py, until one says that it is over."""

    def part(self, state: Any, part: int) -> np.ndarray:
        from mpi4py import MPI

        comm, order = MPI.COMM_WORLD, np.zeros(ORDER // 8)
        while True:
            comm.Recv(order, 0, 1)
            length, tasks = int(order[1]), int(order[2])
            if not length:
                return ready(1)
            if order[0] == OBJECTS:
                self._objects(comm)
                continue
            for _ in range(tasks if order[0] == ALL_AT_ONCE else 1):
                comm.Send(ready(length), 0, 2)

    @staticmethod
    def _objects(comm: Any) -> None:
        """Take one order that says what ours does, and answer with what ours says about each result, as objects."""
        number, length, lane, _ = comm.recv(source=0, tag=1)
        for slot, row, _ in lane:
            began = time.monotonic()
            found = ready(length)
            comm.send((number, slot, row, time.monotonic() - began, found), 0, 2)


class BareMaster:
    """The other side: results are received in any order, each into its own memory, allocated before."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.comm, self.any, self.status = MPI.COMM_WORLD, MPI.ANY_SOURCE, MPI.Status()
        self.memory: dict[int, list[np.ndarray]] = {}
        self.order = np.zeros(ORDER // 8)

    def _tell(self, rank: int, *words: float) -> None:
        self.order[: len(words)] = words
        self.comm.Send(self.order, rank, 1)

    def all_at_once(self, length: int, tasks: int) -> None:
        """Give every worker all tasks, then take in all results."""
        for rank in range(1, WORKERS + 1):
            self._tell(rank, ALL_AT_ONCE, length, tasks)
        for memory in self._memory(length)[: WORKERS * tasks]:
            self.comm.Recv(memory, self.any, 2)

    def one_by_one(self, length: int, tasks: int) -> None:
        """Give every worker one task, and another whenever a result comes in."""
        for rank in range(1, WORKERS + 1):
            self._tell(rank, ONE_BY_ONE, length, 1)
        left = WORKERS * (tasks - 1)
        for memory in self._memory(length)[: WORKERS * tasks]:
            self.comm.Recv(memory, self.any, 2, self.status)
            if left:
                left -= 1
                self._tell(self.status.source, ONE_BY_ONE, length, 1)

    def objects(self, length: int, tasks: int) -> None:
        """The same by mpi4py's sends of Python objects: which round, which task, its time, an array."""
        state = np.zeros(4)
        for rank in range(1, WORKERS + 1):
            self._tell(rank, OBJECTS, length, tasks)
            self.comm.send((1, length, [(0, tasks * rank + i, 1.0) for i in range(tasks)], state), rank, 1)
        for _ in range(WORKERS * tasks):
            self.comm.recv(source=self.any, tag=2)

    def _memory(self, length: int) -> list[np.ndarray]:
        if length not in self.memory:
            self.memory[length] = [np.zeros(length) for _ in range(WORKERS * TASKS)]
        return self.memory[length]

    def end(self) -> None:
        for rank in range(1, WORKERS + 1):
            self._tell(rank, 0.0, 0.0, 0.0)


class Ours:
    """The same exchanges by our cluster: broadcast, assign, poll, purge, release."""

    def __init__(self, cluster: MpiCluster) -> None:
        self.cluster, self.numbers = cluster, count(1)
        up = 0
        while up < WORKERS:
            up += sum(isinstance(report, Up) for report in cluster.poll(None))
        for length in LENGTHS:
            cluster.load(length, Ready(length))
        cluster.load(KEY_OF_BARE, BareWorker(1))

    def exchange(self, length: int, tasks: int) -> None:
        number = next(self.numbers)
        self._begin(number, length, tasks)
        held = self._collect(WORKERS * tasks)
        self.cluster.purge(number)
        for message in held:
            self.cluster.release(message)

    def _begin(self, number: int, key: int, tasks: int) -> None:
        self.cluster.broadcast(number, key, np.zeros(4))
        for worker in range(WORKERS):
            lane = [Task(slot=0, row=tasks * worker + i) for i in range(tasks)]
            self.cluster.assign(worker, number, lane)

    def _collect(self, messages: int) -> list[Message]:
        held: list[Message] = []
        while len(held) < messages:
            for report in self.cluster.poll(None):
                assert isinstance(report, Message), report
                held.append(report)
        return held

    @contextmanager
    def bare(self, master: BareMaster) -> Iterator[None]:
        """Make all workers bare ones for a while."""
        self._begin(next(self.numbers), KEY_OF_BARE, 1)
        try:
            yield
        finally:
            master.end()
            self._collect(WORKERS)


def _seconds(action: Callable[[int, int], None], length: int, tasks: int, rounds: int) -> list[float]:
    for _ in range(2):
        action(length, tasks)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action(length, tasks)
        times.append(time.perf_counter() - start)
    return times


def _measured() -> dict[tuple[str, int, int], float]:
    """Return the median seconds of a round, by contender, length of a result and tasks per worker."""
    times: dict[tuple[str, int, int], list[float]] = {}
    with closing(MpiCluster()) as cluster:
        ours, master = Ours(cluster), BareMaster()
        bare = {"all at once": master.all_at_once, "one by one": master.one_by_one, "objects": master.objects}
        for _ in range(TURNS):
            for length, rounds in ROUNDS.items():
                for tasks in (1, TASKS):
                    times.setdefault(("ours", length, tasks), []).extend(_seconds(ours.exchange, length, tasks, rounds))
                    with ours.bare(master):
                        for name, action in bare.items():
                            found = _seconds(action, length, tasks, rounds)
                            times.setdefault((name, length, tasks), []).extend(found)
    return {key: float(np.median(found)) for key, found in times.items()}


def _row(what: str, length: int, tasks: int, ours: float, bare: float) -> list[str]:
    share = 1 if tasks == 1 else WORKERS * tasks
    times = [f"{1e6 * seconds / share:,.1f} µs" for seconds in (ours, bare)]
    return [f"MPI: {what}", LENGTHS[length], *times, f"{ours / bare:.2f}"]


def _exchange_rows(took: dict[tuple[str, int, int], float]) -> list[list[str]]:
    return [
        _row(what, length, tasks, took["ours", length, tasks], took[against, length, tasks])
        for tasks, against, what in COMPARED
        for length in LENGTHS
    ]


def _floor_rows(took: dict[tuple[str, int, int], float]) -> list[list[str]]:
    """Return, for short results, the least time that our Python allows in place of ours."""
    least = {}
    for length, tasks in product((1, 1000), (1, TASKS)):
        floor = mpi_floor.measured(WORKERS, tasks, Ready(length))
        # ours gives out all tasks at once, whichever exchange it is compared with
        least[length, tasks] = floor.least(took["all at once", length, tasks], os.cpu_count() or 1)
    return [
        _row(f"the least with our Python: {what}", length, tasks, least[length, tasks], took[against, length, tasks])
        for tasks, against, what in COMPARED
        for length in (1, 1000)
    ]


class Timed(Ready):
    """The first part is large and says when it was ready; the second goes on for a while.

    bare: whether bare mpi4py sends the first one beforehand.
    """

    def __init__(self, *, bare: bool) -> None:
        super().__init__(LARGE)
        self.bare = bare

    def part(self, state: Any, part: int) -> np.ndarray:
        if part == 0:
            stamped = np.full(LARGE, time.monotonic())
            if self.bare:
                from mpi4py import MPI

                MPI.COMM_WORLD.Send(stamped, 0, 1)
            return stamped
        end, block = time.monotonic() + NEXT_S, np.ones((200, 200))
        while time.monotonic() < end:
            block = np.clip(block @ block, 0, 1)
        return block[0]


def _late_rows() -> list[list[str]]:
    """Return how long after its end a part's result arrives while its worker computes the next part; medians."""
    from mpi4py import MPI

    ours, bare = [], []
    with closing(MpiCluster()) as cluster:
        while not any(isinstance(report, Up) for report in cluster.poll(None)):
            pass
        for key in (1, 2):
            cluster.load(key, Timed(bare=key == 2))
        for number in range(1, 2 * TIMES + 1):
            key = 1 + number % 2
            cluster.broadcast(number, key, None)
            cluster.assign(0, number, [Task(slot=0, row=0), Task(slot=0, row=1)])
            if key == 2:
                memory = np.empty(LARGE)
                MPI.COMM_WORLD.Recv(memory, 1, 1)
                bare.append(time.monotonic() - memory[0])
            held: list[Message] = []
            while len(held) < 2:
                for report in cluster.poll(None):
                    assert isinstance(report, Message), report
                    if key == 1 and report.row == 0:
                        ours.append(time.monotonic() - report.segments[0][0])
                    held.append(report)
            cluster.purge(number)
            for message in held:
                cluster.release(message)
    late, least = float(np.median(ours)), float(np.median(bare))
    what = "MPI by TCP: a result is there after its part, while its worker is at the next, against Send and Recv"
    return [[what, "8 MB", f"{1e3 * late:.1f} ms", f"{1e3 * least:.1f} ms", f"{late / least:.2f}"]]


if __name__ == "__main__":
    if sys.argv[1:] == [BY_TCP]:
        rows = _late_rows()
    else:
        seconds = _measured()
        rows = _exchange_rows(seconds) + _floor_rows(seconds) + emulated_rows("mpi", "MPI", ITERATIONS)
    print(json.dumps(rows), flush=True)
