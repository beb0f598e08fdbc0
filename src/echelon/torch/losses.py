"""Losses that are a sum or a mean over samples, and so a weighted sum over chunks of them."""

import logging
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon import checks
from echelon.errors import ArgumentError
from echelon.torch import structures
from echelon.torch.seeding import generator_states
from echelon.torch.uses import check_held

log = logging.getLogger("echelon.torch")

_IGNORED = -100  # what torch's functions ignore unless told otherwise
_MEANS = {"mean": True, "batchmean": True, "sum": False}
_WHY = "its mean is not over samples, so chunks can't be weighted by their sizes; must have reduction='sum'"
_OWN_WHY = (
    "the mean of a model over labels other than -100 is not over samples, so chunks can't be weighted by their sizes; "
    "must have reduction='sum' and, in the batch, what the model divides by (num_items_in_batch), or reduction='mean', "
    "for the mean of chunks weighted by their samples"
)

_NOT_BY_CHUNK = (
    "loss: of %d samples together it is %.6g, and by two parts of them %.6g: it is no %s over samples, and the "
    "gradient is that of the chunks' losses, not that of the whole batch"
)
_OFF, _OFF_NARROW = 3e-5, 0.05  # of a loss, or of a `_LITTLE` one; the second in half precision
_LITTLE = 1e-2

Loss = Callable[[Any, Any], Tensor]


class Losses:
    """The loss of batches: a function of outputs and targets, or what the model itself returns.

    own: whether it is the model's. mean: whether it is the mean over samples, not their sum.

    >>> Losses(nn.CrossEntropyLoss(), None).mean, Losses(None, "sum").mean
    (True, False)
    """

    def __init__(self, loss: Loss | None, reduction: str | None) -> None:
        self._loss, self.own = loss, loss is None
        self.mean = _checked(loss, reduction)
        self._there: dict[torch.device, Loss] = {}
        self._ignored = _ignored(loss, reduction) if self.mean else None
        self._looked = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_there": {}, "_looked": False}

    def parted(self, batch: Any) -> tuple[Any, Any]:
        """Return what of a batch goes into the model, and what is compared with its outputs."""
        if self.own:
            return batch, None
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise ArgumentError(
                f"data: a batch that is a {type(batch).__name__} is not allowed; must be inputs and targets, "
                "or loss=None, where the model returns its loss"
            )
        return batch[0], batch[1]

    def check(self, batch: Any) -> None:
        """Refuse a mean over something other than the number of samples."""
        if self._ignored is None:
            return
        inputs, targets = self.parted(batch)
        if self.own:
            targets = inputs.get("labels") if isinstance(inputs, Mapping) else None
        if not hasattr(targets, "dtype"):
            return
        whole = not targets.dtype.is_floating_point if isinstance(targets, Tensor) else targets.dtype.kind in "iu"
        if whole and bool((targets == self._ignored).any()):
            why = _OWN_WHY if self.own else _WHY
            raise ArgumentError(f"loss: {self._loss!r} is not allowed with targets that it ignores; {why}")

    def of(self, outputs: Any, targets: Any, device: torch.device) -> Tensor:
        """Return the loss of a pass, a number of at least float32: it is to be weighted, and scaled."""
        found = _returned(outputs) if self._loss is None else self._on(device)(outputs, targets)
        if not isinstance(found, Tensor) or found.numel() != 1:
            raise ArgumentError(
                f"loss: it returned {_shown(found)}, which is not allowed; must be one number, a tensor"
            )
        found = found.reshape(())
        return found.float() if found.dtype in (torch.float16, torch.bfloat16) else found

    def look(self, outputs: Any, targets: Any, count: int, device: torch.device) -> None:
        """Say so where the loss of so many samples is not made of those of two parts of them; only the first time."""
        along = isinstance(outputs, Tensor) and outputs.ndim > 0 and len(outputs) == count
        if self._looked or self.own or count < 2 or not along:
            return
        self._looked = True
        spans = slice(0, count // 2), slice(count // 2, count)
        try:
            if structures.even("data", targets) != count:
                return
            whole, *each = (self._value(outputs, targets, some, device) for some in (slice(count), *spans))
        except Exception:  # a loss that fails on half a chunk may be right on a whole one
            return
        shares = [(some.stop - some.start) / count if self.mean else 1.0 for some in spans]
        together = sum(share * one for share, one in zip(shares, each, strict=True))
        off = _OFF_NARROW if outputs.dtype in (torch.float16, torch.bfloat16) else _OFF
        if abs(together - whole) > off * max(_LITTLE, abs(whole), *map(abs, each)):
            log.warning(_NOT_BY_CHUNK, count, whole, together, "mean" if self.mean else "sum")

    def _value(self, outputs: Tensor, targets: Any, some: slice, device: torch.device) -> float:
        """Return the loss of some samples; refuse one that draws, which is another each time."""
        before = generator_states()
        with torch.random.fork_rng([outputs.device] if outputs.is_cuda else []):
            found = self.of(outputs[some].detach().requires_grad_(), structures.taken(targets, some), device)
            if generator_states() != before:
                raise ArgumentError("loss: it draws")
        return float(found.detach())

    def _on(self, device: torch.device) -> Loss:
        """Return the loss with what it holds on a device."""
        assert self._loss is not None
        if device.type == "cpu" or not isinstance(self._loss, nn.Module):
            return self._loss
        if device not in self._there:
            self._there[device] = deepcopy(self._loss).to(device)
        return self._there[device]


def _returned(outputs: Any) -> Tensor:
    """Return the loss among what a model returns: `loss` of a dict or an object, the first of a tuple, or the whole."""
    found = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", outputs)
    found = found[0] if isinstance(found, tuple | list) and found else found
    if not isinstance(found, Tensor) or found.numel() != 1:
        raise ArgumentError(
            f"loss: None is not allowed with a model that returns {type(outputs).__name__}; it must return its loss: a "
            "number, the first of a tuple, or `loss` of a dict or an object (are the labels in the batch?)"
        )
    return found


def _shown(found: Any) -> str:
    return f"a tensor of shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__


def _checked(loss: Any, reduction: str | None) -> bool:
    """Return whether a loss is a mean; refuse what is neither that nor a sum."""
    if loss is not None and not callable(loss):
        raise ArgumentError(f"loss: {loss!r} is not allowed; must be a function of outputs and targets, or None")
    if isinstance(loss, nn.Module) and any(True for _ in loss.parameters()):
        raise ArgumentError(f"loss: {loss!r} has parameters, which is not allowed; they must be part of the model")
    check_held(loss)
    said = getattr(loss, "reduction", None)
    if said is not None and said not in _MEANS:
        raise ArgumentError(f"loss: reduction={said!r} is not allowed; must be one of {', '.join(_MEANS)}")
    if reduction is not None:
        checks.one_of("reduction", reduction, ("mean", "sum"))
        if said is not None and _MEANS[said] is not _MEANS[reduction]:
            raise ArgumentError(f"reduction: {reduction!r} is not allowed; must be {said!r}, as the loss itself says")
    mean = _MEANS[said or reduction or "mean"]
    if mean and isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss) and loss.weight is not None:
        raise ArgumentError(f"loss: {loss!r} with class weights is not allowed; {_WHY}")
    return mean


def _ignored(loss: Any, reduction: str | None) -> int | None:
    """Return the target that a loss does not count; where the model's own is said to be a mean, it is taken for one."""
    if loss is None:
        return _IGNORED if reduction is None else None
    if isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss):
        return loss.ignore_index
    return _IGNORED if loss in (functional.cross_entropy, functional.nll_loss) else None
