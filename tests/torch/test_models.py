"""Models in all their forms and types: what a cluster finds is what a plain loop over the same chunks finds."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import echelon as ec
from echelon.torch import CodedGradient, parameters
from echelon.torch.models import Models
from echelon.torch.sources import At
from tests.torch.networks import Tied, chunk_by_chunk, digits, near, parts_of, perceptron

CROSS, MSE = nn.CrossEntropyLoss(), nn.MSELoss()
DATA, WIDE = digits(), digits(np.float64)


class Averaged(nn.Module):
    """A loss that torch's autocast leaves narrow."""

    reduction = "mean"

    def forward(self, outputs, targets):
        return (outputs.mean(1) * targets).mean() * 0.1


def casting(dtype, loss=CROSS):
    def plain(model, parts, data, scale=1.0):
        model.zero_grad()
        whole, total = sum(map(len, parts)), 0.0
        for part in parts:
            with torch.autocast("cpu", dtype):
                value = loss(model(torch.as_tensor(data[0])[part]), torch.as_tensor(data[1])[part])
            value = value.float() * (len(part) / whole)
            (value * scale).backward()
            total += float(value.detach())
        return total

    return plain


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cluster", ["stream", "plain_stream"])
def test_passes_cast_as_autocast_does(cluster, dtype, request):
    stream, model = request.getfixturevalue(cluster), perceptron()
    other = deepcopy(model)
    with CodedGradient(model, CROSS, DATA, stream=stream, batch_size=60, autocast=dtype) as coded:
        for step in range(2):
            wanted = casting(dtype)(other, parts_of(coded, step), DATA)
            model.zero_grad()
            # with redundancy passes are over other sums of samples, which are rounded in other ways
            precise = (1e-6 if cluster == "plain_stream" else 8 * 2.0**-8) * (1 if dtype == torch.bfloat16 else 0.5)
            assert float(coded.backward()) == pytest.approx(wanted, rel=precise)
            near(model, other, precise)
    exact = deepcopy(model)
    chunk_by_chunk(exact, CROSS, DATA, [coded.batch(1)])
    differ = max(float((one.grad - two.grad).abs().max()) for one, two in zip(
        model.parameters(), exact.parameters(), strict=True))  # fmt: skip
    assert differ > 1e-6  # something was cast


def test_narrow_losses_are_scaled_in_float32(plain_stream):
    """A float16 loss times 65536 would be inf, as it is not with a scaler of torch."""
    model = perceptron()
    other, scaler = deepcopy(model), torch.amp.GradScaler("cpu")
    data = DATA[0], DATA[1].astype(np.float32)
    loss = Averaged()
    with CodedGradient(model, loss, data, stream=plain_stream, batch_size=60, autocast=torch.float16) as coded:
        value = coded.backward(scaler=scaler)
        wanted = casting(torch.float16, loss)(other, parts_of(coded, 0), data, 65536.0)
    assert float(value) == pytest.approx(wanted, rel=1e-6)
    near(model, other, 1e-5)
    assert all(bool(weight.grad.isfinite().all()) for weight in model.parameters())


@pytest.mark.parametrize("cluster", ["stream", "plain_stream"])
def test_a_scaler_skips_a_step_that_overflows_and_takes_half_the_scale(cluster, request):
    """With redundancy, too: rows that add and subtract inf are NaN, and the round is done again without a code.

    Rows of several chunks may then overflow at half the scale, or a quarter, at which no single chunk does.
    """
    stream, model = request.getfixturevalue(cluster), perceptron()
    with torch.no_grad():
        model[0].weight *= 0.01
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler, scale = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=3), 2.0**24
    plainly, changes = [], []
    with CodedGradient(model, CROSS, DATA, stream=stream, batch_size=60, autocast=torch.float16) as coded:
        for step in range(11):
            other, before = deepcopy(model), deepcopy(model.state_dict())
            wanted = casting(torch.float16)(other, parts_of(coded, step), DATA, scale)
            plainly.append(all(bool(weight.grad.isfinite().all()) for weight in other.parameters()))
            optimizer.zero_grad()
            assert float(coded.backward(scaler=scaler)) == pytest.approx(wanted, rel=2e-3)
            taken = all(bool(weight.grad.isfinite().all()) for weight in model.parameters())
            if taken and plainly[-1]:
                near(model, other, 2e-2)
            scaler.step(optimizer)
            scaler.update()
            stayed = all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
            assert stayed is not taken
            changes.append(scaler.get_scale() / scale)
            scale = scaler.get_scale()
            assert (changes[-1] == 0.5) is not taken
            assert taken <= plainly[-1]  # what overflows in a plain loop does so here
            if cluster == "plain_stream":
                assert taken is plainly[-1]
    assert changes[0] == 0.5
    assert 2.0 in changes


def test_narrow_parameters_beside_wide_frozen_ones(stream):
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10).bfloat16())
    model[0].requires_grad_(False)
    model.insert(2, Narrowing())
    other = deepcopy(model)
    with CodedGradient(model, CROSS, DATA, stream=stream, batch_size=60) as coded:
        wanted = chunk_by_chunk(other, CROSS, DATA, parts_of(coded, 0))
        assert float(coded.backward()) == pytest.approx(wanted, rel=2**-7)
    assert model[3].weight.grad.dtype == torch.bfloat16
    near(model, other, 8 * 2**-8)


class Narrowing(nn.Module):
    def forward(self, inputs):
        return inputs.bfloat16()


