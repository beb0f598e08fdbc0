"""Gradients of the loss on chunks of a mini-batch: what travels to the workers and runs there. See `rows`."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from echelon.arrays import NumberArray
from echelon.clusters import Room
from echelon.errors import ArgumentError
from echelon.torch import structures
from echelon.torch.devices import resolved
from echelon.torch.heap import keep_freed_memory
from echelon.torch.losses import Losses
from echelon.torch.models import Models
from echelon.torch.parameters import Loaded, State
from echelon.torch.rows import Row
from echelon.torch.seeding import generator_states, seeded
from echelon.torch.sources import Source


@dataclass(frozen=True)
class How:
    """How chunks are computed: besides the model, the loss and the data, all that a job is told of it.

    mean: whether the loss of a batch is the mean over its samples, or their sum.
    autocast: the type in which torch computes what it may.
    alone: whether no row combines chunks: those who compute the same one then need not agree on its masks.
    """

    mean: bool
    seed: int
    device: str
    autocast: torch.dtype | None = None
    alone: bool = False

    def casting(self, device: torch.device) -> torch.autocast:
        """Return the context in which passes forward are made."""
        return torch.autocast(device.type, self.autocast or torch.bfloat16, enabled=self.autocast is not None)


class ChunkGradients:
    """Weighted sums of the gradients of chunks."""

    def __init__(self, models: Models, losses: Losses, source: Source, how: How) -> None:
        self._models, self._losses, self._source, self._how = models, losses, source, how
        self._apart = b""  # which modules trained when chunks had to be passed one by one
        self._limit: int | None = None  # samples of a pass that the device has memory for, once it ran out of it
        self._staging: dict[tuple[torch.device, int], Tensor] = {}  # of rows that leave through the host

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_staging": {}, "_limit": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        keep_freed_memory()  # this process exists for such passes

    def one(self, state: State, chunk: int) -> NumberArray:
        """Return the result of a chunk."""
        return self.write(state, [chunk], np.ones(1), _on_host)[0]

    def write(
        self, state: State, chunks: Sequence[int], coefficients: NumberArray, room: Room
    ) -> tuple[NumberArray, float]:
        """Return the weighted sum of the results of some chunks, in memory from `room`, and its largest number.

        It is the gradient of the weighted sum of their losses, in one pass forward and one back over all samples; but
        in one pass per chunk where the model draws from a generator of torch, so that each chunk has its own draws,
        where it normalises over its batch, or where its outputs are not a tensor with the samples along its first axis.
        A device that has not the memory for a pass makes several of it, from then on.
        """
        device = resolved(self._how.device)
        if device.type == "cuda":
            torch.cuda.set_device(device)  # and begin to use it: `seeded` leaves alone what is not in use
        weights = dict(zip(chunks, coefficients.tolist(), strict=True))
        with state.asking.turn():
            model = self._models.of(state, device)
            row = Row(model, room, device, self._staging, shared=state.shared is not None)
            while not self._added(model, state, weights, row, device):
                row.restart()
            model.check()
            return row.finished()

    def _added(self, model: Loaded, state: State, weights: dict[int, float], row: Row, device: torch.device) -> bool:
        """Add all chunks to a row, at once or one by one; return False where it has to be done in another way."""
        apart = state.trains == self._apart or model.mixes or model.tracks > 0 or self._losses.own
        whole = self._source.whole(state.at) if self._how.mean else 1
        groups = [[chunk] for chunk in weights] if apart else [list(weights)]
        for chunks in groups:
            batch = self._source.load(state.at, chunks, device)
            if batch is None:
                return self._one_by_one(state)
            sizes = {chunk: size for chunk, size in zip(chunks, batch.sizes, strict=True) if size}
            parts = [_part(chunk, size, weights[chunk], whole, self._how) for chunk, size in sizes.items()]
            try:
                if parts and not self._passed(model, state, parts, batch.samples, row, device):
                    return self._one_by_one(state)
            except torch.cuda.OutOfMemoryError as error:
                if not self._source.forget():
                    self._back_off(error, model, sum(sizes.values()), state)
                torch.cuda.empty_cache()
                return False
            for part in parts:
                row.count(part.size, part.coefficient)
        following = state.at._replace(step=state.at.step + 1)
        for chunks in groups:
            self._source.expect(following, chunks, device)
        return True

    def _one_by_one(self, state: State) -> bool:
        self._apart = state.trains
        return False

    def _passed(
        self, model: Loaded, state: State, parts: "Sequence[_Part]", samples: Any, row: Row, device: torch.device
    ) -> bool:
        """Add the result of a pass over some chunks to a row; return False where they must be passed one by one."""
        count = sum(part.size for part in parts)
        if self._limit is not None and count > self._limit and not (model.mixes or model.tracks):
            return len(parts) == 1 and self._passed_in_slices(model, state, parts[0], samples, row, device)
        with seeded(self._how.seed, state.at.step, parts[0].chunk):
            return self._pass(model, state, parts, samples, row, device)

    def _pass(
        self, model: Loaded, state: State, parts: "Sequence[_Part]", samples: Any, row: Row, device: torch.device
    ) -> bool:
        inputs, targets = self._losses.parted(samples)
        if not self._source.checked:
            self._losses.check(samples)
        before = generator_states() if len(parts) > 1 else []
        with self._how.casting(device):
            outputs = _normalised(model, inputs, parts)
            if model.tracks:
                row.collect(model.statistics(), parts[0].coefficient)
            self._losses.look(outputs, targets, sum(part.size for part in parts), device)
            if len(parts) == 1:
                loss = parts[0].share * self._losses.of(outputs, targets, device)
            else:
                count = sum(part.size for part in parts)
                along = isinstance(outputs, Tensor) and outputs.ndim > 0 and len(outputs) == count
                if not along or generator_states() != before:
                    return False
                ends = list(accumulate(part.size for part in parts))
                spans = [slice(end - part.size, end) for part, end in zip(parts, ends, strict=True)]
                loss = torch.stack([
                    part.share * self._losses.of(outputs[span], structures.taken(targets, span), device)
                    for part, span in zip(parts, spans, strict=True)
                ]).sum()  # fmt: skip
        row.add(loss, sum(part.coefficient for part in parts), state.scale)
        return True

    def _passed_in_slices(
        self, model: Loaded, state: State, part: "_Part", samples: Any, row: Row, device: torch.device
    ) -> bool:
        """Pass over a chunk in slices that the device has memory for."""
        assert self._limit is not None
        structures.even("data", samples)
        pieces = -(-part.size // self._limit)
        with seeded(self._how.seed, state.at.step, part.chunk):
            before = generator_states()
            for piece in range(pieces):
                span = slice(piece * part.size // pieces, (piece + 1) * part.size // pieces)
                share = (span.stop - span.start) / part.size if self._how.mean else 1.0
                piece_of = part._replace(
                    size=span.stop - span.start, share=part.share * share, coefficient=part.coefficient / pieces
                )
                self._pass(model, state, [piece_of], structures.taken(samples, span), row, device)
            if generator_states() != before and not self._how.alone:
                raise ArgumentError(
                    f"chunks: {part.size} samples do not fit into the memory of {device}, which is not allowed where "
                    "the model draws and several workers compute a chunk; must be more chunks, or smaller batches"
                )
        return True

    def _back_off(self, error: Exception, model: Loaded, tried: int, state: State) -> None:
        """Take half as many samples at once; refuse where that is not the same."""
        whole = model.mixes or model.tracks > 0
        tried = tried if self._limit is None or whole else min(tried, self._limit)
        if tried < 2 or whole:
            why = ", and can't be passed in slices, since the model normalises over them" if whole else ""
            raise ArgumentError(
                f"chunks: {tried} samples do not fit into the memory of {resolved(self._how.device)}{why}; "
                "must be more chunks, or smaller batches"
            ) from error
        self._limit = tried // 2


def _normalised(model: Loaded, inputs: Any, parts: "Sequence[_Part]") -> Any:
    """Return the outputs of a model; say what is wrong where it has one sample only, and normalises."""
    try:
        return model(inputs)
    except ValueError as error:
        if not model.mixes or parts[0].size > 1:
            raise
        raise ArgumentError(
            "chunks: one of 1 sample is not allowed where the model normalises over samples; must have two or more, "
            "also in the last batch of an epoch: choose another batch size, or fewer chunks"
        ) from error


def _on_host(count: int, dtype: str, device: Any = None) -> NumberArray:
    return np.empty(count, dtype)


class _Part(NamedTuple):
    """A chunk with samples: its coefficient in the row, and the weight of its own loss."""

    chunk: int
    size: int
    coefficient: float
    share: float


def _part(chunk: int, size: int, coefficient: float, whole: int | None, how: How) -> _Part:
    """Weigh a chunk; where nobody knows the size of the whole, its losses are summed up, and divided in the end."""
    share = coefficient if not how.mean else coefficient * size / (1 if whole is None else whole)
    return _Part(chunk, size, coefficient, share)
