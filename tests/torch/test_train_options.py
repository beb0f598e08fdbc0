"""`train` does what a loop by hand does: schedulers, clipping, validation, early ends."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau, StepLR

import echelon as ec
from echelon.errors import ArgumentError
from echelon.torch import CodedGradient, Evaluation, train
from tests.torch.networks import convolutions, digits, perceptron, plain_gradient

CROSS = nn.CrossEntropyLoss()
DATA, OTHER = digits(np.float64), tuple(some[200:] for some in digits(np.float64))


@pytest.fixture(scope="module")
def stream():
    with ec.Stream("threads", workers=3) as one:
        yield one


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)


def right(outputs, targets):
    """How many of a batch are right."""
    return (outputs.argmax(dim=1) == targets).sum()


def by_hand(model, stream, steps, scheduler=None, every=1, clip=None):
    """The losses of a plain loop over the same mini-batches."""
    optimizer, losses = sgd(model), []
    schedule = None if scheduler is None else scheduler(optimizer)
    with CodedGradient(deepcopy(model), CROSS, DATA, stream=stream, batch_size=60) as coded:
        for step in range(steps):
            gradients, value = plain_gradient(model, CROSS, DATA, coded.batch(step))
            for weight, found in zip(model.parameters(), gradients, strict=True):
                weight.grad = found
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            if schedule is not None and (step + 1) % every == 0:
                schedule.step()
            losses.append(float(value))
    return losses


@pytest.mark.parametrize(
    ("schedule", "scheduler", "every"),
    [("step", lambda one: CosineAnnealingLR(one, 10), 1), ("epoch", lambda one: StepLR(one, 1, gamma=0.3), 5)],
)
def test_schedules_clipping_and_epochs_are_those_of_a_plain_loop(stream, schedule, scheduler, every):
    model = perceptron(torch.float64)
    wanted = by_hand(deepcopy(model), stream, 10, scheduler, every, clip=0.5)
    optimizer = sgd(model)
    found = train(
        model, CROSS, DATA, optimizer, epochs=2, stream=stream, batch_size=60, clip=0.5, schedule=schedule,
        scheduler=scheduler(optimizer),
    )  # fmt: skip
    np.testing.assert_allclose(found.losses, wanted, rtol=1e-9)
    assert found.ended == "epochs"
    assert len(found.losses) == 10  # five batches of 60 in 300 samples


def test_a_validation_is_the_mean_over_all_samples_in_eval_mode(stream):
    model = convolutions(torch.float64)
    model.append(nn.Dropout(0.5))
    with Evaluation(model, CROSS, OTHER, stream=stream, batch_size=17, metric=right) as evaluation:
        first = evaluation.run()
        with torch.no_grad():
            model[-2].weight.mul_(0.5)
        second = evaluation.run()
    assert model.training
    model.eval()
    outputs = model(torch.tensor(OTHER[0])).detach()
    targets = torch.tensor(OTHER[1])
    assert second.loss == pytest.approx(float(CROSS(outputs, targets)), rel=1e-12)
    assert second.metric == pytest.approx(float(right(outputs, targets)) / 100, rel=1e-12)
    assert (first.samples, second.samples) == (100, 100)
    assert first.loss != second.loss


def test_training_ends_early_with_the_weights_that_did_best(stream):
    model = perceptron(torch.float64)
    seen = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def diverge(step, loss):
        seen.append(deepcopy(model.state_dict()))
        if step == 3:
            optimizer.param_groups[0]["lr"] = 50.0

    found = train(
        model, CROSS, DATA, optimizer, steps=40, stream=stream, batch_size=60, validate=OTHER, validate_every=1, stop=3,
        metric=right, callback=diverge,
    )  # fmt: skip
    losses = [one.loss for one in found.validated]
    best = losses.index(min(losses))
    assert (found.ended, len(losses), len(found.losses)) == ("stop", best + 4, best + 4)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, seen[best][name])
    assert [one.step for one in found.validated] == list(range(1, best + 5))
    assert all(0 <= one.metric <= 1 for one in found.validated)


def test_a_scheduler_that_follows_a_loss_is_told_every_validation(stream):
    model = perceptron(torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)  # nothing gets better
    train(
        model, CROSS, DATA, optimizer, steps=6, stream=stream, batch_size=60, validate=OTHER, validate_every=2,
        scheduler=ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.01),
    )  # fmt: skip
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.25e-12)  # the first is the best, two after it are not


def test_a_callback_ends_the_training_by_true_and_by_nothing_else(stream):
    model = perceptron(torch.float64)
    found = train(
        model, CROSS, DATA, sgd(model), steps=9, stream=stream, callback=lambda step, loss: True if step == 2 else 1
    )
    assert (found.ended, len(found.losses)) == ("callback", 3)


def test_float16_has_a_scaler_of_its_own_and_learns():
    model = perceptron(torch.float32)
    data = digits()
    found = train(
        model, CROSS, data, torch.optim.SGD(model.parameters(), lr=0.2), steps=30, cluster="threads", workers=2,
        autocast=torch.float16, clip=5.0,
    )  # fmt: skip
    exact = perceptron(torch.float32)
    wanted = train(
        exact,
        CROSS,
        data,
        torch.optim.SGD(exact.parameters(), lr=0.2),
        steps=30,
        cluster="threads",
        workers=2,
        clip=5.0,
    )
    np.testing.assert_allclose(found.losses, wanted.losses, rtol=2e-2)
    assert found.losses[-1] < 0.7 * found.losses[0]


def endless(step, chunk):
    return DATA[0][:4], DATA[1][:4]


OF_ANOTHER = StepLR(torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0), 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "steps, epochs: one of them"),
        ({"steps": 1, "epochs": 1}, "steps, epochs: one of them"),
        ({"epochs": 0}, "epochs: 0 is not allowed"),
        ({"epochs": 1, "data": endless}, "epochs: not allowed with data that has no number of samples"),
        ({"steps": 1, "data": endless, "schedule": "epoch", "scheduler": OF_ANOTHER}, "schedule: 'epoch' is not allow"),
        ({"steps": 1, "schedule": "epoch"}, "schedule: not allowed without one to tell; give scheduler="),
        (
            {"steps": 1, "optimizer": torch.optim.LBFGS([nn.Parameter(torch.ones(1))])},
            "optimizer: LBFGS is not allowed",
        ),
        ({"steps": 1, "optimizer": OF_ANOTHER.optimizer}, "optimizer: one without any parameter of the model"),
        ({"steps": 1, "metric": right}, "metric: not allowed without data to validate on; give validate="),
        ({"steps": 1, "validate_every": 2}, "validate_every: not allowed without data to validate on"),
        ({"steps": 1, "data": endless, "validate": OTHER}, "validate_every: missing"),
        ({"steps": 1, "data": None}, "data: None is not allowed; it is for loops of your own"),
        ({"steps": 1, "schedule": "day"}, "schedule: 'day' is not allowed"),
        ({"steps": 1, "scheduler": 3}, "scheduler: int is not allowed"),
        ({"steps": 1, "clip": 0.0}, "clip: 0.0 is not allowed"),
        ({"steps": 1, "progress": "yes"}, "progress: 'yes' is not allowed; must be True or False"),
        ({"steps": 1, "stop": 2}, "stop: not allowed without data to validate on"),
        ({"steps": 1, "validate": 3}, "validate: it has no number of samples"),
        ({"steps": 1, "validate": endless}, "validate: it has no number of samples"),
        ({"steps": 1, "validate": OTHER, "metric": 3}, "metric: 3 is not allowed"),
        ({"steps": 1, "validate": OTHER, "validate_every": 0}, "validate_every: 0 is not allowed"),
        ({"steps": 1, "checkpoint": 3}, "checkpoint: 3 is not allowed; must be the path of a file"),
        ({"steps": 1, "checkpoint": "/nowhere/at/all"}, r"checkpoint: .* there is no folder"),
        ({"steps": 1, "stream": None, "wrokers": 2}, "wrokers: not allowed; must be options of CodedGradient or of"),
    ],
)
def test_what_train_can_not_do_is_refused(stream, given, said):
    model = perceptron(torch.float64)
    given = {"data": DATA, "stream": stream} | given
    data = given.pop("data")
    with pytest.raises(ArgumentError, match=said):
        train(model, CROSS, data, given.pop("optimizer", None) or sgd(model), **given)


def test_a_metric_that_is_no_number_is_the_fault_of_the_metric(stream):
    with (
        Evaluation(perceptron(torch.float64), CROSS, OTHER, stream=stream, metric=lambda out, to: out) as evaluation,
        pytest.raises(ec.JobFailed, match=r"metric: a tensor of shape .* must be one number"),
    ):
        evaluation.run()
