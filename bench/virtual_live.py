"""The same stream live and in virtual time: emulated processes against the virtual cluster, from one seed."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import echelon as ec
from bench import block_live, live_runs, multi_message_live
from bench.results import markdown_table
from echelon.jobs import IterativeJob
from echelon.stream import read_record

ITERATIONS = 200
SEED = 3


def report() -> str:
    rows = []
    for name, job, options in _runs():
        live, virtual = (_times(cluster, job(), **options) for cluster in ("processes", "virtual"))
        off = live / virtual - 1
        rows.append(
            [
                name,
                f"{1e3 * live.mean():.2f}",
                f"{1e3 * virtual.mean():.2f}",
                f"{100 * (live.mean() / virtual.mean() - 1):+.1f} %",
                f"{100 * np.median(off):+.1f} %",
            ]
        )
    columns = ["stream", "live (ms)", "virtual (ms)", "off by", "median over rounds"]
    return (
        f"The mean of {ITERATIONS - 1} rounds (the first left out) of emulated processes and of the same stream on the "
        "virtual cluster, same seed, so that every round draws the same times. Wanted: within 3 %.\n\n"
        + markdown_table(columns, rows)
    )


def _runs() -> list[tuple[str, Callable[[], IterativeJob], dict[str, Any]]]:
    example = ec.read_profile(live_runs.ROOT / "examples" / "example2.toml").scaled(live_runs.SCALE)
    alike = multi_message_live._profile(np.ones(multi_message_live.WORKERS), multi_message_live.WORKERS, 1.0)
    clusters = multi_message_live._clusters(orders=[2, 3, 4])
    blocks = ec.schemes.block_coordinate(block_live.WORKERS, [24, 5, 3, 3, 3, 3, 4, 19])
    pulled = ec.schemes.pull(workers=len(example.workers), parts=50)
    return [
        ("Example 2, split by Theorem 2", lambda: live_runs._job(ITERATIONS), {"emulate": example, "profile": example}),
        (
            "Example 2, uniform split",
            lambda: live_runs._job(ITERATIONS),
            {"emulate": example, "profile": example, "split": "uniform"},
        ),
        ("multi-message, orders [2, 3, 4]", lambda: _sums(clusters), {"emulate": alike}),
        ("block coordinates", lambda: block_live.job(blocks, ITERATIONS), {"emulate": block_live._profile()}),
        ("pulled, 50 parts", lambda: _sums(pulled), {"emulate": example}),
    ]


def _sums(plan: ec.schemes.CodedPlan) -> ec.SumJob:
    return ec.SumJob(
        partial=multi_message_live._gradient,
        update=multi_message_live._update,
        state=np.zeros((64, 10)),
        chunks=multi_message_live._chunks(plan.parts),
        plan=plan,
        iterations=ITERATIONS,
    )


def _times(cluster: str, job: IterativeJob, **options: Any) -> np.ndarray:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with ec.Stream(cluster, adapt=False, seed=SEED, record=path, progress=False, **options) as stream:
            stream.submit(job).result()
        return np.array([seen.end - seen.start for seen in read_record(path).rounds[1:]])


if __name__ == "__main__":
    print(report())
