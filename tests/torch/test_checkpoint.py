"""A training that was cut off goes on as if it had not been."""

import os
import signal
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR

from echelon.errors import ArgumentError
from echelon.torch import train
from tests.torch.networks import digits, perceptron

CROSS = nn.CrossEntropyLoss()
STEPS, EVERY = 24, 4


class Cut(BaseException):
    """The end of a program, in the middle of a training."""


def network():
    torch.manual_seed(11)
    return nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 10)).double()


def trained(path, stop=None, stream=None, redundancy=1.0, how=None, **options):
    """Train, with dropout, momentum, a schedule and validation; die after so many steps."""
    data = digits(np.float64)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)

    def cut(step, loss):
        if step == stop:
            how()

    where = {"stream": stream} if stream is not None else {
        "cluster": "threads", "workers": 3, "redundancy": redundancy, "progress": False,
    }  # fmt: skip
    found = train(
        model, CROSS, data, optimizer, steps=STEPS, batch_size=90, seed=3, checkpoint=path, every=EVERY, callback=cut,
        scheduler=CosineAnnealingLR(optimizer, STEPS), validate=data, validate_every=5, **where, **options,
    )  # fmt: skip
    return found, model.state_dict()


def fell():
    raise Cut


@pytest.fixture(scope="module")
def whole(plain_stream):
    """The training that nothing interrupts."""
    return trained(None, stream=plain_stream)


def test_ten_trainings_cut_off_at_random_steps_end_with_the_same_weights(plain_stream, whole, tmp_path):
    """Bit for bit, as the plan is the same."""
    rng = np.random.default_rng(1)
    for number, stop in enumerate(rng.integers(0, STEPS, 10).tolist()):
        path = tmp_path / f"{number}.pt"
        with pytest.raises(Cut):
            trained(path, stop, plain_stream, how=fell)
        assert path.exists() == (stop >= EVERY), stop  # the last one was written before the step that was cut off
        found, weights = trained(path, stream=plain_stream)
        assert found.losses == whole[0].losses
        assert found.validated == whole[0].validated
        assert all(torch.equal(weights[name], one) for name, one in whole[1].items())


def test_with_redundancy_weights_are_the_same_to_six_digits(whole, tmp_path):
    path = tmp_path / "a.pt"
    with pytest.raises(Cut):
        trained(path, 13, redundancy=1.5, how=fell)
    found, weights = trained(path, redundancy=1.5)
    np.testing.assert_allclose(found.losses, whole[0].losses, rtol=1e-6)
    for name, one in whole[1].items():
        torch.testing.assert_close(weights[name], one, rtol=1e-6, atol=1e-9)


def _child(path):
    trained(path, 14, how=lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_a_killed_program_leaves_a_whole_file(whole, plain_stream, tmp_path):
    path = tmp_path / "a.pt"
    child = get_context("spawn").Process(target=_child, args=(path,))
    child.start()
    child.join(120)
    assert child.exitcode == -signal.SIGKILL
    assert os.listdir(tmp_path) == ["a.pt"]
    found, weights = trained(path, stream=plain_stream)
    assert found.losses == whole[0].losses
    assert all(torch.equal(weights[name], one) for name, one in whole[1].items())


def test_a_training_that_is_done_is_not_done_again_and_one_given_more_steps_goes_on(plain_stream, tmp_path):
    path, model, data = tmp_path / "a.pt", perceptron(torch.float64), digits(np.float64)

    def again(steps, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return train(model, CROSS, data, optimizer, steps=steps, batch_size=60, stream=plain_stream, checkpoint=path)

    first = again(5, model)
    other = perceptron(torch.float64)
    second = again(5, other)
    assert first.losses == second.losses
    assert torch.equal(model[0].weight, other[0].weight)
    assert again(8, other).losses[:5] == first.losses
    straight = perceptron(torch.float64)
    found = train(
        straight,
        CROSS,
        data,
        torch.optim.SGD(straight.parameters(), lr=0.1),
        steps=8,
        batch_size=60,
        stream=plain_stream,
    )
    assert torch.equal(straight[0].weight, other[0].weight)
    assert again(8, other).losses == found.losses


def test_what_a_program_that_was_killed_had_written_in_part_is_removed(plain_stream, tmp_path):
    other = tmp_path / ".0123456789abcdef-b.pt"
    for part in (tmp_path / ".fedcba9876543210-a.pt", other):
        part.write_bytes(b"half")
    trained(tmp_path / "a.pt", stream=plain_stream)
    assert sorted(tmp_path.iterdir()) == [other, tmp_path / "a.pt"]


def test_files_that_are_not_of_this_training_are_refused(plain_stream, tmp_path):
    path, data = tmp_path / "a.pt", digits(np.float64)

    def attempt(model=None, seed=0, batch_size=60, scheduler=None):
        model = perceptron(torch.float64) if model is None else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = None if scheduler is None else scheduler(optimizer, 5)
        train(
            model, CROSS, data, optimizer, steps=2, batch_size=batch_size, stream=plain_stream, checkpoint=path,
            seed=seed, scheduler=scheduler,
        )  # fmt: skip

    attempt()
    with pytest.raises(ArgumentError, match=r"a\.pt is of another training: coded: seed: 1 is not allowed; must be 0"):
        attempt(seed=1)
    with pytest.raises(ArgumentError, match=r"is of another training: coded: batch_size: 50 is not allowed"):
        attempt(batch_size=50)
    with pytest.raises(ArgumentError, match=r"is of another training: model: "):
        attempt(nn.Linear(64, 10).double())
    with pytest.raises(ArgumentError, match=r"is not of such a training; name another file, or remove it"):
        attempt(scheduler=CosineAnnealingLR)
    for junk in (b"", b"hello", path.read_bytes()[:-300], b"\x80\x04cos\nsystem\n(S'true'\ntR."):
        path.write_bytes(junk)
        with pytest.raises(ArgumentError, match=r"a\.pt can't be read \(.*\); name another file, or remove it"):
            attempt()
