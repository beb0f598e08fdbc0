"""What a model must be like for all workers to find the same gradient of a chunk."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from echelon.errors import ArgumentError

_TYPES = (torch.float32, torch.float64)
_BY_CHANCE = (nn.modules.dropout._DropoutNd, nn.RReLU)


def check_trained(weights: Sequence[Tensor]) -> None:
    """Refuse a model without parameters to train, or with types other than float32 or float64."""
    if not weights:
        raise ArgumentError("model: it has no parameters to train; must have at least one")
    if any(nn.parameter.is_lazy(weight) for weight in weights):
        raise ArgumentError("model: parameters without a shape are not allowed; it must have been called once")
    if len({weight.dtype for weight in weights}) > 1 or weights[0].dtype not in _TYPES:
        raise ArgumentError("model: parameters of other types are not allowed; must be all float32 or all float64")


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
