"""Speed of messages: rounds that compute nothing, by our workers, by Ray, Dask and loky, beside the bare operations.

Everybody does the same exchange: 55 tasks, 11 a worker, each of which returns an array that the worker has ready, until
50 results are in the master's hands. The packages of the others are optional. Each contender is measured in a process
of its own, for some leave threads and settings behind that slow down whoever comes after them.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import count
from multiprocessing import get_context
from typing import NoReturn

import numpy as np

from bench.exchange import NEEDED, TASKS, WARM_UP, WORKERS, Contender, Exchange, ready
from bench.results import markdown_table
from bench.rivals import OTHERS
from echelon.clusters.base import Message, Up
from echelon.clusters.memory import attach, create
from echelon.clusters.processes import ProcessCluster
from echelon.plan import Task
from echelon.profile import Arrivals, Profile, Worker, Workload

LENGTHS = {1: "8 B", 10_000: "80 kB", 1_000_000: "8 MB"}  # float64 numbers in a result
LANES = [[Task(slot=0, row=TASKS * place + i) for i in range(TASKS)] for place in range(WORKERS)]
MEANS_MS, LINK_MS = (5.03, 5.23, 5.47, 5.71, 6.01), 1.0  # primes of 10 µs: no two messages are due at once
EMULATED_ROUNDS, TURNS = 100, 4

Times = dict[tuple[str, int], list[float]]  # seconds of each round, by contender and length


def report() -> str:
    return "\n\n".join([_exchanges(), _over_ideal()])


# what workers hold and do


class ReadyWork:
    """Every row is one part, and every part is ready."""

    def __init__(self, length: int) -> None:
        self.length, self.weight = length, np.ones(1)

    def row(self, slot: int, row: int) -> tuple[tuple[int], np.ndarray]:
        return (row,), self.weight

    def part(self, state: np.ndarray, part: int) -> np.ndarray:
        return ready(self.length)


# echelon


@contextmanager
def _echelon() -> Iterator[Exchange]:
    with _cluster(partial(ProcessCluster, WORKERS), LENGTHS) as (cluster, workers):
        numbers = count(1)

        def exchange(length: int) -> int:
            number = next(numbers)
            held = _until_needed(cluster, workers, number, length)
            brought = sum(message.segments[0].size for message in held)
            _end(cluster, number, held)
            return brought

        yield exchange


@contextmanager
def _cluster(
    start: Callable[[], ProcessCluster], lengths: Iterable[int]
) -> Iterator[tuple[ProcessCluster, Sequence[int]]]:
    """Give a cluster that knows the work of each length, under the length as its key, and its workers by place."""
    with closing(start()) as cluster:
        workers: dict[int, int] = {}
        while len(workers) < WORKERS:
            workers |= {report.place: report.worker for report in cluster.poll(None) if isinstance(report, Up)}
        for length in lengths:
            cluster.load(length, ReadyWork(length))
        yield cluster, [workers[place] for place in range(WORKERS)]


def _until_needed(cluster: ProcessCluster, workers: Sequence[int], number: int, length: int) -> list[Message]:
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


def _end(cluster: ProcessCluster, number: int, held: Sequence[Message]) -> None:
    cluster.purge(number)
    for message in held:
        cluster.release(message)


# bare operations


@contextmanager
def _ping_pong(place: str) -> Iterator[Exchange]:
    ours, theirs = socket.socketpair()
    everywhere = os.sched_getaffinity(0)
    first, last = {min(everywhere)}, {max(everywhere)}
    here, there = {"anywhere": (everywhere, everywhere), "one core": (first, first), "two cores": (first, last)}[place]
    child = os.fork()
    if not child:
        _echo(ours, theirs, there)
    theirs.close()
    number = bytearray(8)

    def exchange(length: int) -> int:
        os.sched_setaffinity(0, here)
        try:
            for _ in range(NEEDED):
                ours.send(number)
                ours.recv_into(number)
        finally:
            os.sched_setaffinity(0, everywhere)
        return NEEDED * length

    try:
        yield exchange
    finally:
        ours.close()
        os.waitpid(child, 0)


def _echo(ours: socket.socket, theirs: socket.socket, cores: set[int]) -> NoReturn:
    """Be the child: send everything back until the other end is closed."""
    try:
        ours.close()
        os.sched_setaffinity(0, cores)
        number = bytearray(8)
        while theirs.recv_into(number):
            theirs.send(number)
    finally:
        os._exit(0)


@contextmanager
def _copy() -> Iterator[Exchange]:
    size = max(LENGTHS) * 8
    descriptor = create("bench-copy", size)
    shared = np.frombuffer(attach(descriptor, size))
    os.close(descriptor)
    shared[:] = 1.0
    private = np.zeros_like(shared)

    def exchange(length: int) -> int:
        for _ in range(NEEDED):
            np.copyto(private, shared)
        return NEEDED * length

    yield exchange


ECHELON = Contender(
    name="echelon",
    package="echelon",
    open=_echelon,
    rounds={1: 400, 10_000: 160, 1_000_000: 20},
    how="`ProcessCluster`: broadcast, assign, poll, purge, release",
)
LIMITS = [
    Contender(
        name="limit: ping-pong",
        package="echelon",
        open=partial(_ping_pong, "anywhere"),
        rounds={1: 80},
        how="8 B to a forked child and back, through a socket pair; the system places both, as it does ours",
    ),
    Contender(
        name="ping-pong, two cores",
        package="echelon",
        open=partial(_ping_pong, "two cores"),
        rounds={1: 80},
        how="the same, each pinned to a core of its own",
    ),
    Contender(
        name="ping-pong, one core",
        package="echelon",
        open=partial(_ping_pong, "one core"),
        rounds={1: 80},
        how="the same with both pinned to one core, so that no sleeping core is to be woken",
    ),
    Contender(
        name="limit: copy",
        package="echelon",
        open=_copy,
        rounds={1_000_000: 20},
        how="8 MB out of shared memory by `numpy.copyto`",
    ),
]
# measurement


def _exchanges() -> str:
    ours = [*LIMITS, ECHELON]
    times = _times(ours)
    for other in OTHERS:
        if find_spec(other.package) is not None:
            # ours again each time, so that what the machine does besides meets all alike
            for key, seconds in (_times([other]) | _times(ours)).items():
                times.setdefault(key, []).extend(seconds)
    # a round's median, over its messages
    took = {key: float(np.median(seconds)) / NEEDED * 1e6 for key, seconds in times.items()}
    return "\n\n".join([_message_table(took), _ratio_table(took), _ways()])


def _times(contenders: Sequence[Contender]) -> Times:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, contenders).result()


def _measure(contenders: Sequence[Contender]) -> Times:
    """Return the times of all rounds; contenders that are measured together take turns."""
    times: Times = {}
    with ExitStack() as stack:
        exchanges = [stack.enter_context(contender.open()) for contender in contenders]
        for length in LENGTHS:
            taking_part = [
                (contender, exchange)
                for contender, exchange in zip(contenders, exchanges, strict=True)
                if length in contender.rounds
            ]
            for contender, exchange in taking_part:
                times[contender.name, length] = []
                for _ in range(contender.warm_up):
                    assert exchange(length) == NEEDED * length
            for _ in range(TURNS):
                for contender, exchange in taking_part:
                    rounds = contender.rounds[length] // TURNS
                    times[contender.name, length] += [_seconds(exchange, length) for _ in range(rounds)]
    return times


def _seconds(exchange: Exchange, length: int) -> float:
    start = time.perf_counter()
    exchange(length)
    return time.perf_counter() - start


def _message_table(took: dict[tuple[str, int], float]) -> str:
    rows = []
    for contender in [ECHELON, *OTHERS, *LIMITS]:
        missing = "–" if find_spec(contender.package) else "not installed"
        cells = [f"{took[key]:,.1f}" if (key := (contender.name, length)) in took else missing for length in LENGTHS]
        rows.append([contender.name, *cells])
    return markdown_table(["µs a message", *LENGTHS.values()], rows)


def _ratio_table(took: dict[tuple[str, int], float]) -> str:
    pairs = [(ECHELON, limit, "≤ 2" if "limit" in limit.name else "beside it") for limit in LIMITS]
    pairs += [
        (other, ECHELON, "≥ 10 at 8 B, ≥ 5 at 8 MB" if other.name != "loky" else "–")
        for other in OTHERS
        if find_spec(other.package) is not None
    ]
    rows = []
    for above, below, wanted in pairs:
        cells = [
            f"{took[above.name, length] / took[below.name, length]:,.2f}"
            if (above.name, length) in took and (below.name, length) in took
            else "–"
            for length in LENGTHS
        ]
        rows.append([f"{above.name} / {below.name}", *cells, wanted])
    return markdown_table(["ratio", *LENGTHS.values(), "wanted"], rows)


def _ways() -> str:
    head = (
        f"A round hands {TASKS} tasks to each of {WORKERS} workers and needs the first {NEEDED} results; a message's "
        f"time is the median round's over {NEEDED}, so a round's overhead is {NEEDED} times as much. A round of the "
        f"ping-pong is {NEEDED} round trips, each of which wakes a process twice; messages that are ready together "
        "cost fewer wakes, which is how a ratio can fall below 1."
    )
    ways = [f"- {contender.name}: {contender.how}." for contender in [ECHELON, *OTHERS, *LIMITS]]
    return "\n".join([head, "", *ways])


def _over_ideal() -> str:
    """Measure how much later the last message that a round needs comes than the emulated times allow."""
    workers = [
        Worker(f"w{mean}", mean=mean / 1e3, std=0.0, link=LINK_MS / 1e3, law="deterministic") for mean in MEANS_MS
    ]
    job = Workload(critical=NEEDED, redundancy=WORKERS * TASKS / NEEDED, iterations=1, arrivals=Arrivals.poisson(1.0))
    due = np.sort(LINK_MS + np.outer(MEANS_MS, np.arange(1, TASKS + 1)), axis=None)
    ideal = due[NEEDED - 1]
    length = 10_000
    over = []
    with _cluster(partial(ProcessCluster, emulate=Profile(job, workers), seed=1), [length]) as (cluster, numbers):
        for number in range(1, WARM_UP + EMULATED_ROUNDS + 1):
            start = time.perf_counter()
            held = _until_needed(cluster, numbers, number, length)
            over.append((time.perf_counter() - start) * 1e3 - ideal)
            _end(cluster, number, held)
    median, late = np.percentile(over[WARM_UP:], [50, 95])
    row = [f"{ideal:.2f} ms", f"{median:.2f} ms", f"{late:.2f} ms", "median ≤ 2 ms"]
    table = markdown_table(["ideal arrival of message 50 of 55", "over it: median", "95th percentile", "wanted"], [row])
    means = ", ".join(map(str, MEANS_MS))
    return (
        f"{table}\n\nFive emulated workers with tasks of exactly {means} ms and links of {LINK_MS:g} ms, results of "
        f"{LENGTHS[length]}, {EMULATED_ROUNDS} rounds; from just before `broadcast` to having the message."
    )
