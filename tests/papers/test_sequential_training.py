import gzip

import numpy as np
import pytest

from echelon.papers.sequential_training import (
    PRODUCTS,
    images,
    in_turn,
    loads,
    made_up,
    networks,
    plain,
    train,
)
from echelon.products import MatmulStream
from echelon.schemes import (
    diagonal_interleaved,
    improved_diagonal_interleaved,
    polynomial_products,
    uncoded_products,
)
from echelon.stragglers import Arbitrary

LAYERS, BATCH, ITERATIONS = (30, 7, 9, 10), 12, 4
SCHEMES = {
    "uncoded": uncoded_products(4),
    "polynomial": polynomial_products(4, x=2, y=1),
    "DIP": diagonal_interleaved(4, x=2, y=3, delay=3, tolerance=0.25),
    "IDIP": improved_diagonal_interleaved(4, Arbitrary(count=4, window=4), tolerance=0.25),
}


def pictures(dtype=np.float64):
    return made_up(40, 25, seed=3, pixels=30).astype(dtype)


def by_numpy(dtype=np.float64):
    made = networks(LAYERS, 5, dtype=dtype)
    for network in made:
        plain(train(network, pictures(dtype), BATCH, ITERATIONS))
    return np.array([network.losses for network in made])


def by_stream(scheme, cluster, dtype=np.float64):
    made = networks(LAYERS, 5, dtype=dtype)
    trainings = [train(network, pictures(dtype), BATCH, ITERATIONS) for network in made]
    with MatmulStream(cluster, scheme) as stream:
        products = list(stream.products(in_turn(trainings)))
    assert len(products) == PRODUCTS * len(made) * ITERATIONS
    assert {product.dtype for product in products} == {np.dtype(dtype)}
    return np.array([network.losses for network in made])


@pytest.mark.parametrize("name", SCHEMES)
def test_training_by_coded_products_gives_the_losses_of_plain_training(name):
    np.testing.assert_allclose(by_stream(SCHEMES[name], "threads"), by_numpy(), rtol=1e-8)


def test_training_in_single_precision_keeps_to_it():
    single = by_stream(SCHEMES["DIP"], "threads", np.float32)
    np.testing.assert_allclose(single, by_numpy(np.float32), rtol=1e-4)


def test_training_by_processes_gives_the_same():
    np.testing.assert_allclose(by_stream(SCHEMES["DIP"], "processes"), by_numpy(), rtol=1e-8)


def batch_loss(weights, data):
    layer = data.pixels[:BATCH]
    for some in weights[:-1]:
        layer = np.maximum(layer @ some, 0)
    scores = layer @ weights[-1]
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return -np.log((chances * data.labels[:BATCH]).sum(axis=1)).mean()


def test_a_step_follows_the_gradient_of_the_loss():
    data, (network,) = pictures(), networks(LAYERS, 5, rates=[0.5])
    before = [weights.copy() for weights in network.weights]
    plain(train(network, data, BATCH, 1))
    rng = np.random.default_rng(1)
    for layer, (old, new) in enumerate(zip(before, network.weights, strict=True)):
        direction, size = rng.normal(size=old.shape), 1e-6
        ends = []
        for sign in (1, -1):
            moved = list(before)
            moved[layer] = old + sign * size * direction
            ends.append(batch_loss(moved, data))
        slope = (ends[0] - ends[1]) / (2 * size)
        assert ((old - new) / 0.5 * direction).sum() == pytest.approx(slope, rel=1e-5)


def test_products_take_turns_and_need_only_the_one_five_before():
    made = networks(LAYERS, 5)
    asked, given = [], []

    class Kept(list):
        def __getitem__(self, index):
            asked.append(len(self) - index)
            return super().__getitem__(index)

    results = Kept()
    for first, second in in_turn([train(network, pictures(), BATCH, 2) for network in made])(results):
        given.append(first.shape[0] * first.shape[1] * second.shape[1])
        results.append(first @ second)
    assert given == np.tile(np.repeat(loads(LAYERS, BATCH), 5), 2).tolist()
    # the last five are asked for when there is nothing more to submit
    assert asked == [5] * (len(given) - 5) + [5, 4, 3, 2, 1]
    np.testing.assert_array_equal([network.losses for network in made], by_numpy()[:, :2])


def test_losses_fall():
    losses = by_numpy()
    assert losses.shape == (5, ITERATIONS)
    assert (losses[:, -1] < losses[:, 0]).all()


def test_pictures_are_read_from_files_where_they_are_installed(tmp_path):
    rng = np.random.default_rng(1)
    for part, count in (("train", 6), ("t10k", 4)):
        shown, classes = rng.integers(256, size=(count, 784)), rng.integers(10, size=count)
        for kind, header, values in (("images-idx3", 16, shown), ("labels-idx1", 8, classes)):
            with gzip.open(tmp_path / f"{part}-{kind}-ubyte.gz", "wb") as file:
                file.write(bytes(header) + values.astype(np.uint8).tobytes())
    read = images(5, 3, seed=1, folder=tmp_path)
    assert (read.name, read.pixels.shape, read.tests.shape) == ("Fashion-MNIST", (5, 784), (3, 784))
    np.testing.assert_array_equal(read.tests, shown[:3] / 255)
    np.testing.assert_array_equal(read.test_labels.argmax(axis=1), classes[:3])
    assert images(5, 3, seed=1, folder=tmp_path / "none").name == "pictures made from a seed"
