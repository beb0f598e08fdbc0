"""Example 2 emulated by an engine: iterations against the exact prediction."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import echelon as ec
from echelon.stream import read_record

ROOT = Path(__file__).parents[1]
SCALE = 0.3  # of the paper's times: an iteration takes 228 ms and more


def normalised(state: np.ndarray, product: np.ndarray) -> np.ndarray:
    return product / (1.0 + np.abs(product).max())


def emulated_rows(cluster: str, name: str, iterations: int) -> list[list[str]]:
    """Return measured against predicted iteration times, both splits, on a cluster that tables call `name`."""
    profile = ec.read_profile(ROOT / "examples" / "example2.toml").scaled(SCALE)
    matrix = np.random.default_rng(1).standard_normal((500, 500)) / 500**0.5
    rows = []
    for rule in ("theorem2", "uniform"):
        plan = ec.schemes.any_k(ec.split_rows(profile, rule).counts, profile.workload.critical)
        expected = ec.predict_jobs(plan, profile).iteration_mean
        job = ec.LinearJob(matrix=matrix, parts=50, state=np.ones(500), update=normalised, iterations=iterations)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "run"
            with ec.Stream(cluster, emulate=profile, profile=profile, split=rule, adapt=False, record=path) as stream:
                stream.submit(job).result()
            times = np.array([seen.end - seen.start for seen in read_record(path).rounds])
        rows.append(
            [
                f"{name}: Example 2 emulated, {rule} split, an iteration against the exact prediction",
                f"{len(times)} iterations",
                f"{1e3 * times.mean():.1f} ± {1e3 * times.std() / len(times) ** 0.5:.1f} ms",
                f"{1e3 * expected:.1f} ms",
                f"{100 * (times.mean() / expected - 1):+.1f} %",
            ]
        )
    return rows
