"""The exchange by our own workers: by the bare cluster, and through a stream that adds up the results."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import count, pairwise

import numpy as np

import echelon as ec
from bench.exchange import LENGTHS, NEEDED, TASKS, WORKERS, Contender, Rounds, ready, timed
from echelon.clusters.base import Message, Up
from echelon.clusters.processes import ProcessCluster
from echelon.codes import uncoded
from echelon.plan import Task

EXACT = 1e-6
LANES = [[Task(slot=0, row=TASKS * place + i) for i in range(TASKS)] for place in range(WORKERS)]


class ReadyWork:
    """Every row is one part, and every part is ready."""

    def __init__(self, length: int) -> None:
        self.length, self.weight = length, np.ones(1)

    def row(self, slot: int, row: int) -> tuple[tuple[int], np.ndarray]:
        return (row,), self.weight

    def part(self, state: np.ndarray, part: int) -> np.ndarray:
        return ready(self.length)


@contextmanager
def _bare() -> Iterator[Rounds]:
    with started(partial(ProcessCluster, WORKERS), LENGTHS) as (cluster, workers):
        numbers = count(1)

        def exchange(length: int) -> int:
            number = next(numbers)
            held = until_needed(cluster, workers, number, length)
            brought = sum(message.segments[0].size for message in held)
            end(cluster, number, held)
            return brought

        yield timed(exchange)


@contextmanager
def started(
    start: Callable[[], ProcessCluster], lengths: Iterable[int]
) -> Iterator[tuple[ProcessCluster, Sequence[int]]]:
    """Yield a cluster that knows the work of each length, with the length as its key, and its workers by place."""
    with closing(start()) as cluster:
        workers: dict[int, int] = {}
        while len(workers) < WORKERS:
            workers |= {report.place: report.worker for report in cluster.poll(None) if isinstance(report, Up)}
        for length in lengths:
            cluster.load(length, ReadyWork(length))
        yield cluster, [workers[place] for place in range(WORKERS)]


def until_needed(cluster: ProcessCluster, workers: Sequence[int], number: int, length: int) -> list[Message]:
    """Begin a round and return its first messages, as many as it needs."""
    cluster.broadcast(number, length, np.zeros(4))
    for worker, lane in zip(workers, LANES, strict=True):
        cluster.assign(worker, number, lane)
    held: list[Message] = []
    while len(held) < NEEDED:
        for message in cluster.poll(None):
            assert isinstance(message, Message), message
            if message.round == number and len(held) < NEEDED:
                held.append(message)
            else:
                cluster.release(message)
    return held


def end(cluster: ProcessCluster, number: int, held: Sequence[Message]) -> None:
    cluster.purge(number)
    for message in held:
        cluster.release(message)


@contextmanager
def _stream(coded: bool) -> Iterator[Rounds]:
    plan = None if coded else ec.schemes.coded_rows(uncoded(parts=NEEDED), [NEEDED // WORKERS] * WORKERS)
    parts = WORKERS * TASKS if coded else NEEDED

    with ec.Stream("processes", workers=WORKERS, redundancy=WORKERS * TASKS / NEEDED, progress=False) as stream:

        def rounds(length: int, count: int) -> list[float]:
            ends: list[float] = []

            def update(state: np.ndarray, total: np.ndarray) -> np.ndarray:
                assert abs(total[-1] - parts) < EXACT, total
                ends.append(time.perf_counter())
                return state

            job = ec.SumJob(
                partial=_part,
                update=update,
                state=np.zeros(4),
                chunks=[length] * parts,
                plan=plan,
                iterations=count + 1,  # the first one brings the data
            )
            stream.submit(job).result()
            return [end - start for start, end in pairwise(ends)]

        yield rounds


def _part(state: np.ndarray, length: int) -> np.ndarray:
    return ready(length)


BARE = Contender(
    name="echelon, bare cluster",
    package="echelon",
    open=_bare,
    rounds={1: 200, 10_000: 100, 1_000_000: 12},
    how="`ProcessCluster`: broadcast, assign, poll, purge, release; nobody reads what came",
)
STREAM = Contender(
    name="echelon, Stream",
    package="echelon",
    open=partial(_stream, False),
    rounds={1: 200, 10_000: 100, 1_000_000: 12},
    how=f"a `SumJob` of {NEEDED} parts, {NEEDED // WORKERS} per worker, all of which are needed: plan, driver, master, "
    "and the results added up; from one step of the job to the next",
)
CODED = Contender(
    name="echelon, Stream, coded",
    package="echelon",
    open=partial(_stream, True),
    rounds={1: 200, 10_000: 60},
    how=f"a `SumJob` of {WORKERS * TASKS} parts with the default code: a row combines 6 parts, any {NEEDED} of "
    f"{WORKERS * TASKS} rows are enough, the first {NEEDED} are decoded, and the split follows the workers' speeds",
)
