"""Chunks of arrays that are looked up before they are asked for, where a device works while the host is free."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

import echelon as ec
from echelon.torch import CodedGradient
from echelon.torch import held as module
from echelon.torch.held import Held
from echelon.torch.minibatches import Minibatches
from echelon.torch.sources import At
from tests.torch.networks import chunk_by_chunk, digits, near, parts_of, perceptron

HERE = torch.device("cpu")
SAMPLES, CHUNKS = 12, 3


@pytest.fixture(autouse=True)
def as_on_a_device(monkeypatch):
    monkeypatch.setattr(module, "_works_alone", lambda device: True)


@pytest.fixture
def held():
    return Held((np.arange(SAMPLES), -np.arange(SAMPLES)), Minibatches(SAMPLES, 6, CHUNKS, seed=1))


@pytest.fixture
def looked_up(monkeypatch):
    """What is looked up, in its order."""
    calls, real = [], Held._looked_up
    monkeypatch.setattr(
        Held,
        "_looked_up",
        lambda self, at, chunks, device: calls.append((at.step, *chunks)) or real(self, at, chunks, device),
    )
    return calls


def numbers(batch):
    inputs, targets = batch.samples
    assert (inputs == -targets).all()
    return inputs.tolist()


def wanted(held, at, chunks):
    return np.concatenate([held.batches.chunk(at.step, chunk, at.cuts) for chunk in chunks]).tolist()


@pytest.mark.parametrize("cuts", [None, (0, 1, 2, 6)])
@pytest.mark.parametrize("chunks", [[0], [0, 2], [2, 0], [0, 1, 2]])
def test_what_was_expected_is_what_would_have_been_looked_up(held, looked_up, chunks, cuts):
    for step in range(4):
        assert numbers(held.load(At(step, cuts), chunks, HERE)) == wanted(held, At(step, cuts), chunks)
        assert not held._expected, "its memory is that of the pass"
        held.expect(At(step + 1, cuts), chunks, HERE)
    assert looked_up == [(step, *chunks) for step in range(5)]


def test_rows_of_one_step_do_not_take_from_each_other_what_was_expected(held, looked_up):
    for step in range(6):
        for chunk in range(CHUNKS):
            assert numbers(held.load(At(step), [chunk], HERE)) == wanted(held, At(step), [chunk])
            held.expect(At(step + 1), [chunk], HERE)
    assert sorted(looked_up) == [(step, chunk) for step in range(7) for chunk in range(CHUNKS)]


def test_other_chunks_cuts_and_steps_than_expected_are_looked_up(held):
    held.expect(At(1), [0], HERE)
    for at, chunks in [(At(1), [1]), (At(1, (0, 2, 3, 6)), [0]), (At(2), [0])]:
        assert numbers(held.load(at, chunks, HERE)) == wanted(held, at, chunks)


@pytest.mark.parametrize("steps", [range(20), range(1000, 0, -50), [5, 900, 7, 8, 3]])
def test_what_was_expected_and_never_asked_for_is_not_kept(held, steps):
    for step in steps:
        for chunk in range(CHUNKS):
            held.expect(At(step), [chunk], HERE)
        assert len(held._expected) <= 2 * CHUNKS
        assert {at.step for at, _, _ in held._expected} <= {step - 1, step}


def test_nothing_that_was_expected_travels(held):
    held.expect(At(1), [0], HERE)
    assert pickle.loads(pickle.dumps(held))._expected == {}


def test_memory_is_given_back_once_and_nothing_is_looked_up_ahead_any_more(held, looked_up):
    held.expect(At(1), [0], HERE)
    assert held.forget()
    assert not held.forget()
    held.expect(At(2), [0], HERE)
    assert looked_up == [(1, 0)]
    assert numbers(held.load(At(1), [0], HERE)) == wanted(held, At(1), [0])


class ShortOfMemory(nn.CrossEntropyLoss):
    """A loss on a device that has no memory for two more batches than the one that is passed."""

    held = None

    def forward(self, outputs, targets):
        if len(self.held._expected) > 1:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return super().forward(outputs, targets)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d, nn.Dropout])
def test_training_with_enough_memory_but_for_what_is_expected_goes_on(layer, looked_up):
    """Chunks are passed one by one, so that those of the next step are looked up one by one, too."""
    loss, data = ShortOfMemory(), digits(np.float64)
    torch.manual_seed(2)
    more = nn.BatchNorm1d(64) if layer is nn.BatchNorm1d else nn.Dropout(0.2)
    model = nn.Sequential(more, nn.Linear(64, 10)).double()
    with (
        ec.Stream("threads", workers=1) as stream,
        CodedGradient(model, loss, data, stream=stream, batch_size=48, chunks=4, device="cpu") as coded,
    ):
        loss.held = coded._source
        for _ in range(3):
            coded.backward()
        assert not coded._source._expected
    assert {step for step, *_ in looked_up} == {0, 1, 2}


def test_training_asks_for_the_chunks_of_the_next_step(looked_up):
    data, steps = digits(np.float64), 4
    model, other = perceptron(torch.float64), perceptron(torch.float64)
    other.load_state_dict(model.state_dict())
    loss = nn.CrossEntropyLoss()
    with (
        ec.Stream("threads", workers=1) as stream,
        CodedGradient(model, loss, data, stream=stream, batch_size=48, chunks=3) as coded,
    ):
        for step in range(steps):
            value = chunk_by_chunk(other, loss, data, parts_of(coded, step))
            model.zero_grad()
            assert float(coded.backward()) == pytest.approx(value, rel=1e-10)
            near(model, other, 1e-10)
    assert sorted({step for step, *_ in looked_up}) == list(range(steps + 1))
    assert len(looked_up) == len(set(looked_up))
