"""Speed of planning: Theorem 2 at a million workers, a whole plan of Example 2, and what an import costs."""

import subprocess
import sys

import numpy as np

from bench.results import markdown_table
from bench.timing import best_of
from echelon.cli.plan import plan_report
from echelon.papers.stream_workers import example2
from echelon.profile import Speeds
from echelon.splits import theorem2

WORKERS = 10**6


def report() -> str:
    rng = np.random.default_rng(1)
    speeds = Speeds(
        rng.exponential(1, WORKERS) + 0.01, rng.exponential(1, WORKERS), rng.exponential(1, WORKERS)
    )  # fmt: skip
    profile = example2()
    actions = {
        f"Theorem 2, {WORKERS:,} workers, {tasks:,} tasks": lambda tasks=tasks: theorem2(speeds, tasks)
        for tasks in (10**4, 10**6, 10**8)
    }
    actions["whole plan of Example 2, after import"] = lambda: plan_report(profile, "theorem2", None, True)
    actions["… with --split best --tasks 50"] = lambda: plan_report(profile, "best", 50, True)
    took = best_of(actions, repeats=5)
    imports = best_of(
        {
            "numpy, scipy.special": lambda: _import("numpy, scipy.special"),
            "echelon": lambda: _import("echelon"),
            "nothing": lambda: _import("sys"),
        },
        repeats=7,
    )
    idle = imports["nothing"]
    ratio = (imports["echelon"] - idle) / (imports["numpy, scipy.special"] - idle)
    return "\n\n".join(
        [
            markdown_table(["what", "time"], [[name, f"{seconds * 1e3:,.1f} ms"] for name, seconds in took.items()]),
            f"`import echelon` takes {ratio:.2f} times as long as `import numpy, scipy.special`.",
        ]
    )


def _import(names: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {names}"], check=True)
