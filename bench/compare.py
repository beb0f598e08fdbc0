"""`python -m bench.compare`: the same jobs on the same emulated clusters by echelon, Ray, Dask and torch.

Each of the others takes part twice: as its documentation has it, and by hand as an expert would do it, knowing what
echelon knows. Every run has its own process; contenders take turns, one repeat after another.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bench.compare_cases import BURSTY, DEADLY, EXAMPLE2, SLOWED, STEADY, Case, Known, Run, known
from bench.compare_contenders import CONTENDERS, OURS, Contender, introduction
from bench.results import markdown_table, part, parts, replace_section
from echelon.clusters.blas_threads import NAMES as BLAS_THREADS

ROOT = Path(__file__).parents[1]
REPEATS, MINUTES = 3, 40.0
SEED = 11  # of the first repeat
LONGEST_S = 60.0
SECTION = "bench-compare"


@dataclass(frozen=True)
class Title:
    """Jobs on clusters whose rounds take this long by echelon's strategy, as predicted."""

    round_s: float
    iterations: int
    rows: Sequence[tuple[str, str]]
    together: bool = False  # by hand: one message per worker, which short rounds need more than copies

    def known(self) -> list[Known]:
        """Return what is known about its rows beforehand."""
        return [known(*row, self.round_s, self.iterations, self.together) for row in self.rows]


TITLES = {
    "Rounds of 5 ms": Title(
        0.005, 200, [(EXAMPLE2, "training"), (SLOWED, "training"), (STEADY, "training")], together=True
    ),
    "Rounds of 125 ms": Title(
        0.125,
        25,
        [
            (EXAMPLE2, "training"),
            (EXAMPLE2, "solve"),
            (SLOWED, "training"),
            (BURSTY, "training"),
            (STEADY, "training"),
        ],
    ),
    "Rounds of 620 ms": Title(0.62, 10, [(EXAMPLE2, "training"), (STEADY, "training")]),
    "Rounds of 125 ms, and a death": Title(0.125, 35, [(DEADLY, "training")]),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare",
        description=__doc__,
        epilog=f"With {REPEATS} repeats all of it takes about 40 minutes on two cores, Ray and Dask included. "
        f"A run that takes longer than {LONGEST_S:.0f} s is ended and counts as failed, so that a repeat takes a "
        "known time at most, and no repeat but the first is begun after --minutes.",
    )
    parser.add_argument("--results", type=Path, help=f"Markdown file whose section '{SECTION}' is to be replaced")
    parser.add_argument(
        "--only", choices=TITLES, action="append", metavar="TITLE", help=f"a part to run: {', '.join(TITLES)}"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs of each contender (default: %(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="when to begin no more repeats (default: %(default)g)"
    )
    parser.add_argument("--run", nargs=2, metavar=("MODULE", "CASE"), help="make one run, and print it as JSON")
    arguments = parser.parse_args()
    if arguments.run is not None:
        module, case = arguments.run
        print(json.dumps(asdict(importlib.import_module(f"bench.{module}").run(Case(**json.loads(case))))), flush=True)
        return
    if arguments.repeats < 1:
        parser.error(f"--repeats: {arguments.repeats} is not allowed; must be 1 at least")
    report(arguments.only or TITLES, arguments.repeats, arguments.minutes, arguments.results)


def report(titles: Collection[str], repeats: int, minutes: float, results: Path | None) -> None:
    """Run the requested parts, print them, and put them into a document if there is one."""
    until = time.monotonic() + 60 * minutes
    ours = [one for one in CONTENDERS if find_spec(one.package) is not None]
    rows = {title: [Row(one) for one in TITLES[title].known()] for title in titles}
    for repeat in range(repeats):
        for title, some in rows.items():
            for row in some:
                if repeat == 0 or time.monotonic() < until:
                    row.repeat(ours, SEED + repeat, title)
    texts = {"What everybody does": introduction()} | {title: _table(some) for title, some in rows.items()}
    for title, text in texts.items():
        print(part(title, text), end="\n\n", flush=True)
    if results is not None:
        held = parts(results, SECTION) | texts
        order = ["What everybody does", *TITLES]
        replace_section(results, SECTION, "\n\n".join(part(title, held[title]) for title in order if title in held))


@dataclass
class Row:
    """A job on a cluster: what is known about it, and how long a round of each contender took, repeat by repeat.

    A run that failed is infinitely long.
    """

    known: Known
    rounds_s: dict[str, list[float]] = field(default_factory=dict)

    def repeat(self, contenders: Sequence[Contender], seed: int, title: str) -> None:
        """Let every contender run once."""
        case = replace(self.known.case, seed=seed)
        for one in contenders:
            took = _run(one, case)
            self.rounds_s.setdefault(one.name, []).append(took)
            where = f"{title}; {case.cluster}; {case.job}; seed {seed}"
            print(f"{where}: {one.name} {1e3 * took:.2f} ms per round", file=sys.stderr, flush=True)

    def ratio(self, contender: Contender) -> str:
        """Return how many times longer than ours its rounds took: the median of all repeats, the least and the most."""
        if contender.name not in self.rounds_s:
            return "not installed"
        ratios = np.array(self.rounds_s[contender.name]) / np.array(self.rounds_s[OURS.name])
        if not np.isfinite(ratios).all():
            return f"{(~np.isfinite(ratios)).sum()} of {len(ratios)} failed"
        return f"{np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})"


def _table(rows: Sequence[Row]) -> str:
    cases = [row.known.case for row in rows]
    table = [
        ["echelon's strategy", "", *(row.known.strategy for row in rows)],
        ["by hand", "", *(row.known.by_hand for row in rows)],
        ["repeats", "", *(str(len(row.rounds_s[OURS.name])) for row in rows)],
        ["echelon, ms per round", str(OURS.lines), *(_milliseconds(row.rounds_s[OURS.name]) for row in rows)],
    ]
    table += [
        [f"{one.name} / echelon", str(one.lines), *(row.ratio(one) for row in rows)]
        for one in CONTENDERS
        if one is not OURS
    ]
    return markdown_table(["", "lines", *(f"{case.cluster}; {case.job}" for case in cases)], table)


def _milliseconds(rounds_s: Sequence[float]) -> str:
    found = 1e3 * np.array(rounds_s)
    return f"{np.median(found):.1f} ({found.min():.1f} to {found.max():.1f})"


def _run(contender: Contender, case: Case) -> float:
    """Make a run in its own process; return seconds per round, infinitely many if it failed."""
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "bench.compare", "--run", contender.module, json.dumps(asdict(case))],
            cwd=ROOT,
            env=os.environ | dict.fromkeys(BLAS_THREADS, "1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=LONGEST_S,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{contender.name}: {error}", file=sys.stderr, flush=True)
        return float("inf")
    return Run(**json.loads(ended.stdout.splitlines()[-1])).round_s


if __name__ == "__main__":
    from bench import compare

    compare.main()  # by its name, so that workers can import it
