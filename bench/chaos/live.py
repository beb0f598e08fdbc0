"""`python -m bench.chaos.live`: programs whose streams of worker processes meet every kind of harm, and are killed.

Workers are killed, stopped and hang, write garbage and fork; disks are full; streams are closed and programs killed, at
random. What a program delivered in all its lives is checked when the last of them ends.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from bench.chaos.life import HELPER_S, JOBS, live, result
from echelon.stream import Journal

MARK = "ECHELON_CHAOS"  # in the environment of every process of a program, so that none is left unseen
LIFE_S = 120.0  # the longest life of a program: every wait is bounded


def main() -> None:
    """Run programs one after another, or be one of them."""
    parser = argparse.ArgumentParser(prog="python -m bench.chaos.live", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="when to begin no more programs")
    parser.add_argument("--seed", type=int, help="run this one program")
    parser.add_argument("--life", nargs=3, metavar=("SEED", "LIFE", "FOLDER"), help="be one life of a program")
    arguments = parser.parse_args()
    if arguments.life is not None:
        seed, life, folder = arguments.life
        live(int(seed), int(life), Path(folder))
        return
    tally, begun, first = Tally(), time.monotonic(), time.time_ns() // 10**6 % 10**9
    seeds = [arguments.seed] if arguments.seed is not None else range(first, first + 10**6)
    for seed in seeds:
        try:
            run_program(seed, tally)
        except BaseException:
            print(
                f"\nprogram {seed} failed; run it again by: python -m bench.chaos.live --seed {seed}", file=sys.stderr
            )
            raise
        print(f"\r{tally}", end="", flush=True)
        if time.monotonic() - begun > arguments.seconds:
            break
    print()


@dataclass
class Tally:
    """Totals over programs."""

    programs: int = 0
    lives: int = 0
    jobs: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    overruns: list[float] = field(default_factory=list)  # of rounds in which a worker hung or stopped, in parts

    def __str__(self) -> str:
        met = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        late = f"{median(self.overruns):.2f} parts" if self.overruns else "not seen"
        return (
            f"{self.programs} programs, {self.lives} lives, {self.jobs} jobs delivered once, in order and right; "
            f"met {met}; rounds with a hang take longer by {late} in the median of {len(self.overruns)}"
        )


def run_program(seed: int, tally: Tally) -> None:
    """Run a program for some lives, kill all but the last, and check what it delivered and left behind."""
    rng = random.Random(seed)
    lives = rng.randrange(1, 4)
    with TemporaryDirectory(prefix="echelon-chaos-") as name:
        folder = Path(name)
        for life in range(lives):
            program = subprocess.Popen(
                [sys.executable, "-m", "bench.chaos.live", "--life", str(seed), str(life), name],
                env=os.environ | {MARK: str(seed)},
                stderr=(folder / f"stderr-{life}").open("w"),
            )
            try:
                code = program.wait(LIFE_S if life == lives - 1 else rng.uniform(0.3, 6.0))
                assert code == 0, f"life {life} ended with {code}:\n{(folder / f'stderr-{life}').read_text()[-4000:]}"
            except subprocess.TimeoutExpired:
                os.kill(program.pid, signal.SIGABRT if life == lives - 1 else signal.SIGKILL)
                program.wait()
                assert life < lives - 1, f"life {life} did not end:\n{(folder / f'stderr-{life}').read_text()[-6000:]}"
            _nothing_left(seed)
        _check_deliveries(seed, folder, lives)
        for line in (folder / "faults").read_text().split():
            kind, _, parts = line.partition(":")
            tally.faults[kind] = tally.faults.get(kind, 0) + 1
            if parts:
                tally.overruns.append(float(parts))
    tally.programs, tally.lives, tally.jobs = tally.programs + 1, tally.lives + lives, tally.jobs + JOBS


def _nothing_left(seed: int) -> None:
    """Check that no process of a program outlives it; what its tasks left behind ends by itself."""
    end = time.monotonic() + HELPER_S + 10.0
    while left := _marked(seed):
        assert time.monotonic() < end, f"processes are left behind: {left}"
        time.sleep(0.05)


def _marked(seed: int) -> dict[int, str]:
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={seed}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found[int(path.name)] = (path / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found


def _check_deliveries(seed: int, folder: Path, lives: int) -> None:
    logged = [tuple(map(int, line.split())) for line in (folder / "log").read_text().splitlines()]
    numbers = [number for number, _ in logged]
    assert numbers == sorted(set(numbers)), f"delivered twice, or out of order: {numbers}"
    assert all(right for _, right in logged), f"wrong results: {logged}"
    journal = Journal(folder / "journal")
    try:
        assert not list(journal.undelivered()), "jobs are not delivered"
        # a program that dies between the mark and the log loses the line, but not the result
        missing = set(range(1, JOBS + 1)) - set(numbers)
        assert len(missing) < lives, f"jobs {missing} are not delivered"
        for number in missing:
            np.testing.assert_allclose(journal.result(number), result(seed, number - 1), rtol=1e-9)
    finally:
        journal.close()


if __name__ == "__main__":
    main()
