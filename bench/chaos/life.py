"""One life of a program in `bench.chaos.live`: jobs that do mischief, and harm done to the workers from outside."""

import os
import random
import signal
import socket
import time
from pathlib import Path
from statistics import median
from threading import Event, Thread

import numpy as np

import echelon as ec
from echelon.stream import Journal

JOBS, CHUNKS, ITERATIONS, WORKERS = 12, 24, 15, 4
PART_S, PART_TIMEOUT_S = 0.004, 2.0
HELPER_S = 3.0  # how long a process that a task leaves behind lives


def chunks(seed: int, job: int) -> list[np.ndarray]:
    """Return the data of a job."""
    return list(np.random.default_rng((seed, job)).uniform(0.5, 1.5, (CHUNKS, 6)))


def update(state: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return the next state."""
    return total / (1 + np.abs(total).max())


def result(seed: int, job: int) -> np.ndarray:
    """Return what a job gives, computed by one process."""
    state = np.ones(6)
    for _ in range(ITERATIONS):
        state = update(state, np.sum(chunks(seed, job), axis=0) * state)
    return state


class Part:
    """The gradient of a chunk, which now and then does mischief, once per place where it may."""

    def __init__(self, folder: Path, mischief: dict[str, str]) -> None:
        self.folder, self.mischief = folder, mischief

    def __call__(self, state: np.ndarray, chunk: np.ndarray) -> np.ndarray:
        end = time.monotonic() + PART_S
        kind = self.mischief.get(chunk.tobytes().hex()[:16])
        if kind is not None and _first(self.folder / f"done-{chunk.tobytes().hex()[:16]}"):
            _note(self.folder, kind)
            _MISCHIEF[kind]()
        while time.monotonic() < end:
            pass
        return chunk * state


def _first(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _note(folder: Path, line: str) -> None:
    with (folder / "faults").open("a") as file:
        file.write(line + "\n")


def _hang() -> None:
    while True:
        time.sleep(1.0)


def _garbage() -> None:
    """Write garbage to every socket of this worker."""
    for path in Path("/proc/self/fd").iterdir():
        try:
            if os.readlink(path).startswith("socket:"):
                socket.socket(fileno=os.dup(int(path.name))).send(b"\x0cgarbage" * 3)
        except OSError:
            continue


def _leave_helper() -> None:
    """Leave a process behind that holds this worker's descriptors, and die."""
    if os.fork() == 0:
        time.sleep(HELPER_S)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def _fork_returns() -> None:
    """Let a forked child return into the worker's loop."""
    os.fork()


_MISCHIEF = {
    "hang": _hang, "garbage": _garbage, "helper": _leave_helper, "fork": _fork_returns,
    "crash": lambda: os.abort(),
}  # fmt: skip


class Rounds(ec.Observer):
    """How long rounds and parts take, and which of them had a worker that stopped."""

    def __init__(self) -> None:
        self.rounds: list[tuple[float, float]] = []
        self.parts: list[float] = []

    def received(self, arrival: object) -> None:
        """Note what a part takes."""
        self.parts.append(arrival.seconds)  # type: ignore[attr-defined]

    def round_over(self, seen: object) -> None:
        """Note a round."""
        self.rounds.append((seen.start, seen.end))  # type: ignore[attr-defined]

    def overrun(self, at: float) -> float | None:
        """Return by how many parts the round at this time took longer than rounds do."""
        took = [end - start for start, end in self.rounds if start <= at < end]
        if not took:
            return None
        return (took[0] - median(end - start for start, end in self.rounds)) / median(self.parts)


def live(seed: int, life: int, folder: Path) -> None:
    """Submit all jobs, those of earlier lives only once, deliver them, and do harm meanwhile."""
    rng = random.Random(1000 * seed + life)
    harmful = random.Random(seed)
    mischief = {
        chunks(seed, job)[harmful.randrange(CHUNKS)].tobytes().hex()[:16]: harmful.choice(list(_MISCHIEF))
        for job in harmful.sample(range(JOBS), 4)
    }
    rounds, log = Rounds(), os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        stopped: list[float] = []
        with ec.Stream(
            "processes",
            workers=WORKERS,
            journal=folder / "journal",
            record=folder / f"record-{life}",
            observers=[rounds],
            part_timeout_s=PART_TIMEOUT_S,
            redundancy=rng.choice([None, 1.0, 1.3]),
            overlap=rng.random() < 0.5,
            seed=seed,
        ) as stream:
            for job in range(JOBS):
                stream.submit(
                    ec.SumJob(
                        partial=Part(folder, mischief), update=update, state=np.ones(6), chunks=chunks(seed, job),
                        iterations=ITERATIONS, name=f"job {job}",
                    ),
                    key=f"job {job}",
                )  # fmt: skip
            over = Event()
            harm = Thread(target=do_harm, args=(rng, stream, folder, over, stopped))
            harm.start()
            close_at = rng.randrange(1, 2 * JOBS)
            taken = 0
            try:
                for done in stream.deliveries():
                    assert done.error is None, done.error
                    right = np.allclose(done.result, result(seed, done.number - 1), rtol=1e-9)
                    os.write(log, f"{done.number} {int(right)}\n".encode())
                    taken += 1
                    if taken == close_at:
                        break
            finally:
                over.set()
                harm.join()
            for at in stopped:
                late = rounds.overrun(at)
                _note(folder, "stop" if late is None else f"stop:{late:.4f}")
            if taken < close_at:
                return
            _note(folder, "close")
            stream.close(wait=False)


def do_harm(rng: random.Random, stream: ec.Stream, folder: Path, over: Event, stopped: list[float]) -> None:
    """Kill and stop workers and their parent, and fill the journal's disk, until the deliveries are over."""
    cluster, journal = stream._cluster, stream._journal
    while not over.wait(rng.uniform(0.05, 0.8)):
        kind = rng.choice(["kill", "stop", "stop", "pause", "parent", "full"])
        pids = list(cluster.pids().values())
        try:
            match kind:
                case "kill" if pids:
                    os.kill(rng.choice(pids), signal.SIGKILL)
                case "stop" if pids:
                    stopped.append(stream.now())
                    os.kill(rng.choice(pids), signal.SIGSTOP)
                    continue  # noted with what it cost
                case "pause" if pids:
                    pid = rng.choice(pids)
                    os.kill(pid, signal.SIGSTOP)
                    over.wait(rng.uniform(0.01, 0.5))
                    os.kill(pid, signal.SIGCONT)
                case "parent" if rng.random() < 0.3:
                    os.kill(cluster._nursery.pid, rng.choice([signal.SIGSTOP, signal.SIGKILL]))
                case "full":
                    with full(journal):
                        over.wait(rng.uniform(0.01, 0.5))
                case _:
                    continue
        except ProcessLookupError:
            continue
        _note(folder, kind)


class full:  # noqa: N801 - reads as what it does
    """Lets a journal's file take no more pages for a while, as on a full disk."""

    def __init__(self, journal: Journal) -> None:
        self._base = journal._base

    def __enter__(self) -> None:
        self._base.execute("PRAGMA max_page_count=1")  # never below what it has

    def __exit__(self, *_: object) -> None:
        self._base.execute("PRAGMA max_page_count=1000000000")
