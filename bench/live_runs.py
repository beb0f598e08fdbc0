"""Measured runs of the live runtime: emulated workers against the exact prediction, and runs under kill -9."""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import echelon as ec
from bench.results import markdown_table
from echelon.stream import read_record

ROOT = Path(__file__).parents[1]
SCALE = 0.1  # of the paper's times: an iteration then takes 76 ms and more
ITERATIONS = 400
KILL_SECONDS = 60.0
KILLS = 1000
KILL_PAUSE_S = 0.02


def report() -> str:
    every = f"One of five workers killed every second for {KILL_SECONDS:.0f} s: {_under_kills(_every_second)}"
    row = f"A worker killed every {1e3 * KILL_PAUSE_S:.0f} ms: {_under_kills(_in_a_row)}"
    return "\n\n".join([_emulated(), every, row])


def _job(iterations: int, size: int = 500, seed: int = 1) -> ec.LinearJob:
    matrix = np.random.default_rng(seed).standard_normal((size, size)) / size**0.5
    return ec.LinearJob(matrix=matrix, parts=50, state=np.ones(size), update=_normalised, iterations=iterations)


def _normalised(state: np.ndarray, product: np.ndarray) -> np.ndarray:
    return product / (1.0 + np.abs(product).max())


def _plain(job: ec.LinearJob) -> np.ndarray:
    state = job.state
    assert job.iterations is not None
    for _ in range(job.iterations):
        state = _normalised(state, job.matrix @ state)
    return state


def _emulated() -> str:
    """Return measured against predicted iteration times of Example 2, both splits."""
    profile = ec.read_profile(ROOT / "examples" / "example2.toml").scaled(SCALE)
    rows = []
    for rule in ("theorem2", "uniform"):
        plan = ec.schemes.any_k(ec.split_rows(profile, rule).counts, profile.workload.critical)
        expected = ec.predict_jobs(plan, profile).iteration_mean
        job = _job(ITERATIONS)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "run"
            with ec.Stream(emulate=profile, profile=profile, split=rule, adapt=False, record=path) as stream:
                done = stream.submit(job).delivery()
            rounds = read_record(path).rounds
        times = np.array([seen.end - seen.start for seen in rounds])
        starts = np.array([seen.start for seen in rounds])
        difference = float(np.abs(done.result - _plain(job)).max())
        between = np.diff(starts) - times[:-1]
        rows.append(
            [
                rule,
                str(len(times)),
                f"{1e3 * times.mean():.2f} ± {1e3 * times.std() / len(times) ** 0.5:.2f}",
                f"{1e3 * expected:.2f}",
                f"{100 * (times.mean() / expected - 1):+.1f} %",
                f"{1e3 * np.median(between):.2f}",
                f"{difference:.1e}",
            ]
        )
    columns = ["split", "iterations", "measured (ms)", "predicted (ms)", "off by", "between rounds (ms)", "error"]
    return (
        f"Example 2 emulated by five processes, times scaled by {SCALE}; wanted: within 5 % of the exact prediction, "
        "and the result equal to a single process's to 1e-8. Between rounds the master decodes and the job takes its "
        "step; ± is one standard error.\n\n" + markdown_table(columns, rows)
    )


def _processes() -> set[int]:
    """Return workers and their parents, of all streams of this machine."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and "echelon.clusters.nursery\0" in (entry / "cmdline").read_text():
                found.add(int(entry.name))
    return found


Killer = Callable[[ec.clusters.ProcessCluster, threading.Event], int]


def _under_kills(kill: Killer) -> str:
    """Run jobs while workers are killed; say whether every job was delivered, in order and right."""
    before, descriptors = _processes(), _descriptors()
    cluster = ec.clusters.ProcessCluster(5)
    over = threading.Event()
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(kill(cluster, over)))
    start, right, number = time.monotonic(), True, 0
    with ec.Stream(cluster, redundancy=1.2) as stream:
        thread.start()
        try:
            while thread.is_alive():
                job = _job(40, seed=number % 10)
                done = stream.submit(job).delivery()
                right &= done.number == number and done.error is None
                right &= done.error is None and bool(np.abs(done.result - _plain(job)).max() < 1e-8)
                number += 1
        finally:
            over.set()
            thread.join()
    return (
        f"{counts[0]} workers killed (kill -9) in {time.monotonic() - start:.0f} s, {number} jobs of 40 iterations; "
        f"all delivered, in order, equal to a single process's to 1e-8: {'yes' if right else 'NO'}; processes left "
        f"behind: {len(_processes() - before)}, descriptors left open: {_descriptors() - descriptors}."
    )


def _every_second(cluster: ec.clusters.ProcessCluster, over: threading.Event) -> int:
    rng, kills = np.random.default_rng(1), 0
    end = time.monotonic() + KILL_SECONDS
    while time.monotonic() < end and not over.wait(1.0):
        alive = list(cluster.pids())
        if alive:
            cluster.kill(int(rng.choice(alive)))
            kills += 1
    return kills


def _in_a_row(cluster: ec.clusters.ProcessCluster, over: threading.Event) -> int:
    rng = np.random.default_rng(1)
    killed: set[int] = set()
    while len(killed) < KILLS:
        # numbers are never reused: no killed worker is counted twice
        alive = [number for number in cluster.pids() if number not in killed]
        if alive:
            killed.add(int(rng.choice(alive)))
            cluster.kill(max(killed & set(alive)))
        if over.wait(KILL_PAUSE_S):
            break
    return len(killed)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


if __name__ == "__main__":
    print(report())
