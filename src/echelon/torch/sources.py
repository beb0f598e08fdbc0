"""Where the samples of a chunk come from: what travels to the workers in place of the data, or with it."""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from echelon.torch import structures
from echelon.torch.minibatches import Cuts, Minibatches, span


class At(NamedTuple):
    """Which samples a step takes.

    cuts: where its chunks begin and end, if they are not equal. given: the batch itself, where the loop has it.
    """

    step: int
    cuts: Cuts | None = None
    given: Any = None


class Batch(NamedTuple):
    """The samples of some chunks, one after another, and how many are in each."""

    samples: Any
    sizes: tuple[int, ...]


def gathered(found: Sequence[Any]) -> Batch | None:
    """Return chunks as one batch, those that are None without samples; None where they can't be one."""
    sizes = tuple(0 if samples is None else structures.count(samples) for samples in found)
    there = [samples for samples, size in zip(found, sizes, strict=True) if size]
    if not there:
        return Batch(None, sizes)
    whole = structures.joined(there)
    return None if whole is None else Batch(whole, sizes)


class Source(abc.ABC):
    """What reads chunks, on workers.

    batches: which samples a step takes, where they have numbers. given: whether the loop hands each batch in.
    checked: whether all targets were looked at before.
    """

    batches: Minibatches | None = None
    given = checked = False

    @abc.abstractmethod
    def whole(self, at: At) -> int | None:
        """Return how many samples a step has; None where only those who read its chunks know."""

    @abc.abstractmethod
    def read(self, at: At, chunks: Sequence[int]) -> Batch | None:
        """Return some chunks as one batch, in this order; None where they can't be one."""

    def load(self, at: At, chunks: Sequence[int], device: torch.device) -> Batch | None:
        """Return the same on a device."""
        found = self.read(at, chunks)
        return None if found is None else Batch(structures.moved(found.samples, device), found.sizes)

    def expect(self, at: At, chunks: Sequence[int], device: torch.device) -> None:  # noqa: B027 - most read in time
        """Have some chunks ready on a device that is busy; they will probably be asked for in the next step."""

    def forget(self) -> bool:
        """Give back memory of a device that `expect` took, for good; return whether there was any."""
        return False


class Given(Source):
    """Batches that the loop of the master hands in, step by step; they travel with the weights."""

    given = checked = True

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks

    def whole(self, at: At) -> int | None:
        """Return how many samples the batch has."""
        return structures.count(at.given)

    def read(self, at: At, chunks: Sequence[int]) -> Batch | None:
        """Return some chunks of the batch."""
        spans = [span(structures.count(at.given), chunk, self._chunks, at.cuts) for chunk in chunks]
        parts = [structures.tensors(structures.taken(at.given, where)) for where in spans]
        whole = structures.joined(parts)
        return None if whole is None else Batch(whole, tuple(where.stop - where.start for where in spans))
