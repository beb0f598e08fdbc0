"""Workers that compute on a GPU, where there is one: gradients of torch on the same device."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

import echelon as ec
from echelon.torch import CodedGradient
from tests.torch.networks import (
    chunk_by_chunk,
    convolutions,
    digits,
    near,
    parts_of,
    perceptron,
    plain_gradient,
    plain_training,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")

CROSS = nn.CrossEntropyLoss()
DATA = digits(np.float64)


@pytest.mark.parametrize("cluster", ["threads", "processes"])
@pytest.mark.parametrize("home", ["cpu", "cuda"])
def test_gradients_come_back_to_where_the_model_is(cluster, home):
    model = convolutions(torch.float64).to(home)
    data = [torch.as_tensor(some).to(home) for some in DATA]
    with (
        ec.Stream(cluster, workers=3, redundancy=1.5) as stream,
        CodedGradient(model, CROSS, DATA, stream=stream, batch_size=50, device="cuda") as coded,
    ):
        for step in range(3):
            wanted, value = plain_gradient(model, CROSS, data, coded.batch(step))
            model.zero_grad()
            found = coded.backward()
            assert found.device.type == home
            assert float(found) == pytest.approx(float(value), rel=1e-10)
            for weight, expected in zip(model.parameters(), wanted, strict=True):
                assert weight.grad.device == weight.device
                assert torch.allclose(weight.grad, expected, rtol=1e-8, atol=1e-11)


def test_dropout_draws_the_masks_of_step_and_chunk():
    model = perceptron(torch.float64, nn.Dropout(0.4)).cuda()
    other = deepcopy(model)
    data = [torch.as_tensor(some).cuda() for some in DATA]
    states = torch.get_rng_state(), torch.cuda.get_rng_state()
    with (
        ec.Stream("threads", workers=4, redundancy=1.4) as stream,
        CodedGradient(model, CROSS, DATA, stream=stream, batch_size=60, seed=9, device="cuda") as coded,
    ):
        optimizers = [torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9) for one in (model, other)]
        found = []
        for _ in range(5):
            optimizers[0].zero_grad()
            found.append(float(coded.backward()))
            optimizers[0].step()
        wanted = plain_training(other, CROSS, data, optimizers[1], coded, 5, seed=9)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert all(
        (now == then).all()
        for now, then in zip((torch.get_rng_state(), torch.cuda.get_rng_state()), states, strict=True)
    )


def test_statistics_over_batches_are_collected_by_chunk():
    layers = nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 10)
    model = nn.Sequential(*layers).double().cuda()
    other, data = deepcopy(model), [torch.as_tensor(some).cuda() for some in DATA]
    with (
        ec.Stream("processes", workers=3, redundancy=1.5) as stream,
        CodedGradient(model, CROSS, DATA, stream=stream, batch_size=60, device="cuda") as coded,
    ):
        for step in range(3):
            value = chunk_by_chunk(other, CROSS, data, parts_of(coded, step))
            model.zero_grad()
            assert float(coded.backward()) == pytest.approx(value, rel=1e-9)
            near(model, other, 1e-9)
            for mine, theirs in zip(model.buffers(), other.buffers(), strict=True):
                assert torch.allclose(mine.double(), theirs.double(), rtol=1e-9)


@pytest.mark.parametrize(("kind", "precise"), [(torch.bfloat16, 0.02), (torch.float16, 0.003)])
def test_autocast_computes_what_a_plain_loop_does_on_the_same_chunk(kind, precise):
    model, arrays = convolutions().cuda(), digits()
    other, (inputs, targets) = deepcopy(model), [torch.as_tensor(some).cuda() for some in arrays]
    with (
        ec.Stream("processes", workers=1) as stream,
        CodedGradient(model, CROSS, arrays, stream=stream, batch_size=50, device="cuda", autocast=kind) as coded,
    ):
        for step in range(3):
            numbers = coded.batch(step)
            with torch.autocast("cuda", kind):
                value = CROSS(other(inputs[numbers]), targets[numbers])
            other.zero_grad()
            value.backward()
            model.zero_grad()
            assert float(coded.backward()) == pytest.approx(float(value.detach()), rel=precise)
            near(model, other, precise)
