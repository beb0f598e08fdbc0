"""Whether a model is the one that was walked over before."""

import pytest
import torch
from torch import nn

from echelon.torch.parameters import Walk


def network():
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Sequential(nn.Dropout(0.1), nn.Linear(2, 2)))


def other_dict(model):
    model[0].__dict__ = nn.Linear(3, 2).__dict__


def swapped(model):
    model._modules["0"], model._modules["1"] = model._modules["1"], model._modules["0"]


CHANGES = {
    "a parameter is another": lambda model: setattr(model[0], "weight", nn.Parameter(torch.ones(2, 3))),
    "a parameter is gone": lambda model: model[0].register_parameter("bias", None),
    "a parameter is new": lambda model: model[0].register_parameter("more", nn.Parameter(torch.ones(1))),
    "a parameter is frozen": lambda model: model[0].weight.requires_grad_(False),
    "parameters have another type": lambda model: model.double(),
    "a buffer is another": lambda model: setattr(model[1], "running_mean", torch.ones(2)),
    "a buffer is new": lambda model: model[0].register_buffer("more", torch.ones(1)),
    "a module is another": lambda model: model[2].__setitem__(0, nn.Dropout(0.1)),
    "a module is new": lambda model: model[2].append(nn.ReLU()),
    "a module is gone": lambda model: model[2].pop(0),
    "modules are swapped": swapped,
    "a module evaluates": lambda model: model[2][0].eval(),
    "a setting is another": lambda model: setattr(model[2][0], "p", 0.2),
    "a setting is new": lambda model: setattr(model[2][0], "more", 0.2),
    "a setting is gone": lambda model: delattr(model[2][0], "inplace"),
    "a module has all of another": other_dict,
    "a module is of another kind": lambda model: setattr(model[2][0], "__class__", nn.AlphaDropout),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_has_changed_is_seen(change):
    model = network()
    walk = Walk(model)
    assert walk.same()
    CHANGES[change](model)
    assert not walk.same()


def test_numbers_are_not_looked_at():
    model = network()
    walk = Walk(model)
    model(torch.ones(4, 3)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model.zero_grad()
    assert walk.same()
