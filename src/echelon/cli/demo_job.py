"""The job of `echelon demo`: a classifier of digits, drawn here with noise, so that no data has to be shipped.

Ridge regression on random features by gradient steps. An iteration multiplies one fixed matrix, the Gram matrix of the
features, by the weights of the ten classes, and that product is what the workers share.
"""

from functools import cache, partial

import numpy as np

from echelon.arrays import FloatArray, IntArray
from echelon.jobs import LinearJob
from echelon.seeds import place_generator

FEATURES, PARTS, STEPS, PENALTY = 500, 50, 10, 0.01
LEARN, TEST = 1400, 400

# digits as displays of 5 x 7 dots show them: one number per row of dots, its bits from left to right
_GLYPHS = (
    (14, 17, 19, 21, 25, 17, 14), (4, 12, 4, 4, 4, 4, 14), (14, 17, 1, 2, 4, 8, 31), (31, 2, 4, 2, 1, 17, 14),
    (2, 6, 10, 18, 31, 2, 2), (31, 16, 30, 1, 1, 17, 14), (6, 8, 16, 30, 17, 17, 14), (31, 1, 2, 4, 8, 8, 8),
    (14, 17, 17, 14, 17, 17, 14), (14, 17, 17, 15, 1, 2, 12),
)  # fmt: skip


def drawn_digits(count: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return pictures of digits, shape (count, 63), each at a random place and with noise, and which they are."""
    dots = np.array([[[row >> bit & 1 for bit in range(4, -1, -1)] for row in rows] for rows in _GLYPHS], dtype=float)
    labels = rng.integers(0, 10, count)
    pictures = rng.normal(scale=0.2, size=(count, 9, 7))
    for picture, label, (down, right) in zip(pictures, labels, rng.integers(0, 3, (count, 2)), strict=True):
        picture[down : down + 7, right : right + 5] += dots[label]
    return pictures.reshape(count, -1), labels


@cache
def data() -> tuple[FloatArray, IntArray, FloatArray, IntArray]:
    """Return random features and classes, of the digits to learn from and of those to test on."""
    rng = place_generator(1, 0)
    pictures, labels = drawn_digits(LEARN + TEST, rng)
    waves = rng.standard_normal((pictures.shape[1], FEATURES)) / 3
    features = np.cos(pictures @ waves + rng.uniform(0, 2 * np.pi, FEATURES)) * np.sqrt(2 / FEATURES)
    features -= features[:LEARN].mean(axis=0)
    return features[:LEARN], labels[:LEARN], features[LEARN:], labels[LEARN:]


@cache
def problem() -> tuple[FloatArray, FloatArray, float]:
    """Return the Gram matrix, the goal, and the largest eigenvalue of the matrix."""
    features, labels, _, _ = data()
    gram = features.T @ features
    return gram, features.T @ (np.eye(10)[labels] - 0.1), float(np.linalg.eigvalsh(gram)[-1])


def step(goal: FloatArray, largest: float, weights: FloatArray, product: FloatArray) -> FloatArray:
    """Return the weights after one gradient step for (G + penalty) W = B."""
    moved: FloatArray = weights - (product + PENALTY * weights - goal) / (largest + PENALTY)
    return moved


def job() -> LinearJob:
    """Return the job that trains the classifier."""
    gram, goal, largest = problem()
    return LinearJob(
        matrix=gram,
        parts=PARTS,
        update=partial(step, goal, largest),
        state=np.zeros((FEATURES, 10)),
        iterations=STEPS,
        name="digits",
    )


def plain() -> FloatArray:
    """Return what one process gets from the same steps."""
    gram, goal, largest = problem()
    weights: FloatArray = np.zeros((FEATURES, 10))
    for _ in range(STEPS):
        weights = step(goal, largest, weights, gram @ weights)
    return weights


def accuracy(weights: FloatArray) -> float:
    """Return the share of the test digits that a model gets right."""
    _, _, features, labels = data()
    return float(((features @ weights).argmax(axis=1) == labels).mean())
