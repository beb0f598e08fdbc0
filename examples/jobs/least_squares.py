"""Least squares by gradient descent on the normal equations: the Gram matrix stays, only the solution changes."""

from functools import partial

import numpy as np

import echelon as ec

PARTS = 6


def data(seed: int, rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a tall matrix, shape (rows, features), and the values that it is to explain, shape (rows,)."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((rows, features))
    return matrix, matrix @ rng.standard_normal(features) + 0.1 * rng.standard_normal(rows)


def descend(solution: np.ndarray, product: np.ndarray, *, wanted: np.ndarray, rate: float) -> np.ndarray:
    """Take a step from the Gram matrix times the solution towards what it should be; runs on the master."""
    return solution - rate * (product - wanted)


def job(seed: int = 1, rows: int = 600, features: int = 40, iterations: int = 40) -> ec.LinearJob:
    """Return the job: the solution is the state, and the vector that is multiplied."""
    matrix, values = data(seed, rows, features)
    return ec.LinearJob(
        matrix=matrix.T @ matrix / rows,
        update=partial(descend, wanted=matrix.T @ values / rows, rate=0.7),
        state=np.zeros(features),
        parts=PARTS,
        iterations=iterations,
        name="least squares",
    )


def plain(seed: int = 1, rows: int = 600, features: int = 40, iterations: int = 40) -> tuple[np.ndarray, int]:
    """Return the same solution from one process, by the residual of all rows, and the number of iterations."""
    matrix, values = data(seed, rows, features)
    solution = np.zeros(features)
    for _ in range(iterations):
        solution = solution + 0.7 * (matrix.T @ (values - matrix @ solution)) / rows
    return solution, iterations


def main() -> None:
    """Run the job on two processes."""
    with ec.Stream(workers=2) as stream:
        delivery = stream.submit(job()).delivery()
    solution, _ = plain()
    print(
        f"{delivery.name}: delay {delivery.delay:.3f} s, {delivery.iterations} iterations, "
        f"error {delivery.error_estimate.relative_to_terms:.1e} of the terms"
    )
    print(f"largest difference from plain NumPy: {np.abs(delivery.result - solution).max():.1e}")


if __name__ == "__main__":
    main()
