"""Networks by layers: gradients and training equal to plain torch, whichever blocks and workers compute them."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import echelon as ec
from echelon.errors import ArgumentError
from echelon.schemes import block_coordinate
from echelon.torch import Layers

WORKERS = 4
LIMIT_S = 60
LOSS = nn.CrossEntropyLoss(reduction="sum")


def mlp(dtype=torch.float32):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 9), nn.Tanh(), nn.Linear(9, 3)).to(dtype)


def cnn(dtype=torch.float32):
    torch.manual_seed(2)
    features = nn.Sequential(nn.Conv2d(1, 3, 3), nn.GroupNorm(1, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2))
    return nn.Sequential(nn.Unflatten(1, (1, 6, 6)), features, nn.Flatten(), nn.Linear(12, 3)).to(dtype)


def chunks(features, dtype="float32"):
    rng = np.random.default_rng(3)
    return [(rng.standard_normal((5, features)).astype(dtype), rng.integers(0, 3, 5)) for _ in range(WORKERS)]


def plain_gradient(model, data):
    """The derivative of the summed loss, layer 0 first, by one backward pass."""
    inputs, targets = (torch.from_numpy(np.concatenate(some)) for some in zip(*data, strict=True))
    model.zero_grad()
    LOSS(model(inputs), targets).backward()
    owners = [module for module in model.modules() if list(module.parameters(recurse=False))]
    return np.concatenate([w.grad.numpy().ravel() for module in reversed(owners) for w in module.parameters()])


def plain_training(make, data, rate, iterations):
    model = make()
    layers = Layers(model, LOSS)
    for _ in range(iterations):
        layers.load(layers.state() - rate * plain_gradient(model, data))
    return layers.state()


def near(found, wanted, relative):
    return np.abs(found - wanted).max() <= relative * np.abs(wanted).max()


NETWORKS = {"perceptron": (mlp, 6), "convolutions": (cnn, 36)}  # with their features; three layers each


@pytest.mark.parametrize(("make", "features"), NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("levels", [(0, 0, 0), (0, 1, 3), (1, 1, 2), (2, 3, 3), (3, 3, 3)])
def test_blocks_of_every_chunk_sum_up_to_the_gradient_of_torch(make, features, dtype, levels):
    model = make(getattr(torch, dtype))
    job = Layers(model, LOSS).job(
        plan=block_coordinate(WORKERS, levels=levels), chunks=chunks(features, dtype), rate=0.1, iterations=1
    )
    work, request = job.work(job.plan.codes), job.request(job.state)
    found = np.concatenate(
        [sum(work.part(request, b * WORKERS + i) for i in range(WORKERS)) for b in range(len(set(levels)))]
    )
    assert found.dtype == dtype
    assert near(found, plain_gradient(model, chunks(features, dtype)), 1e-5 if dtype == "float32" else 1e-13)


def test_a_block_on_a_chunk_whose_earlier_layers_nobody_asked_for_and_again():
    model = mlp()
    plan = block_coordinate(WORKERS, levels=(0, 1, 2))
    job = Layers(model, LOSS).job(plan=plan, chunks=chunks(6), rate=0.1, iterations=1)
    work, request = job.work(job.plan.codes), job.request(job.state)
    late = [work.part(request, part) for part in (2 * WORKERS, WORKERS, 0, WORKERS)]
    assert (late[1] == late[3]).all()
    assert near(np.concatenate(late[2::-1]), plain_gradient(model, chunks(6)[:1]), 1e-5)


def test_processes_train_as_one_does():
    plan = block_coordinate(WORKERS, levels=(0, 1, 3))
    with ec.Stream("processes", workers=WORKERS) as stream:  # one for all: workers take a while to load torch
        for make, features in NETWORKS.values():
            job = Layers(make(), LOSS).job(plan=plan, chunks=chunks(features), rate=0.01, iterations=4)
            state = stream.submit(job).result(LIMIT_S)
            assert state.dtype == np.float32
            assert near(state, plain_training(make, chunks(features), 0.01, 4), 1e-5)


def test_threads_share_a_network_and_its_rounds():
    data = chunks(6)
    plan = block_coordinate(WORKERS, levels=(1, 2, 3))
    with ec.Stream("threads", workers=WORKERS) as stream:
        job = Layers(mlp(), LOSS).job(plan=plan, chunks=data, update=lambda w, g: w - 0.01 * g, iterations=8)
        state = stream.submit(job).result(LIMIT_S)
    assert near(state, plain_training(mlp, data, 0.01, 8), 1e-5)


def test_chunks_may_be_tensors_or_loaded_by_workers():
    data = [(torch.from_numpy(inputs), torch.from_numpy(targets)) for inputs, targets in chunks(6)]
    plan = block_coordinate(WORKERS, levels=(0, 1, 1))
    results = []
    with ec.Stream("threads", workers=WORKERS) as stream:
        for given in ({"chunks": data}, {"load": data.__getitem__}):
            job = Layers(mlp(), LOSS).job(plan=plan, rate=0.01, iterations=2, **given)
            results.append(stream.submit(job).result(LIMIT_S))
    wanted = plain_training(mlp, chunks(6), 0.01, 2)
    assert all(near(result, wanted, 1e-5) for result in results)


def test_a_state_goes_into_the_model_and_comes_back():
    model = mlp()
    layers = Layers(model, LOSS)
    assert layers.sizes == (30, 117, 84)
    layers.load(np.arange(231, dtype=np.float32))
    assert layers.state().tolist() == list(range(231))
    assert model[4].weight[0].tolist() == list(range(9))  # the last layer comes first
    with pytest.raises(ArgumentError, match=r"state: shape \(3,\) given; must be \(231,\)"):
        layers.load(np.zeros(3))


def test_what_travels_to_workers_can_be_pickled_after_use():
    layers = Layers(mlp(), LOSS)
    layers.measure(chunks(6)[0], repeats=1)
    again = pickle.loads(pickle.dumps(layers))
    assert (again.state() == layers.state()).all()


def test_frozen_parameters_are_no_part_of_the_state():
    model = mlp()
    model[2].requires_grad_(False)
    layers = Layers(model, LOSS)
    assert layers.sizes == (30, 84)
    job = layers.job(plan=block_coordinate(WORKERS, levels=(0, 1)), chunks=chunks(6), rate=0.1, iterations=1)
    work, request = job.work(job.plan.codes), job.request(job.state)
    assert [work.part(request, part).size for part in (0, WORKERS)] == [30, 84]
    assert model[2].weight.grad is None


def test_measured_costs_are_of_every_layer():
    costs = Layers(cnn(), LOSS).measure(chunks(36)[0], repeats=3)
    assert costs.layers == 3
    assert costs.forward > 0
    assert costs.deltas[-1] == 0


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (nn.BatchNorm1d(12), "BatchNorm1d is not allowed while it trains; .*statistics of a batch"),
        (nn.Dropout(0.1), "Dropout is not allowed while it trains; .*without random draws"),
    ],
)
def test_what_depends_on_a_batch_or_on_chance_is_refused_unless_it_only_evaluates(module, said):
    model = nn.Sequential(nn.Linear(6, 12), module, nn.Linear(12, 3))
    with pytest.raises(ArgumentError, match=said):
        Layers(model, LOSS)
    module.eval()
    assert Layers(model, LOSS).sizes[0] == 39


SHARED = nn.Linear(3, 3)


@pytest.mark.parametrize(
    ("model", "loss", "said"),
    [
        (nn.Linear(2, 1), LOSS, "model: Linear is not allowed; must be a torch.nn.Sequential"),
        (nn.Sequential(nn.ReLU()), LOSS, "model: it has no parameters to train"),
        (nn.Sequential(SHARED, nn.ReLU(), SHARED), LOSS, "model: layers that share parameters"),
        (nn.Sequential(nn.Linear(2, 1).half()), LOSS, "must be all float32 or all float64"),
        (nn.Sequential(nn.Linear(2, 1)), nn.CrossEntropyLoss(), "loss: .* must be a function that sums"),
        (nn.Sequential(nn.Linear(2, 1)), 3, "loss: 3 is not allowed"),
    ],
)
def test_networks_that_can_not_be_cut_into_layers_are_refused(model, loss, said):
    with pytest.raises(ArgumentError, match=said):
        Layers(model, loss)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"plan": block_coordinate(WORKERS, levels=(0, 1))}, "plan: .* with 3 layers"),
        ({"rate": None}, "rate, update: one of them must be given"),
        ({"update": lambda w, g: w}, "rate, update: one of them must be given"),
        ({"rate": -1.0}, "rate: -1.0 is not allowed"),
        ({"chunks": [np.zeros(3)] * WORKERS}, r"chunks\[0\]: ndarray is not allowed; must be inputs and targets"),
        ({"chunks": chunks(6)[:3]}, "chunks: 3 are not allowed; must be 4"),
    ],
)
def test_jobs_that_can_not_run_are_refused(arguments, said):
    given = {"plan": block_coordinate(WORKERS, levels=(0, 1, 1)), "chunks": chunks(6), "rate": 0.1, "iterations": 1}
    with pytest.raises(ArgumentError, match=said):
        Layers(mlp(), LOSS).job(**(given | arguments))


def test_without_torch_the_error_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import echelon.torch"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError: echelon.torch needs torch; pip install 'echelon-compute[torch]'" in ended.stderr
