"""A message through `Stream` next to the bare cluster: what planning, deciding and weights add to it.

The exchange of `bench.exchange`, by calls of the cluster alone and through a stream, by a job with the same work, which
adds nothing up; for small messages also as a coded sum, as a user's job does it. All take turns.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from typing import Any

import numpy as np

from bench.exchange import NEEDED, TASKS, WORKERS, ready
from bench.results import markdown_table
from echelon.clusters import CLUSTERS, Cluster, Message, Up
from echelon.codes import Code, cyclic
from echelon.jobs import Collected, IterativeJob, SumJob
from echelon.plan import Task
from echelon.stream import Stream

KINDS = ("processes", "threads", "virtual")
ROUNDS = {1: (40, 25), 1_000_000: (4, 9)}  # of a turn, and turns, by the float64 numbers of a message
SIZES = {1: "8 B", 1_000_000: "8 MB"}
LANES = [[Task(slot=0, row=TASKS * place + i) for i in range(TASKS)] for place in range(WORKERS)]
STATE = np.zeros(4)

Rounds = Callable[[int], None]  # does this many rounds


def report() -> str:
    rows = []
    for kind in KINDS:
        for length, size in SIZES.items():
            bare, through, *summed = _medians(kind, length)
            cells = [f"{bare:,.1f}", f"{through:,.1f}", f"{through - bare:,.1f}", f"{through / bare:.2f}"]
            rows.append([kind, size, *cells, f"{summed[0]:,.1f}" if summed else "–"])
    table = markdown_table(
        ["cluster", "message", "bare cluster", "through `Stream`", "added", "ratio", "a coded sum"], rows
    )
    turns = " and ".join(
        f"{turns} turns of {rounds} rounds at {SIZES[length]}" for length, (rounds, turns) in ROUNDS.items()
    )
    return "\n\n".join(
        [
            f"Microseconds per message: the median of {turns}, over the {NEEDED} messages that a round of "
            f"{WORKERS * TASKS} tasks on {WORKERS} workers needs.",
            table,
            "Bare: broadcast, assign, poll, purge, release, and nothing else. Through `Stream`: the same work and the "
            "same lanes (`split='uniform'`), with plan, master, weights, speeds and delivery; what the messages hold "
            f"is not added up. A coded sum: `SumJob`, whose rows combine {WORKERS * TASKS - NEEDED + 1} chunks each "
            "and whose messages are added up on the master. In virtual time: what a message costs in real time.",
        ]
    )


class ReadyWork:
    """Every row is one part, and every part is ready."""

    def __init__(self, length: int) -> None:
        self.length, self.weight = length, np.ones(1)

    def row(self, slot: int, row: int) -> tuple[tuple[int], np.ndarray]:
        return (row,), self.weight

    def part(self, state: np.ndarray, part: int) -> np.ndarray:
        return ready(self.length)


class ReadyJob(IterativeJob):
    """Rounds that take in messages and don't add them up."""

    parts = WORKERS * TASKS

    def __init__(self, length: int, iterations: int) -> None:
        super().__init__(state=STATE, iterations=iterations, until=None, name=None, tolerance=None)
        self.length = length

    def code(self, redundancy: float, rng: np.random.Generator) -> Code:
        return cyclic(rows=self.parts, load=self.parts - NEEDED + 1, rng=rng)

    def work(self, codes: Sequence[Code]) -> ReadyWork:
        return ReadyWork(self.length)

    def request(self, state: Any) -> Any:
        return state

    def advance(
        self, state: Any, iteration: int, collected: Collected, decide: Callable[[bool], None]
    ) -> tuple[Any, bool | None]:
        return state, self.finished(state, iteration)

    def step(self, state: Any, recovered: Any) -> Any:
        raise AssertionError("nothing is recovered")


def _ready(state: np.ndarray, length: int) -> np.ndarray:
    return ready(length)


def _same(state: np.ndarray, total: np.ndarray) -> np.ndarray:
    return state


def sum_job(length: int, iterations: int) -> SumJob:
    chunks = [length] * (WORKERS * TASKS)
    return SumJob(partial=_ready, update=_same, state=STATE, chunks=chunks, iterations=iterations)


# the three ways


@contextmanager
def _bare(kind: str, length: int) -> Iterator[Rounds]:
    cluster: Cluster
    with closing(CLUSTERS[kind](WORKERS)) as cluster:
        workers: dict[int, int] = {}
        while len(workers) < WORKERS:
            workers |= {report.place: report.worker for report in cluster.poll(None) if isinstance(report, Up)}
        cluster.load(length, ReadyWork(length))
        numbers = count(1)

        def rounds(how_many: int) -> None:
            for _ in range(how_many):
                _exchange(cluster, [workers[place] for place in range(WORKERS)], next(numbers), length)

        yield rounds


def _exchange(cluster: Cluster, workers: Sequence[int], number: int, length: int) -> None:
    """Do one round: hand out all tasks, and end it when it has the messages that it needs."""
    cluster.broadcast(number, length, STATE)
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
    cluster.purge(number)
    for message in held:
        cluster.release(message)


@contextmanager
def _stream(kind: str, job: IterativeJob) -> Iterator[Rounds]:
    with Stream(kind, workers=WORKERS, split="uniform", progress=False) as stream, stream.keep(job) as kept:

        def rounds(how_many: int) -> None:
            assert how_many == job.iterations
            kept.run(STATE)

        yield rounds


def _medians(kind: str, length: int) -> list[float]:
    """Return microseconds per message, bare, through a stream, and as a sum of small ones."""
    rounds, turns = ROUNDS[length]
    contenders = [_bare(kind, length), _stream(kind, ReadyJob(length, rounds))]
    if length == min(ROUNDS):  # with large ones coding and adding take the time
        contenders.append(_stream(kind, sum_job(length, rounds)))
    with ExitStack() as stack:
        ways = [stack.enter_context(contender) for contender in contenders]
        for way in ways:
            way(rounds)  # touches memory and loads the work
        took = [[_seconds(way, rounds) for way in ways] for _ in range(turns)]
    return [float(median) / (rounds * NEEDED) * 1e6 for median in np.median(took, axis=0)]


def _seconds(way: Rounds, rounds: int) -> float:
    start = time.perf_counter()
    way(rounds)
    return time.perf_counter() - start
