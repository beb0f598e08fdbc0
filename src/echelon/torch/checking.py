"""What a model must be like for all workers to find the same gradient of a chunk."""

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from echelon.errors import ArgumentError

_NARROW = (torch.float32, torch.bfloat16, torch.float16)
_CAST = (torch.bfloat16, torch.float16)
_OPTIONS = tuple(signature(torch.compile).parameters)[1:]
_BY_CHANCE = (nn.modules.dropout._DropoutNd, nn.RReLU)


def check_weights(weights: Sequence[Tensor]) -> None:
    """Refuse a model without parameters to train, or with types that have no common type of messages."""
    if not weights:
        raise ArgumentError("model: it has no parameters to train; must have at least one")
    if any(nn.parameter.is_lazy(weight) for weight in weights):
        raise ArgumentError("model: parameters without a shape are not allowed; it must have been called once")
    types = {weight.dtype for weight in weights}
    if types != {torch.float64} and not types.issubset(_NARROW):
        raise ArgumentError(
            "model: parameters of such types are not allowed; must be all float64, or of float32, bfloat16 and float16"
        )


def check_wide(weights: Sequence[Tensor]) -> None:
    """Refuse types of parameters other than float32 or float64."""
    check_weights(weights)
    if len({weight.dtype for weight in weights}) > 1 or weights[0].dtype not in (torch.float32, torch.float64):
        raise ArgumentError("model: parameters of other types are not allowed; must be all float32 or all float64")


def check_replicas(model: nn.Module) -> None:
    """Refuse modules that talk to other processes in the middle of a pass."""
    for module in model.modules():
        if isinstance(module, nn.SyncBatchNorm):
            raise ArgumentError(
                "model: SyncBatchNorm is not allowed, it waits for all workers in every pass; must be BatchNorm, which "
                "normalises each chunk by itself"
            )


def checked_autocast(autocast: torch.dtype | None) -> torch.dtype | None:
    """Return the type in which passes compute what they may; None for that of the model."""
    if autocast is not None and not (isinstance(autocast, torch.dtype) and autocast in _CAST):
        raise ArgumentError(f"autocast: {autocast!r} is not allowed; must be torch.bfloat16, torch.float16 or None")
    return autocast


def checked_compiled(compiled: object) -> Mapping[str, Any] | None:
    """Return options of `torch.compile`; None where nothing is compiled.

    >>> checked_compiled(True), checked_compiled({"dynamic": True}), checked_compiled(False)
    ({}, {'dynamic': True}, None)
    """
    if isinstance(compiled, Mapping):
        unknown = sorted(map(str, compiled.keys() - _OPTIONS))
        if unknown:
            raise ArgumentError(f"compiled: {', '.join(unknown)}: not allowed; must be among {', '.join(_OPTIONS)}")
        return dict(compiled)
    if not isinstance(compiled, bool):
        raise ArgumentError(f"compiled: {compiled!r} is not allowed; must be True, False or options of torch.compile")
    return {} if compiled else None


def check_statistics(model: nn.Module) -> None:
    """Refuse modules that use, or keep, statistics of a batch."""
    for module in model.modules():
        by_batch = isinstance(module, nn.modules.batchnorm._BatchNorm)
        tracks = isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats
        if (module.training and (by_batch or tracks)) or (by_batch and not module.track_running_stats):
            raise ArgumentError(
                f"model: {type(module).__name__} is not allowed while it trains; a chunk's gradient must not depend on "
                "statistics of a batch, which change from worker to worker (eval(), GroupNorm or LayerNorm are fine)"
            )


def by_chance(model: nn.Module) -> Iterator[nn.Module]:
    """Yield modules whose output is random."""
    return (module for module in model.modules() if isinstance(module, _BY_CHANCE) and module.training)
