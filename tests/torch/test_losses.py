"""Losses that are not sums or means over samples, and those that use weights: refused, or said."""

from functools import lru_cache, partial
from types import MethodType, SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

import echelon as ec
from echelon.errors import ArgumentError
from echelon.torch import CodedGradient
from echelon.torch.uses import check_held
from tests.torch.networks import digits, perceptron

DATA, CROSS = digits(), nn.CrossEntropyLoss()
MODEL = nn.Linear(3, 1)
WEIGHTS = list(MODEL.parameters())


@pytest.fixture(scope="module")
def stream():
    with ec.Stream("threads", workers=2) as one:
        yield one


def penalty():
    return sum(weight.norm() for weight in WEIGHTS)


def penalised(outputs, targets):
    return CROSS(outputs, targets) + penalty()


def with_more(outputs, targets, more=None, *, scale=1.0):
    return scale * CROSS(outputs, targets) + (0.0 if more is None else more.weight.norm())


def with_default(outputs, targets, more=MODEL):
    return CROSS(outputs, targets) + more.weight.norm()


def within(outputs, targets):
    return CROSS(outputs, targets) + sum(weight.norm() for weight in WEIGHTS) + (lambda: 0.0)()


def inside(outputs, targets):
    return CROSS(outputs, targets) + sum(MODEL.weight.norm() for _ in range(1))


class Settings(dict):
    __getattr__ = dict.__getitem__  # raises KeyError for what is not there


class Hidden:
    @property
    def __class__(self):
        raise RuntimeError("not bound")


logits = MODEL.weight


def odd():
    """Of things that fail when they are looked at, and of a field that has the name of a weight."""
    settings, hidden = Settings(scale=1.0), Hidden()

    def loss(outputs, targets):
        return settings.scale * CROSS(getattr(outputs, "logits", outputs), targets) + (
            0.0 if hidden else targets.logits
        )

    return loss


class Experiment:
    shared = MODEL

    def __init__(self):
        self.model, self.scale, self.settings = MODEL, 2.0, SimpleNamespace(model=2.0)

    def penalised(self, outputs, targets):
        return CROSS(outputs, targets) + self.model.weight.norm()

    def scaled(self, outputs, targets):
        return self.scale * CROSS(outputs, targets)

    def by_a_method(self, outputs, targets):
        return CROSS(outputs, targets) + self.norm()

    def by_methods(self, outputs, targets):
        return CROSS(outputs, targets) + self.first()

    def first(self):
        return self.second()

    def second(self):
        return self.norm()

    def norm(self):
        return self.model.weight.norm()

    def by_class(self, outputs, targets):
        return CROSS(outputs, targets) + self.shared.weight.norm()

    @lru_cache  # noqa: B019
    def cached(self, outputs, targets):
        return CROSS(outputs, targets) * self.settings.model

    def set(self, outputs, targets):
        return CROSS(outputs, targets) * self.settings.model

    __call__ = penalised


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.held = WEIGHTS

    def forward(self, outputs, targets):
        return CROSS(outputs, targets) + self.held[0].norm()


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (lambda outputs, targets: CROSS(outputs, targets) + MODEL.weight.norm(), "MODEL"),
        (penalised, "penalty"),
        (partial(with_more, more=MODEL), "more"),
        (partial(lambda more, outputs, targets: with_more(outputs, targets, more), MODEL), "argument 0"),
        (with_default, "more"),
        (within, "WEIGHTS"),
        (inside, "MODEL"),
        (Experiment().by_a_method, "norm"),
        (Experiment().by_methods, "first"),
        (Experiment().by_class, "shared"),
        (Experiment().penalised, "model"),
        (Experiment(), "model"),
        (Listed(), "held"),
    ],
)
def test_a_loss_that_uses_weights_is_refused(stream, loss, name):
    with pytest.raises(
        ArgumentError, match=f"loss: it uses '{name}', which is trained and changes, and is not allowed"
    ):
        CodedGradient(perceptron(), loss, DATA, stream=stream)


@pytest.mark.parametrize(
    "loss",
    [
        CROSS,
        functional.cross_entropy,
        partial(with_more, scale=2.0),
        partial(max, key=[[0.0] * 9] * 10**5),
        max,
        odd(),
        Experiment().scaled,
        Experiment().set,
        Experiment().cached,
        MethodType(partial(CROSS), DATA),
    ],
)
def test_a_loss_that_uses_no_weights_is_taken(loss):
    check_held(loss)


def test_a_loss_may_use_weights_that_are_not_trained(stream):
    fixed = perceptron().requires_grad_(False)

    def loss(outputs, targets):
        return CROSS(outputs, targets) + fixed[0].weight.norm()

    with CodedGradient(perceptron(), loss, DATA, stream=stream) as coded:
        assert coded.backward() > fixed[0].weight.norm()


def contrasted(outputs, targets):
    """Samples of a class are to be alike: each is compared with all others."""
    alike = (targets[:, None] == targets[None]).to(outputs.dtype)
    return functional.binary_cross_entropy_with_logits(outputs @ outputs.T / 10, alike)


def by_class(outputs, targets):
    return functional.cross_entropy(10 * outputs, targets, weight=torch.linspace(0.1, 3.0, 10))


def drawn(outputs, targets):
    return functional.cross_entropy(functional.dropout(outputs, 0.5), targets)


def in_threes(outputs, targets):
    """Which can't be had for half a chunk of 30."""
    return functional.cross_entropy(outputs.view(-1, 2, 3, 10).flatten(0, 2), targets)


def with_slope(outputs, targets):
    loss = functional.cross_entropy(outputs, targets, reduction="none")
    (slope,) = torch.autograd.grad(loss.sum(), outputs, create_graph=True)
    return (loss + slope.square().sum(1)).mean()


def in_steps_of_thirty(outputs, targets):
    return (functional.cross_entropy(outputs, targets, reduction="none") * torch.ones(30)).mean()


def tiny(outputs, targets):
    return 1e-9 * torch.linalg.vector_norm(outputs)


@pytest.mark.parametrize("loss", [contrasted, by_class])
def test_a_loss_that_is_no_mean_over_samples_is_told_once(stream, caplog, loss):
    with CodedGradient(perceptron(), loss, DATA, stream=stream, batch_size=60) as coded:
        for _ in range(3):
            coded.backward()
    (told,) = [record.message for record in caplog.records if "is no mean over samples" in record.message]
    assert "loss: of 30 samples together it is" in told


def test_a_penalty_that_is_added_to_every_sum_is_told(stream, caplog):
    def loss(outputs, targets):
        return functional.cross_entropy(outputs, targets, reduction="sum") + outputs.new_tensor(50.0)

    with CodedGradient(perceptron(), loss, DATA, stream=stream, batch_size=60, reduction="sum") as coded:
        coded.backward()
    assert "is no sum over samples" in caplog.text


@pytest.mark.parametrize(
    "loss", [CROSS, nn.CrossEntropyLoss(reduction="sum"), drawn, in_threes, with_slope, in_steps_of_thirty, tiny]
)
def test_a_loss_over_samples_or_that_can_not_be_had_for_fewer_is_not_told(stream, caplog, loss):
    with CodedGradient(perceptron(), loss, DATA, stream=stream, batch_size=60) as coded:
        coded.backward()
    assert "over samples" not in caplog.text
