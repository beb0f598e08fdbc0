"""Training on real processes, one of them slow and two that die: the losses of a plain loop."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

import echelon as ec
from echelon.errors import ArgumentError
from echelon.stream import Handle
from echelon.torch import CodedGradient, train
from tests.torch.networks import (
    Deadly,
    convolutions,
    digits,
    perceptron,
    plain_training,
    threads_seen,
)

STEPS = 30
CROSS = nn.CrossEntropyLoss()
DATA = digits()
OPTIMIZERS = {
    "momentum": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3),
    "Adam": lambda model: torch.optim.Adam(model.parameters(), lr=5e-3),
}


def one_slow(workers=6):
    """Workers that take a millisecond for a row, and one that takes fifty times as long."""
    listed = [ec.Worker(f"w{i}", mean=5e-2 if i == 0 else 1e-3, std=1e-4) for i in range(workers)]
    job = ec.Workload(critical=4, redundancy=1.5, iterations=1, arrivals=ec.Arrivals.poisson(1.0))
    return ec.Profile(job, listed)


@pytest.fixture(scope="module")
def processes():
    """One stream for all: workers take a while to load torch."""
    with ec.Stream("processes", redundancy=1.5, emulate=one_slow(), adapt=False) as stream:
        yield stream


def plain(model, optimizer, coded, data=DATA, steps=STEPS):
    return plain_training(model, CROSS, data, OPTIMIZERS[optimizer](model), coded, steps)


@pytest.mark.parametrize(("make", "optimizer"), [(perceptron, "momentum"), (convolutions, "Adam")])
def test_losses_are_those_of_a_plain_loop_though_workers_are_slow_and_die(processes, make, optimizer, tmp_path):
    model, armed = make(), tmp_path / "armed"
    other, losses = deepcopy(model), []
    stepping = OPTIMIZERS[optimizer](model)
    cluster = processes._cluster
    with CodedGradient(model, Deadly(armed), DATA, stream=processes, batch_size=64, seed=3) as coded:
        for step in range(STEPS):
            if step == 10:
                cluster.kill(max(cluster.pids()))
            if step == 20:
                armed.touch()  # whoever comes to its loss first dies of it
            stepping.zero_grad()
            losses.append(float(coded.backward()))
            stepping.step()
        assert not armed.exists()
        wanted = plain(other, optimizer, coded)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    assert wanted[-1] < 0.8 * wanted[0]


def test_workers_compute_on_one_thread(processes):
    with CodedGradient(perceptron(), threads_seen, DATA, stream=processes) as coded:
        assert float(coded.backward()) == pytest.approx(1.0)


def test_data_travels_once(processes, monkeypatch):
    loads = []
    load = processes._cluster.load
    monkeypatch.setattr(processes._cluster, "load", lambda key, work: (loads.append(key), load(key, work)))
    model = perceptron()
    train(model, CROSS, DATA, OPTIMIZERS["Adam"](model), stream=processes, steps=5, batch_size=50)
    assert len(loads) == 1


def test_an_interrupted_step_leaves_nothing_behind(processes, monkeypatch):
    model = perceptron()
    with CodedGradient(model, CROSS, DATA, stream=processes) as coded:
        with monkeypatch.context() as patch:
            patch.setattr(Handle, "result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                coded.backward()
        assert coded.step == 0
        coded.backward()
    assert not list(processes.deliveries())


def interrupted(handle, timeout=None):
    raise KeyboardInterrupt


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_float64_on_threads_is_equal_to_ten_digits(optimizer):
    model, data, said = convolutions(torch.float64), digits(np.float64), []
    other = deepcopy(model)
    with ec.Stream("threads", workers=5, redundancy=1.3) as stream:
        found = train(
            model, CROSS, data, OPTIMIZERS[optimizer](model), stream=stream, steps=STEPS, batch_size=64, seed=3,
            callback=lambda step, value: said.append((step, value)),
        )  # fmt: skip
        with CodedGradient(other, CROSS, data, stream=stream, batch_size=64, seed=3) as coded:
            wanted = plain(other, optimizer, coded, data)
    np.testing.assert_allclose(found.losses, wanted, rtol=1e-10)
    assert said == list(enumerate(found.losses))
    for one, expected in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.allclose(one, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("cluster", ["threads", "processes"])
def test_one_worker_without_redundancy_is_a_plain_loop_elsewhere(cluster):
    model = perceptron()
    other = deepcopy(model)
    losses = train(
        model, CROSS, DATA, OPTIMIZERS["momentum"](model), steps=5, batch_size=64, cluster=cluster, workers=1,
        redundancy=1.0,
    ).losses  # fmt: skip
    with ec.Stream("threads", workers=1) as stream, CodedGradient(
        other, CROSS, DATA, stream=stream, batch_size=64
    ) as coded:  # fmt: skip
        np.testing.assert_allclose(losses, plain(other, "momentum", coded, steps=5), rtol=1e-5)


def test_narrow_messages_train_as_well():
    model = perceptron()
    losses = train(
        model, CROSS, DATA, OPTIMIZERS["momentum"](model), steps=40, batch_size=100, messages="bfloat16",
        cluster="threads", workers=4, redundancy=1.3,
    ).losses  # fmt: skip
    other = perceptron()
    exact = train(
        other, CROSS, DATA, OPTIMIZERS["momentum"](other), steps=40, batch_size=100, cluster="threads", workers=4
    ).losses
    np.testing.assert_allclose(losses, exact, rtol=0.1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"steps": 0}, "steps: 0 is not allowed"),
        ({"optimizer": 3}, "optimizer: int is not allowed; must be one of torch.optim"),
        ({"callback": 3}, "callback: 3 is not allowed"),
        ({"stream": None, "workers": 0}, "workers: 0 is not allowed"),
        ({"workers": 2, "redundancy": 1.5}, "workers, redundancy: not allowed together with a stream"),
    ],
)
def test_training_that_can_not_be_is_refused(given, said):
    model = perceptron()
    with ec.Stream("threads", workers=1) as stream:
        arguments = {"optimizer": OPTIMIZERS["Adam"](model), "steps": 1, "stream": stream} | given
        with pytest.raises(ArgumentError, match=said):
            train(model, CROSS, DATA, **arguments)