@pytest.mark.parametrize("cluster", ["stream", "processes"])
def test_models_all_of_bfloat16(cluster, request):
    stream, model = request.getfixturevalue(cluster), perceptron(torch.bfloat16)
    data = torch.as_tensor(DATA[0]).bfloat16(), torch.as_tensor(DATA[1])
    other = deepcopy(model)
    # as arrays NumPy has no such type: workers are handed the batch
    with CodedGradient(model, CROSS, None, stream=stream) as coded:
        wanted = chunk_by_chunk(other, CROSS, data, [np.arange(0, 30), np.arange(30, 60)])
        assert float(coded.backward((data[0][:60], data[1][:60]))) == pytest.approx(wanted, rel=2**-7)
    near(model, other, 8 * 2**-8)


class Recomputed(nn.Module):
    """Layers whose activations are computed again in the pass back."""

    def __init__(self, *inner, reentrant):
        super().__init__()
        self.first, self.inner = nn.Linear(64, 32), nn.Sequential(*inner)
        self.last, self.reentrant, self.on = nn.Linear(32, 10), reentrant, True

    def forward(self, inputs):
        inputs = torch.tanh(self.first(inputs))
        if self.on:
            return self.last(checkpoint(self.inner, inputs, use_reentrant=self.reentrant))
        return self.last(self.inner(inputs))


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("kind", ["norm", "dropout"])
def test_activations_may_be_computed_again(stream, kind, reentrant):
    """Statistics change as without: the second pass over the same samples is no news."""
    torch.manual_seed(9)
    inner = nn.BatchNorm1d(32) if kind == "norm" else nn.Dropout(0.4)
    model = Recomputed(nn.Linear(32, 32), inner, nn.Tanh(), reentrant=reentrant).double()
    other = deepcopy(model)
    other.on = False
    with CodedGradient(model, CROSS, WIDE, stream=stream, batch_size=60, seed=5) as coded:
        for step in range(2):
            wanted = chunk_by_chunk(other, CROSS, WIDE, parts_of(coded, step), 5, step)
            model.zero_grad()
            assert float(coded.backward()) == pytest.approx(wanted, rel=1e-10)
            near(model, other, 1e-9)
            for mine, theirs in zip(model.buffers(), other.buffers(), strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def counted(compiled):
    """A backend of torch.compile that notes each graph it is given."""

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    return backend


def test_a_worker_compiles_a_model_once():
    torch.compiler.reset()
    model, graphs = perceptron(torch.float64), []
    other = deepcopy(model)
    options = {"backend": counted(graphs)}
    with (
        ec.Stream("threads", workers=1) as stream,
        CodedGradient(model, CROSS, WIDE, stream=stream, batch_size=60, compiled=options) as coded,
    ):
        for step in range(5):
            wanted = chunk_by_chunk(other, CROSS, WIDE, parts_of(coded, step))
            model.zero_grad()
            assert float(coded.backward()) == pytest.approx(wanted, rel=1e-10)
            near(model, other, 1e-9)
            with torch.no_grad():
                for one, two in zip(model.parameters(), other.parameters(), strict=True):
                    one -= 0.1 * one.grad
                    two.copy_(one)
    assert len(graphs) == 1


def test_one_compiled_model_takes_the_numbers_of_states_that_lie_in_several_places():
    """Worker processes find the states of a stream in two or three places in turn, mapped so that they can't write."""
    torch.manual_seed(2)
    model, graphs = nn.Linear(64, 300), []
    models, inputs = Models(parameters.hull(model), {"backend": counted(graphs)}), torch.rand(3, 64)
    torch.compiler.reset()
    for step in range(3):
        with torch.no_grad():
            model.weight += 1.0
        state = parameters.state(parameters.Walk(model), At(step))
        read_only = tuple(np.frombuffer(array.tobytes(), array.dtype) for array in state.tensors)
        loaded = models.of(state._replace(tensors=read_only), torch.device("cpu"))
        torch.testing.assert_close(loaded(inputs), model(inputs))
    assert len(graphs) == 1


def test_tied_and_frozen_weights_and_groups_of_parameters(stream):
    model, data = Tied(), (DATA[0], DATA[0])
    model.unused.requires_grad_(False)
    other = deepcopy(model)
    pairs = []
    with CodedGradient(model, MSE, data, stream=stream, batch_size=60) as coded:
        for one in (model, other):
            groups = [{"params": [one.inner.weight], "lr": 0.5}, {"params": one.unused.parameters(), "lr": 0.1}]
            optimizer = torch.optim.SGD(groups, momentum=0.9)
            for step in range(3):
                optimizer.zero_grad()
                coded.backward() if one is model else chunk_by_chunk(one, MSE, data, parts_of(coded, step))
                optimizer.step()
            pairs.append(list(one.parameters()))
    for one, two in zip(*pairs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


def test_statistics_are_those_of_a_plain_loop_though_workers_die(processes):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10)).double()
    other, cluster = deepcopy(model), processes._cluster
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9) for one in (model, other)]
    with CodedGradient(model, CROSS, WIDE, stream=processes, batch_size=60) as coded:
        for step in range(8):
            if step in (2, 5):
                cluster.kill(max(cluster.pids()))
            for optimizer in optimizers:
                optimizer.zero_grad()
            wanted = chunk_by_chunk(other, CROSS, WIDE, parts_of(coded, step))
            assert float(coded.backward()) == pytest.approx(wanted, rel=1e-8)
            for optimizer in optimizers:
                optimizer.step()
    for mine, theirs in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-9)
