"""A coded loss can be passed back like any other: divided, scaled, added to others."""

import pytest
import torch
from torch import nn

import echelon as ec
from echelon.errors import ArgumentError
from echelon.torch import CodedGradient
from tests.torch.networks import Tied, digits, perceptron

CROSS = nn.CrossEntropyLoss()
DATA = tuple(map(torch.as_tensor, digits(samples=24)))


@pytest.fixture(scope="module")
def stream():
    with ec.Stream("threads", workers=3, redundancy=1.4) as one:
        yield one


def gradients(model):
    return [None if weight.grad is None else weight.grad.clone() for weight in model.parameters()]


def check_alike(found, wanted, precise=1e-5):
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=precise, atol=precise)


def test_what_is_done_to_a_loss_is_done_to_its_gradient(stream):
    model = perceptron()

    def whole(loss):
        model.zero_grad()
        ((loss / 4) + model[0].weight.square().sum()).backward()
        return gradients(model)

    with CodedGradient(model, CROSS, None, stream=stream) as coded:
        found = whole(coded.loss(DATA))
    check_alike(found, whole(CROSS(model(DATA[0]), DATA[1])))


def test_losses_add_up_in_gradients_and_a_batch_counts_as_a_step(stream):
    model = perceptron()
    with CodedGradient(model, CROSS, None, stream=stream) as coded:
        first, second = coded.loss(DATA), coded.loss(DATA)
        (first + 2 * second).backward()
        assert coded.step == 2
        found = gradients(model)
        model.zero_grad()
        assert float(coded.backward(DATA)) == pytest.approx(first.item())
    check_alike(found, [3 * grad for grad in gradients(model)])


def test_weights_that_the_loss_does_not_depend_on_have_no_gradient(stream):
    model, data = Tied(), (DATA[0], DATA[0])
    with CodedGradient(model, nn.MSELoss(), None, stream=stream) as coded:
        coded.loss(data).backward()
    found = gradients(model)
    model.zero_grad()
    nn.MSELoss()(model(data[0]), data[1]).backward()
    assert sum(grad is None for grad in found) == 2
    check_alike(found, gradients(model))


def test_a_scaler_scales_once_and_keeps_small_gradients_of_half_precision(stream):
    """Without it they would be none: 1e-8 is less than the smallest number of float16."""
    model = nn.Linear(64, 4)
    small = 1e-8

    def loss(outputs, targets):
        return (outputs.float() * small).sum(dim=1).mean()

    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with CodedGradient(model, loss, None, stream=stream, autocast=torch.float16) as coded:
        scaler.scale(coded.loss(DATA, scaler=scaler)).backward()
        scaled = model.weight.grad.clone()
        scaler.unscale_(optimizer)
        model.bias.grad = None
        check_alike([model.weight.grad / small], [DATA[0].mean(dim=0).expand(4, -1)], 5e-3)
        torch.testing.assert_close(scaled, model.weight.grad * 2**16)


def test_a_gradient_is_handed_out_once(stream):
    model = perceptron()
    with CodedGradient(model, CROSS, None, stream=stream) as coded:
        loss = coded.loss(DATA)
    loss.backward(retain_graph=True)
    with pytest.raises(ArgumentError, match="twice"):
        loss.backward()


def test_without_gradients_the_loss_is_a_number(stream):
    with CodedGradient(perceptron(), CROSS, None, stream=stream) as coded, torch.no_grad():
        assert not coded.loss(DATA).requires_grad
