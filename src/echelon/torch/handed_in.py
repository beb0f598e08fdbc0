"""Gradients of batches that a training framework hands in: what its front ends share."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from echelon import checks
from echelon.errors import ArgumentError
from echelon.stream import Stream
from echelon.torch import structures
from echelon.torch.coded_gradient import CodedGradient


class HandedIn:
    """Coded gradients of models that return their loss, on a stream that was given, or else on one of its own.

    gradient: keywords of `CodedGradient`; a device of None is that of the model. options: of the stream, if none is
    given.
    """

    def __init__(self, stream: Stream | None, gradient: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        if stream is not None:
            checks.instance("stream", stream, Stream)
            if options:
                raise ArgumentError(f"{', '.join(options)}: not allowed together with a stream; they are for a new one")
        self._stream, self._gradient, self._options = stream, gradient, options
        self._ends = ExitStack()

    def of(
        self, model: nn.Module, *, autocast: torch.dtype | None, seed: int, reduction: str = "mean"
    ) -> CodedGradient:
        """Return the gradient of a model, closed by `close`; open a stream for it, if none is there."""
        if self._stream is None:
            self._stream = self._ends.enter_context(Stream(**self._options))
            self._ends.callback(self._forget)
        named = dict(self._gradient)
        if named["device"] is None:
            named["device"] = "cuda:auto" if next(model.parameters()).is_cuda else "cpu"
        if named["seed"] is None:
            named["seed"] = seed
        made = CodedGradient(model, None, None, stream=self._stream, autocast=autocast, reduction=reduction, **named)
        return self._ends.enter_context(made)

    def _forget(self) -> None:
        self._stream = None

    def close(self) -> None:
        """Let the workers forget all models; close the stream, if it is its own."""
        self._ends.close()


def check_cut(batch: Any) -> None:
    """Refuse a batch that can't be cut into chunks: all tensors must have their samples along the first axis.

    >>> check_cut({"text": torch.zeros(4, 9), "label": torch.zeros(4), "weight": 0.5})
    >>> check_cut((torch.zeros(4, 9), torch.zeros(9, 9)))
    Traceback (most recent call last):
    echelon.errors.ArgumentError: batch: a tensor of 9 samples beside one of 4 is not allowed; must be as many in each
    """
    samples = structures.count(batch)
    for leaf in structures.leaves(batch):
        if isinstance(leaf, Tensor | np.ndarray):
            if leaf.ndim and len(leaf) != samples:
                raise ArgumentError(
                    f"batch: a tensor of {len(leaf)} samples beside one of {samples} is not allowed; must be as many "
                    "in each"
                )
        elif not isinstance(leaf, int | float | None):
            raise ArgumentError(
                f"batch: {type(leaf).__name__} is not allowed in a batch that is cut into chunks; must be tensors and "
                "numbers, in dicts, lists and tuples"
            )
