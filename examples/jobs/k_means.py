"""Lloyd's k-means: workers return sums and counts of each cluster in a dict, and the job ends when the centres rest."""

from functools import partial

import numpy as np

import echelon as ec

CHUNKS = 10
State = dict[str, np.ndarray]


def data(seed: int, rows: int, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points in the plane, shape (rows, 2), around hidden centres, and some of the points to begin with."""
    rng = np.random.default_rng(seed)
    hidden = rng.uniform(-10, 10, (clusters, 2))
    points = hidden[rng.integers(clusters, size=rows)] + 1.5 * rng.standard_normal((rows, 2))
    return points, points[:clusters].copy()


def gather(state: State, points: np.ndarray) -> dict[str, np.ndarray]:
    """Return sum and number of a chunk's points that are nearest to each centre; runs on the workers."""
    squares = ((points[:, None] - state["centres"]) ** 2).sum(axis=2)
    nearest = squares.argmin(axis=1)[:, None] == np.arange(len(state["centres"]))  # shape (points, clusters)
    return {"sums": nearest.T.astype(float) @ points, "counts": nearest.sum(axis=0)}


def move(state: State, total: dict[str, np.ndarray]) -> State:
    """Move each centre to the mean of its points; runs on the master."""
    # decoded counts are whole numbers but for rounding: compare them with a half, and never with 0
    counts = total["counts"][:, None]
    centres = np.where(counts > 0.5, total["sums"] / np.maximum(counts, 0.5), state["centres"])
    return {"centres": centres, "moved": np.abs(centres - state["centres"]).max()}


def at_rest(state: State, *, least: float) -> bool:
    """Return whether the last step moved no centre."""
    return bool(state["moved"] < least)


def job(seed: int = 1, rows: int = 2000, clusters: int = 4, least: float = 1e-6) -> ec.SumJob:
    """Return the job: a chunk is a piece of the points."""
    points, centres = data(seed, rows, clusters)
    return ec.SumJob(
        partial=gather,
        update=move,
        state={"centres": centres, "moved": np.inf},
        chunks=np.array_split(points, CHUNKS),
        iterations=300,
        until=partial(at_rest, least=least),
        name="k-means",
    )


def plain(seed: int = 1, rows: int = 2000, clusters: int = 4, least: float = 1e-6) -> tuple[State, int]:
    """Return the same state from one process, and the number of iterations."""
    points, centres = data(seed, rows, clusters)
    moved, iterations = np.inf, 0
    while moved >= least and iterations < 300:
        nearest = np.linalg.norm(points[:, None] - centres, axis=2).argmin(axis=1)
        before = centres
        centres = np.array(
            [points[nearest == i].mean(axis=0) if (nearest == i).any() else before[i] for i in range(clusters)]
        )
        moved = np.abs(centres - before).max()
        iterations += 1
    return {"centres": centres, "moved": moved}, iterations


def main() -> None:
    """Run the job on two processes."""
    with ec.Stream(workers=2) as stream:
        delivery = stream.submit(job()).delivery()
    state, _ = plain()
    print(
        f"{delivery.name}: delay {delivery.delay:.3f} s, {delivery.iterations} iterations, "
        f"error {delivery.error_estimate.relative_to_terms:.1e} of the terms"
    )
    difference = np.abs(delivery.result["centres"] - state["centres"]).max()
    print(f"largest difference from plain NumPy: {difference:.1e}")


if __name__ == "__main__":
    main()
