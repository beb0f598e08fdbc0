"""Networks that are trained side by side by matrix products alone, as in section 5 of the paper on sequential products.

An iteration of a network is eight products, each of which needs the one before. `train` yields their factors and takes
the products from any source: a stream of coded products (`in_turn`) or NumPy (`plain`). The arithmetic is the same.
"""

import gzip
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from echelon.arrays import FloatArray, NumberArray
from echelon.products import Results

RATES = (0.1, 0.15, 0.2, 0.25, 0.3)  # of learning, one per network
PRODUCTS = 8  # an iteration: three forward, five backward
CLASSES = 10
FASHION = Path("/usr/share/datasets/fashion-mnist")  # where Debian's dataset-fashion-mnist puts it

Pair = tuple[NumberArray, NumberArray]
Training = Generator[Pair, NumberArray, None]


def loads(layers: Sequence[int], batch: int) -> FloatArray:
    """Return the multiplications of numbers in the eight products of an iteration, in order.

    layers: sizes of the input, of both hidden layers and of the output.

    >>> loads((784, 3000, 3000, 10), 1024).round(-9).tolist()[:3]
    [2000000000.0, 9000000000.0, 0.0]
    """
    n, h, k, o = layers
    shapes = [(batch, n, h), (batch, h, k), (batch, k, o)]
    shapes += [(k, batch, o), (batch, o, k), (h, batch, k), (batch, k, h), (n, batch, h)]
    return np.array([float(a) * b * c for a, b, c in shapes])


@dataclass(frozen=True, eq=False)
class Images:
    """Pictures and their classes. pixels, tests: shape (pictures, pixels), from 0 to 1. labels: one-hot."""

    name: str
    pixels: NumberArray
    labels: NumberArray
    tests: NumberArray
    test_labels: NumberArray

    def astype(self, dtype: Any) -> "Images":
        """Return the same pictures in another precision."""
        arrays = (self.pixels, self.labels, self.tests, self.test_labels)
        return Images(self.name, *(array.astype(dtype) for array in arrays))


def images(count: int, tests: int, seed: int, folder: Path = FASHION) -> Images:
    """Return the first pictures of Fashion-MNIST where it is installed, else pictures that are made from a seed."""
    if not (folder / "train-images-idx3-ubyte.gz").exists():
        return made_up(count, tests, seed)
    numbers = {"train": count, "t10k": tests}
    pixels = [_idx(folder / f"{part}-images-idx3-ubyte.gz", 16, 784 * n) / 255 for part, n in numbers.items()]
    labels = [np.eye(CLASSES)[_idx(folder / f"{part}-labels-idx1-ubyte.gz", 8, n)] for part, n in numbers.items()]
    first, second = (some.reshape(-1, 784) for some in pixels)
    return Images("Fashion-MNIST", first, labels[0], second, labels[1])


def _idx(path: Path, header: int, count: int) -> NumberArray:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(header + count), dtype=np.uint8)[header:]


def made_up(count: int, tests: int, seed: int, pixels: int = 784) -> Images:
    """Return noisy pictures of one sparse pattern per class, a weaker one of any class mixed in."""
    rng = np.random.default_rng(seed)
    patterns = rng.random((CLASSES, pixels)) * (rng.random((CLASSES, pixels)) < 0.2)
    classes, others = rng.integers(CLASSES, size=(2, count + tests))
    shown = (0.6 * patterns[classes] + 0.4 * patterns[others]) * rng.random((count + tests, pixels))
    labels = np.eye(CLASSES)[classes]
    return Images("pictures made from a seed", shown[:count], labels[:count], shown[count:], labels[count:])


@dataclass(eq=False)
class Network:
    """Two hidden layers with ReLU, then softmax; no biases. losses: on the test pictures, after each iteration."""

    weights: list[NumberArray]
    rate: float
    losses: list[float] = field(default_factory=list)

    def test_loss(self, data: Images) -> float:
        """Return the mean cross entropy on the test pictures."""
        layer = data.tests
        for weights in self.weights[:-1]:
            layer = np.maximum(layer @ weights, 0)
        return float(-(data.test_labels * _log_softmax(layer @ self.weights[-1])).sum(axis=1).mean())


def networks(
    layers: Sequence[int], seed: int, *, dtype: Any = np.float64, rates: Sequence[float] = RATES
) -> list[Network]:
    """Return one untrained network for each learning rate, with weights of their own."""
    rng = np.random.default_rng(seed)
    made = []
    for rate in rates:
        sizes = list(pairwise(layers))
        made.append(Network([(rng.normal(size=size) * (2 / size[0]) ** 0.5).astype(dtype) for size in sizes], rate))
    return made


def _log_softmax(scores: NumberArray) -> NumberArray:
    shifted = scores - scores.max(axis=1, keepdims=True)
    result: NumberArray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def train(network: Network, data: Images, batch: int, iterations: int) -> Training:
    """Yield the factors of each product and take the product, by `send`; the weights follow."""
    for iteration in range(iterations):
        chosen = np.arange(iteration * batch, (iteration + 1) * batch) % len(data.pixels)
        given, labels = data.pixels[chosen], data.labels[chosen]
        first, second, third = network.weights
        below = yield given, first
        hidden = np.maximum(below, 0)
        above = yield hidden, second
        upper = np.maximum(above, 0)
        scores = yield upper, third
        delta = (np.exp(_log_softmax(scores)) - labels) / scores.dtype.type(batch)
        steps = [(yield upper.T, delta)]
        delta = (yield delta, third.T) * (above > 0)
        steps.append((yield hidden.T, delta))
        delta = (yield delta, second.T) * (below > 0)
        steps.append((yield given.T, delta))
        network.weights = [
            weights - weights.dtype.type(network.rate) * step
            for weights, step in zip(network.weights, reversed(steps), strict=True)
        ]
        network.losses.append(network.test_loss(data))


def in_turn(trainings: Sequence[Training]) -> Callable[[Results], Iterator[Pair]]:
    """Return what `MatmulStream.products` takes: product i belongs to training i mod n, and needs product i - n."""

    def pairs(results: Results) -> Iterator[Pair]:
        going = list(trainings)
        waiting: list[int | None] = [None] * len(going)
        while going:
            for place, training in enumerate(going):
                number = waiting[place]
                try:
                    pair = next(training) if number is None else training.send(results[number])
                except StopIteration:
                    # all trainings are equally long, so the others end in this turn, too
                    waiting[place] = None
                    continue
                waiting[place] = len(results)
                yield pair
            going = [training for training, number in zip(going, waiting, strict=True) if number is not None]

    return pairs


def plain(training: Training) -> None:
    """Run a training with NumPy's own products."""
    try:
        first, second = next(training)
        while True:
            first, second = training.send(first @ second)
    except StopIteration:
        return
