"""The largest eigenvalue of a symmetric matrix by power iteration, until the vector is an eigenvector.

The state is a dict, of which `vector` picks what is multiplied.
"""

from functools import partial

import numpy as np

import echelon as ec

PARTS = 8
State = dict[str, np.ndarray]


def data(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a symmetric matrix with eigenvalue 3, the others at most 0.8 in size, and a vector of length 1."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.standard_normal((size, size)))
    values = 0.8 ** np.arange(size) * rng.choice([-1.0, 1.0], size)
    values[0] = 3.0
    begin = rng.standard_normal(size)
    return axes * values @ axes.T, begin / np.linalg.norm(begin)


def multiplied(state: State) -> np.ndarray:
    """Return the vector of a state."""
    return state["vector"]


def turn(state: State, product: np.ndarray) -> State:
    """Return the next vector, with the eigenvalue of the last one and how far that was from being an eigenvector."""
    value = state["vector"] @ product
    return {
        "vector": product / np.linalg.norm(product),
        "value": value,
        "residual": np.linalg.norm(product - value * state["vector"]),
    }


def found(state: State, *, least: float) -> bool:
    """Return whether the last vector was an eigenvector."""
    return bool(state["residual"] < least * abs(state["value"]))


def job(seed: int = 1, size: int = 60, least: float = 1e-8) -> ec.LinearJob:
    """Return the job: the matrix is cut into blocks of rows, whose number need not divide its size."""
    matrix, begin = data(seed, size)
    return ec.LinearJob(
        matrix=matrix,
        vector=multiplied,
        update=turn,
        state={"vector": begin, "value": 0.0, "residual": np.inf},
        parts=PARTS,
        until=partial(found, least=least),
        name="matrix power iteration",
    )


def plain(seed: int = 1, size: int = 60, least: float = 1e-8) -> tuple[State, int]:
    """Return the same state from one process, and the number of iterations."""
    matrix, vector = data(seed, size)
    value, residual, iterations = 0.0, np.inf, 0
    while residual >= least * abs(value):
        value = np.einsum("i,ij,j", vector, matrix, vector)
        residual = np.linalg.norm((matrix - value * np.eye(size)) @ vector)
        vector = matrix @ vector
        vector = vector / np.sqrt(vector @ vector)
        iterations += 1
    return {"vector": vector, "value": value, "residual": residual}, iterations


def main() -> None:
    """Run the job on two processes."""
    with ec.Stream(workers=2) as stream:
        delivery = stream.submit(job()).delivery()
    state, _ = plain()
    print(
        f"{delivery.name}: delay {delivery.delay:.3f} s, {delivery.iterations} iterations, "
        f"error {delivery.error_estimate.relative_to_terms:.1e} of the terms"
    )
    print(f"largest difference from plain NumPy: {np.abs(delivery.result['vector'] - state['vector']).max():.1e}")


if __name__ == "__main__":
    main()
