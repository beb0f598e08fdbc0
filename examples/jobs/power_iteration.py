"""The main axis of a cloud of points, by power iteration: X^T X v is a sum over chunks of rows, and X^T X never built.

The state holds what `until` looks at, here how far the last step turned the vector.
"""

from functools import partial

import numpy as np

import echelon as ec

CHUNKS = 9
State = dict[str, np.ndarray]


def data(seed: int, rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points, shape (rows, features), that spread less along each further axis, and a vector to begin with."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.standard_normal((features, features)))
    points = rng.standard_normal((rows, features)) * 0.7 ** np.arange(features) @ axes
    return points, np.full(features, features**-0.5)


def multiply(state: State, points: np.ndarray) -> np.ndarray:
    """Return a chunk's share of the product with the vector; runs on the workers."""
    return points.T @ (points @ state["vector"])


def normalise(state: State, total: np.ndarray) -> State:
    """Return the next vector, of length 1; its eigenvalue is the length that the product had. Runs on the master."""
    value = np.linalg.norm(total)
    return {"vector": total / value, "value": value, "turned": np.linalg.norm(total / value - state["vector"])}


def settled(state: State, *, least: float) -> bool:
    """Return whether the last step hardly turned the vector."""
    return bool(state["turned"] < least)


def job(seed: int = 1, rows: int = 2000, features: int = 10, least: float = 1e-8) -> ec.SumJob:
    """Return the job: a chunk is a piece of the points."""
    points, begin = data(seed, rows, features)
    return ec.SumJob(
        partial=multiply,
        update=normalise,
        state={"vector": begin, "value": 0.0, "turned": np.inf},
        chunks=np.array_split(points, CHUNKS),
        until=partial(settled, least=least),
        name="power iteration",
    )


def plain(seed: int = 1, rows: int = 2000, features: int = 10, least: float = 1e-8) -> tuple[State, int]:
    """Return the same state from one process, with X^T X built, and the number of iterations."""
    points, vector = data(seed, rows, features)
    covariance = points.T @ points
    turned, iterations = np.inf, 0
    while turned >= least:
        product = covariance @ vector
        value = np.sqrt(product @ product)
        vector, before = product / value, vector
        turned = np.sqrt(((vector - before) ** 2).sum())
        iterations += 1
    return {"vector": vector, "value": value, "turned": turned}, iterations


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
