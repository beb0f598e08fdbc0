"""Logistic regression by gradient descent: the gradient is a sum over chunks of the data, the weights are the state."""

from functools import partial

import numpy as np

import echelon as ec

CHUNKS = 12


def data(seed: int, rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points, shape (rows, features), and their labels, 0.0 or 1.0, some of which are on the wrong side."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((rows, features))
    heights = points @ rng.standard_normal(features) + 0.5 * rng.standard_normal(rows)
    return points, (heights > 0).astype(float)


def gradient(weights: np.ndarray, chunk: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return a chunk's share of the gradient; runs on the workers."""
    points, labels = chunk
    return points.T @ (1 / (1 + np.exp(-points @ weights)) - labels)


def descend(weights: np.ndarray, total: np.ndarray, *, rate: float) -> np.ndarray:
    """Take a step against the whole gradient; runs on the master."""
    return weights - rate * total


def job(seed: int = 1, rows: int = 3000, features: int = 8, iterations: int = 40) -> ec.SumJob:
    """Return the job: a chunk is a piece of the points with their labels."""
    points, labels = data(seed, rows, features)
    return ec.SumJob(
        partial=gradient,
        update=partial(descend, rate=2 / rows),
        state=np.zeros(features),
        chunks=list(zip(np.array_split(points, CHUNKS), np.array_split(labels, CHUNKS), strict=True)),
        iterations=iterations,
        name="logistic regression",
    )


def plain(seed: int = 1, rows: int = 3000, features: int = 8, iterations: int = 40) -> tuple[np.ndarray, int]:
    """Return the same weights from one process, and the number of iterations."""
    points, labels = data(seed, rows, features)
    weights = np.zeros(features)
    for _ in range(iterations):
        chances = (1 + np.tanh(points @ weights / 2)) / 2
        weights = weights - 2 * ((chances - labels)[:, None] * points).mean(axis=0)
    return weights, iterations


def main() -> None:
    """Run the job on two processes."""
    with ec.Stream(workers=2) as stream:
        delivery = stream.submit(job()).delivery()
    weights, _ = plain()
    print(
        f"{delivery.name}: delay {delivery.delay:.3f} s, {delivery.iterations} iterations, "
        f"error {delivery.error_estimate.relative_to_terms:.1e} of the terms"
    )
    print(f"largest difference from plain NumPy: {np.abs(delivery.result - weights).max():.1e}")


if __name__ == "__main__":
    main()
