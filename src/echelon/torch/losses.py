"""Losses that are a sum or a mean over samples, and so a weighted sum over chunks of them."""

from typing import Any

from torch import nn
from torch.nn import functional

from echelon import checks
from echelon.arrays import NumberArray
from echelon.errors import ArgumentError

_IGNORED = -100  # what torch's functions ignore unless told otherwise
_MEANS = {"mean": True, "batchmean": True, "sum": False}


def checked_loss(loss: Any, reduction: str | None, targets: NumberArray) -> bool:
    """Return whether the loss of a batch is the mean over its samples, not their sum; refuse what is neither.

    >>> import numpy as np
    >>> checked_loss(nn.CrossEntropyLoss(), None, np.zeros(3, dtype=int))
    True
    """
    if not callable(loss):
        raise ArgumentError(f"loss: {loss!r} is not allowed; must be a function of outputs and targets")
    if isinstance(loss, nn.Module) and any(True for _ in loss.parameters()):
        raise ArgumentError(f"loss: {loss!r} has parameters, which is not allowed; they must be part of the model")
    said = getattr(loss, "reduction", None)
    if said is not None and said not in _MEANS:
        raise ArgumentError(f"loss: reduction={said!r} is not allowed; must be one of {', '.join(_MEANS)}")
    if reduction is not None:
        checks.one_of("reduction", reduction, ("mean", "sum"))
        if said is not None and _MEANS[said] is not _MEANS[reduction]:
            raise ArgumentError(f"reduction: {reduction!r} is not allowed; must be {said!r}, as the loss itself says")
    mean = _MEANS[said or reduction or "mean"]
    if mean and isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss):
        _check_counts(loss, loss.weight, loss.ignore_index, targets)
    elif mean and loss in (functional.cross_entropy, functional.nll_loss):
        _check_counts(loss, None, _IGNORED, targets)
    return mean


def _check_counts(loss: Any, weight: Any, ignored: int, targets: NumberArray) -> None:
    """Refuse a mean over something other than the number of samples."""
    why = "its mean is not over samples, so chunks can't be weighted by their sizes; must have reduction='sum'"
    if weight is not None:
        raise ArgumentError(f"loss: {loss!r} with class weights is not allowed; {why}")
    if targets.dtype.kind in "iu" and bool((targets == ignored).any()):
        raise ArgumentError(f"loss: {loss!r} is not allowed with targets that it ignores; {why}")
