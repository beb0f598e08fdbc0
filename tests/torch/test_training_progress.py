"""What is shown while a training goes on."""

import numpy as np
import pytest
import torch
from torch import nn

import echelon as ec
from echelon.profile import Speeds
from echelon.torch import Trained, Validated, train
from echelon.torch.training_progress import line
from tests.torch.networks import digits, perceptron


def test_a_line_names_epoch_losses_and_a_worker_that_is_slow():
    found = Trained(losses=[2.0, 0.123456], validated=[Validated(1, 0.5, None)])
    even = Speeds(np.ones(3), np.ones(3), np.zeros(3))
    assert line(2, None, found, None) == "loss 0.1235, validated 0.5"
    assert line(2, 1, found, even) == "epoch 2, loss 0.1235, validated 0.5"
    odd = Speeds(np.array([1.0, 1.5, 1.0]), np.ones(3), np.zeros(3))
    assert line(1, 1, found, odd).endswith("w2 takes 1.5 times as long as usual")


@pytest.mark.parametrize("progress", [True, False])
def test_progress_is_on_standard_error_if_it_is_asked_for(progress, capsys):
    model = perceptron()
    train(
        model, nn.CrossEntropyLoss(), digits(), torch.optim.SGD(model.parameters(), lr=0.1), steps=3, progress=progress,
        cluster="threads", workers=2,
    )  # fmt: skip
    out, err = capsys.readouterr()
    assert out == ""
    assert ("3/3" in err and "loss" in err and "iteration 0" not in err) == progress
    assert progress or err == ""


def test_a_stream_with_a_display_of_its_own_shows_no_second_one(capsys):
    model = perceptron()
    with ec.Stream("threads", workers=2, progress=False) as stream:
        train(
            model, nn.CrossEntropyLoss(), digits(), torch.optim.SGD(model.parameters(), lr=0.1), steps=2, stream=stream
        )
    assert capsys.readouterr() == ("", "")
