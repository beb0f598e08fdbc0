"""`python -m bench.compare`: the same jobs on the same emulated clusters by echelon, Ray, Dask and torch.

Every run has a process of its own; contenders take turns, one seed after another.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from bench.compare_cases import CLUSTERS, TIME_S, Case, Run, plan
from bench.compare_jobs import JOBS, SAME
from bench.results import markdown_table, replace_section
from echelon.clusters.blas_threads import NAMES as BLAS_THREADS

ROOT = Path(__file__).parents[1]
SEEDS = (11, 12, 13)
LONGEST_S = 300.0
LOST = 0.995  # a ratio below which another one was quicker


@dataclass(frozen=True)
class Contender:
    """Who takes part, in which module (`run(case) -> Run`), what it does, and where it can win, and why it does."""

    name: str
    module: str
    how: str
    wins: dict[tuple[str, str], str] = field(default_factory=dict)  # by cluster and job


OURS = Contender(
    "echelon",
    "compare_echelon",
    'knows the laws of its workers (`profile=`) and chooses the strategy by them (`strategy="auto"`); a worker that '
    "dies is replaced, and what it had to do is given to others",
)
OTHERS = [
    Contender(
        "Ray",
        "compare_ray",
        "an actor for each worker; the driver hands out parts, a call each, to whoever has least to do, and takes "
        "results by `ray.wait`; parts of an actor that died go to others, and a new one is started in its place",
    ),
    Contender(
        "Dask",
        "compare_dask",
        "`LocalCluster` of processes with a thread each; data is scattered to all of them, and an iteration is one "
        "`client.map` over the parts and one `gather`; the scheduler gives parts of a worker that died to others, and "
        "its nanny starts another one",
    ),
    Contender(
        "torch",
        "compare_torch",
        "equal shares over gloo: training by `DistributedDataParallel`, the solve by `all_reduce` of the product; "
        "where a rank dies all fail, and as many new ones as are left go on from the state before (forked, and with a "
        "checkpoint that costs nothing: less than `torchrun` takes)",
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("--results", type=Path, help="Markdown file whose section 'bench-compare' is to be replaced")
    parser.add_argument("--run", nargs=2, metavar=("MODULE", "CASE"), help="make one run, and print it as JSON")
    arguments = parser.parse_args()
    if arguments.run is not None:
        module, case = arguments.run
        print(json.dumps(asdict(importlib.import_module(f"bench.{module}").run(Case(**json.loads(case))))), flush=True)
        return
    text = report()
    print(text)
    if arguments.results is not None:
        replace_section(arguments.results, "bench-compare", text)


@dataclass(frozen=True)
class Row:
    """A job on a cluster: what was found beforehand, and what every run of every contender took, by name."""

    case: Case
    strategy: str
    seconds: dict[str, list[float]]
    starts: dict[str, list[float]]

    def ratios(self, contender: Contender) -> np.ndarray:
        return np.array(self.seconds[contender.name]) / np.array(self.seconds[OURS.name])

    def cells(self) -> list[str]:
        case = self.case
        return [
            f"{case.cluster}; {case.job}",
            f"{case.work.iterations}, {case.work.reached}",
            self.strategy,
            str(case.depth),
            f"{np.median(self.seconds[OURS.name]):.2f}",
            *(_spread(self.ratios(one)) for one in OTHERS),
        ]

    def reasons(self) -> list[str]:
        """Return a sentence for everybody who was quicker than echelon."""
        return [
            f"{self.case.cluster}, {self.case.job}: {one.name} is quicker, "
            f"{one.wins.get((self.case.cluster, self.case.job), 'for a reason that is not known yet')}."
            for one in OTHERS
            if np.median(self.ratios(one)) < LOST
        ]


def report() -> str:
    rows = [_row(cluster, job) for cluster in CLUSTERS for job in JOBS]
    columns = ["cluster; job", "iterations until", "echelon's strategy", "held", "echelon (s)"]
    table = markdown_table([*columns, *(one.name for one in OTHERS)], [row.cells() for row in rows])
    return "\n\n".join([_introduction(rows), table, *(reason for row in rows for reason in row.reasons())])


def _row(cluster: str, job: str) -> Row:
    """Run a job on a cluster by everybody, one seed after another."""
    scale, depth, strategy = plan(cluster, job)
    names = [one.name for one in (OURS, *OTHERS)]
    row = Row(
        Case(cluster, job, SEEDS[0], scale, depth), strategy, {name: [] for name in names}, {name: [] for name in names}
    )
    for seed in SEEDS:
        for contender in (OURS, *OTHERS):
            start = time.monotonic()
            run = _run(contender, replace(row.case, seed=seed))
            row.starts[contender.name].append(run.ends[0] - start)
            row.seconds[contender.name].append(run.seconds)
            print(f"{cluster}; {job}; seed {seed}: {contender.name} {run.seconds:.2f} s", file=sys.stderr, flush=True)
    return row


def _introduction(rows: list[Row]) -> str:
    how = "\n".join(f"- {one.name}: {one.how}" for one in (OURS, *OTHERS))
    starts = {one.name: [start for row in rows for start in row.starts[one.name]] for one in (OURS, *OTHERS)}
    took = ", ".join(f"{name} {np.median(some):.1f}" for name, some in starts.items())
    return (
        "Time until a loss or a residual is reached, live, as a multiple of echelon's: the median of "
        f"{len(SEEDS)} seeds, and in brackets the least and the most. Workers are processes that sleep: the j-th part "
        "that a worker does in a round takes the j-th draw of its law for that seed, worker and round, whoever drives "
        "it, and an order that finds it idle comes after the delay of its link. Results are computed for real, and all "
        f"contenders end within {SAME:g} of what a single process computes. Clusters are scaled so that an iteration "
        f"takes {1e3 * TIME_S:.0f} ms by echelon's strategy, as predicted. A part that is no longer needed when it has "
        "begun is finished first, as real code would. The worker that is killed (`kill -9`) dies in the middle of an "
        "iteration, when half of them are done. What the "
        "contenders know and do:\n\n"
        f"{how}\n\n"
        "How many parts a worker of Ray's or Dask's may hold at once (column 'held'; Dask's `worker-saturation`) is "
        "what a simulation of the cluster finds best for them. Time counts from the end of the first iteration, which "
        "brings the data to the workers. What comes before is left out: from the start of Python to that end it took, "
        f"in seconds, {took}; for echelon this includes finding the strategy."
    )


def _spread(ratios: np.ndarray) -> str:
    return f"{np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})"


def _run(contender: Contender, case: Case) -> Run:
    """Make a run in a process of its own."""
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
    return Run(**json.loads(ended.stdout.splitlines()[-1]))


if __name__ == "__main__":
    from bench import compare

    compare.main()  # by its name, which workers can import
