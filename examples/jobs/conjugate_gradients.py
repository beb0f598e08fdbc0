"""Conjugate gradients for a positive definite matrix: the state is a tuple, and `vector` picks the direction of it."""

from functools import partial

import numpy as np

import echelon as ec

PARTS = 10
State = tuple[np.ndarray, np.ndarray, np.ndarray, float]  # solution x, residual r, direction p, r @ r


def data(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a matrix with eigenvalues from 1 to 10 and the right-hand side."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.standard_normal((size, size)))
    return axes * np.geomspace(1, 10, size) @ axes.T, rng.standard_normal(size)


def direction(state: State) -> np.ndarray:
    """Return what the matrix is multiplied by."""
    return state[2]


def step(state: State, product: np.ndarray) -> State:
    """Go along the direction as far as it pays, and choose the next one; runs on the master."""
    x, r, p, rs = state
    alpha = rs / (p @ product)
    x, r = x + alpha * p, r - alpha * product
    left = float(r @ r)
    return x, r, r + left / rs * p, left


def solved(state: State, *, least: float) -> bool:
    """Return whether the residual is short enough."""
    return state[3] ** 0.5 < least


def job(seed: int = 1, size: int = 60, least: float = 1e-7) -> ec.LinearJob:
    """Return the job; it begins at x = 0, where the residual is the right-hand side."""
    matrix, right = data(seed, size)
    return ec.LinearJob(
        matrix=matrix,
        vector=direction,
        update=step,
        state=(np.zeros(size), right, right, float(right @ right)),
        parts=PARTS,
        iterations=10 * size,
        until=partial(solved, least=least),
        name="conjugate gradients",
    )


def plain(seed: int = 1, size: int = 60, least: float = 1e-7) -> tuple[State, int]:
    """Return the same state from one process, and the number of iterations."""
    matrix, right = data(seed, size)
    x, residual, along = np.zeros(size), right, right
    square, iterations = right @ right, 0
    while np.sqrt(square) >= least and iterations < 10 * size:
        length = square / np.einsum("i,ij,j", along, matrix, along)
        x = x + length * along
        residual = residual - length * (matrix @ along)
        square, before = residual @ residual, square
        along = residual + square / before * along
        iterations += 1
    return (x, residual, along, float(square)), iterations


def main() -> None:
    """Run the job on two processes."""
    with ec.Stream(workers=2) as stream:
        delivery = stream.submit(job()).delivery()
    state, _ = plain()
    print(
        f"{delivery.name}: delay {delivery.delay:.3f} s, {delivery.iterations} iterations, "
        f"error {delivery.error_estimate.relative_to_terms:.1e} of the terms"
    )
    print(f"largest difference from plain NumPy: {np.abs(delivery.result[0] - state[0]).max():.1e}")


if __name__ == "__main__":
    main()
