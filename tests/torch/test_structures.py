"""Batches of any shape: joined where that is the same as one after another, and nowhere else."""

from collections import namedtuple

import numpy as np
import pytest
import torch

from echelon.errors import ArgumentError
from echelon.torch import structures

Pair = namedtuple("Pair", ["left", "right"])
ONE, TWO = torch.ones(1, 3), torch.zeros(2, 3)


def test_what_is_joined_is_every_chunk_one_after_another():
    nested = [{"x": one, "more": (Pair(one, one[:, 0]), [one])} for one in (ONE, TWO, ONE)]
    whole = structures.joined(nested)
    assert structures.count(whole) == structures.even("data", whole) == 4
    for chunk, span in zip(nested, (slice(0, 1), slice(1, 3), slice(3, 4)), strict=True):
        found = structures.taken(whole, span)
        assert isinstance(found["more"][0], Pair)
        for one, other in zip(structures.leaves(found), structures.leaves(chunk), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize(
    "chunks",
    [
        (ONE, torch.ones(2, 4)),  # texts of different lengths
        (ONE, TWO.double()),
        ({"x": ONE, "y": ONE}, {"y": TWO, "x": TWO}),  # another order: leaves would change places
        ((ONE, ONE), (TWO,)),
        ((ONE, 0.5), (TWO, 0.5)),
        ((ONE, torch.tensor(1.0)), (TWO, torch.tensor(1.0))),
        (("a", ONE), ("b", TWO)),
        ((ONE, None), (TWO, TWO)),
    ],
)
def test_what_differs_is_not_joined(chunks):
    assert structures.joined(chunks) is None
    assert structures.joined(chunks[:1]) is chunks[0]


def test_what_is_nowhere_there_stays_so():
    found = structures.joined([{"x": ONE, "mask": None}, {"x": TWO, "mask": None}])
    assert (len(found["x"]), found["mask"]) == (3, None)


def test_arrays_and_tensors_become_each_other():
    batch = {"x": torch.arange(3), "y": (np.ones(3), "text"), "narrow": torch.ones(3, dtype=torch.bfloat16)}
    there = structures.arrays(batch)
    assert isinstance(there["x"], np.ndarray)
    back = structures.tensors(there)
    assert back["x"].tolist() == [0, 1, 2]
    assert (back["y"][1], back["narrow"].dtype) == ("text", torch.bfloat16)


def test_arrays_that_may_not_be_written_are_copied_and_others_not():
    kept = np.zeros(3)
    fixed = kept.view()
    fixed.flags.writeable = False
    structures.tensors(fixed).add_(1)
    assert not kept.any()
    structures.tensors(kept).add_(1)
    assert kept.all()


@pytest.mark.parametrize("batch", [(ONE, TWO), (1, "a"), torch.tensor(1.0)])
def test_batches_that_can_not_be_cut_are_refused(batch):
    with pytest.raises(ArgumentError, match=r"batch: tensors of (\[1, 2\]|no) samples are not allowed"):
        structures.even("batch", batch)
