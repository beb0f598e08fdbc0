"""Chunks of arrays that are looked up before they are asked for."""

import numpy as np
import pytest
import torch

from echelon.torch.held import Held
from echelon.torch.minibatches import Minibatches
from echelon.torch.sources import At

HERE = torch.device("cpu")
SAMPLES, CHUNKS = 12, 3


@pytest.fixture
def held():
    return Held((np.arange(SAMPLES), -np.arange(SAMPLES)), Minibatches(SAMPLES, 6, CHUNKS, seed=1))


def numbers(batch):
    inputs, targets = batch.samples
    assert (inputs == -targets).all()
    return inputs.tolist()


@pytest.mark.parametrize("cuts", [None, (0, 1, 2, 6)])
@pytest.mark.parametrize("chunks", [[0], [0, 2], [2, 0], [0, 1, 2]])
def test_what_was_expected_is_what_would_have_been_looked_up(held, chunks, cuts):
    for step in range(4):
        wanted = np.concatenate([held.batches.chunk(step, chunk, cuts) for chunk in chunks]).tolist()
        assert numbers(held.load(At(step, cuts), chunks, HERE)) == wanted
        held.expect(At(step + 1, cuts), chunks, HERE)
        assert numbers(held.read(At(step, cuts), chunks)) == wanted


def test_other_chunks_cuts_and_steps_than_expected_are_looked_up(held):
    held.expect(At(1), [0], HERE)
    for at, chunks in [(At(1), [1]), (At(1, (0, 2, 3, 6)), [0]), (At(2), [0])]:
        wanted = np.concatenate([held.batches.chunk(at.step, chunk, at.cuts) for chunk in chunks]).tolist()
        assert numbers(held.load(at, chunks, HERE)) == wanted


def test_what_was_expected_and_never_asked_for_is_not_kept(held):
    for step in range(20):
        for chunk in range(CHUNKS):
            held.expect(At(step), [chunk], HERE)
        assert len(held._expected) == CHUNKS
