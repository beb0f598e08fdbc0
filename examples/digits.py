"""Jobs that train a classifier of handwritten digits: ridge regression on random features, by accelerated gradients.

Every job trains with another penalty. An iteration multiplies one fixed matrix, the Gram matrix of the features, by the
weights of the ten classes, and that product is what the workers share. Run it by itself:

    echelon run examples/digits.py:jobs --workers 2
"""

from functools import cache, partial

import numpy as np

import echelon as ec

FEATURES, PARTS, STEPS = 500, 50, 10


@cache
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return random features and classes, of the digits to learn from and of those to test on."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    rng = np.random.default_rng(1)
    order = rng.permutation(len(digits.target))
    pixels, labels = digits.data[order] / 16.0, digits.target[order]
    waves = rng.standard_normal((64, FEATURES)) / 2.0
    features = np.cos(pixels @ waves + rng.uniform(0, 2 * np.pi, FEATURES)) * np.sqrt(2 / FEATURES)
    features -= features[:1400].mean(axis=0)
    return features[:1400], labels[:1400], features[1400:], labels[1400:]


@cache
def problem() -> tuple[np.ndarray, np.ndarray, float]:
    """Return the Gram matrix, the goal, and the largest eigenvalue of the matrix."""
    features, labels, _, _ = data()
    gram = features.T @ features
    return gram, features.T @ (np.eye(10)[labels] - 0.1), float(np.linalg.eigvalsh(gram)[-1])


def start() -> tuple[np.ndarray, np.ndarray, int]:
    """Return the state before the first step: weights, where the gradient is taken, and the number of the step."""
    zeros = np.zeros((FEATURES, 10))
    return zeros, zeros, 0


def point(state: tuple[np.ndarray, np.ndarray, int]) -> np.ndarray:
    """Return what the matrix is to be multiplied by."""
    return state[1]


def step(
    goal: np.ndarray, largest: float, penalty: float, state: tuple[np.ndarray, np.ndarray, int], product: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the state after one step of Nesterov's method for (G + penalty) W = B."""
    old, at, number = state
    weights = at - (product + penalty * at - goal) / (largest + penalty)
    return weights, weights + number / (number + 3) * (weights - old), number + 1


def job(penalty: float) -> ec.LinearJob:
    """Return the job that trains with one penalty."""
    gram, goal, largest = problem()
    return ec.LinearJob(
        matrix=gram,
        parts=PARTS,
        vector=point,
        update=partial(step, goal, largest, penalty),
        state=start(),
        iterations=STEPS,
        name=f"penalty {penalty:.3g}",
    )


def plain(penalty: float) -> np.ndarray:
    """Return what one process gets from the same steps."""
    gram, goal, largest = problem()
    state = start()
    for _ in range(STEPS):
        state = step(goal, largest, penalty, state, gram @ point(state))
    return state[0]


def accuracy(weights: np.ndarray) -> float:
    """Return the share of the test digits that a model gets right."""
    _, _, features, labels = data()
    return float(((features @ weights).argmax(axis=1) == labels).mean())


def jobs() -> list[ec.LinearJob]:
    """Return a sweep of penalties."""
    return [job(float(penalty)) for penalty in np.geomspace(1e-3, 1.0, 8)]
