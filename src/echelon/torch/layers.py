"""A network of torch as layers, in the order of back-propagation: measure them, and train them block by block."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from echelon import checks
from echelon.arrays import NumberArray
from echelon.blocks import LayerCosts
from echelon.errors import ArgumentError
from echelon.jobs import BlockJob
from echelon.schemes import BlockPlan
from echelon.torch.checking import by_chance, check_statistics, check_wide
from echelon.torch.measuring import measured
from echelon.torch.passes import Loss, Passes, pieces, trained


class Layers:
    """A feed-forward network and its loss, as layers by which a gradient is recovered.

    model: its modules run one after the other. A layer is a module with parameters to train and those without that
    follow it; what comes before the first of them belongs to it. The model itself is left alone until `load`.
    loss: ``loss(outputs, targets)``, a sum over the samples and not their mean: gradients of chunks are added up.

    Layer 0 is the last of the model: its gradient is known first. The state is one vector of all parameters, layer 0
    first, in the model's type, float32 or float64. A chunk's gradient must not depend on other samples or on
    chance, so that workers agree on it: batch statistics and dropout are refused while they train.

    >>> model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> layers = Layers(model, nn.MSELoss(reduction="sum"))
    >>> layers.sizes, layers.state().dtype
    ((3, 8), dtype('float32'))
    """

    def __init__(self, model: nn.Sequential, loss: Loss) -> None:
        if not isinstance(model, nn.Sequential) or type(model).forward is not nn.Sequential.forward:
            raise ArgumentError(f"model: {type(model).__name__} is not allowed; must be a torch.nn.Sequential")
        if not callable(loss) or getattr(loss, "reduction", "sum") != "sum":
            raise ArgumentError(f"loss: {loss!r} is not allowed; must be a function that sums, reduction='sum'")
        self._layers = _layers(model)
        _check(model, self._layers)
        self._passes = Passes(self._layers, loss)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of parameters of each layer."""
        return tuple(sum(weight.numel() for weight in trained(layer)) for layer in self._layers)

    def state(self) -> NumberArray:
        """Return the parameters of the model as they are now, a copy."""
        return np.asarray(torch.cat([weight.detach().reshape(-1) for weight in self._weights()]).numpy())

    def load(self, state: NumberArray) -> None:
        """Write a state into the model, such as the result of a job."""
        flat = torch.from_numpy(np.array(state))
        if flat.shape != (sum(self.sizes),):
            raise ArgumentError(f"state: shape {tuple(flat.shape)} given; must be ({sum(self.sizes)},)")
        with torch.no_grad():
            for weight, piece in pieces(flat, self._weights()):
                weight.copy_(piece)

    def measure(self, chunk: tuple[Any, Any], *, repeats: int = 30) -> LayerCosts:
        """Return the seconds that the passes over a chunk take on this machine, the median of `repeats`.

        chunk: inputs and targets, with as many samples as the chunks of the job will have. Workers compute on one
        thread each: `torch.set_num_threads(1)` makes this process like them.

        >>> layers = Layers(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)), nn.MSELoss(reduction="sum"))
        >>> costs = layers.measure((np.ones((4, 3), "float32"), np.ones((4, 1), "float32")), repeats=3)
        >>> costs.layers, costs.total > 0
        (2, True)
        """
        checks.whole("repeats", repeats, least=1)
        return measured(self._passes, len(self._layers), self.state(), _arrays("chunk", chunk), repeats)

    def job(
        self,
        *,
        plan: BlockPlan,
        chunks: Sequence[tuple[Any, Any]] | None = None,
        load: Callable[[int], tuple[Any, Any]] | None = None,
        rate: float | None = None,
        update: Callable[[NumberArray, NumberArray], NumberArray] | None = None,
        iterations: int | None = None,
        until: Callable[[NumberArray], bool] | None = None,
        name: str | None = None,
        tolerance: float | None = None,
    ) -> BlockJob:
        """Return a job that trains from the model's parameters as they are now; its result is a state.

        plan: levels of the layers, ``block_coordinate(workers, levels=found.levels, tasks=found.tasks)``.
        chunks: inputs and targets of each, one per worker, arrays or tensors on the CPU; or `load`, as in
            `BlockJob`.
        rate: plain descent, ``state - rate * gradient`` with the gradient summed over all samples; or
        update: ``update(state, gradient)``, any other way to go on, which must keep the type of the state.

        A worker keeps what its forward passes found until the round is over.
        """
        if not isinstance(plan, BlockPlan) or plan.blocks[-1].stop != len(self._layers):
            raise ArgumentError(f"plan: not allowed; must be a block_coordinate with {len(self._layers)} layers")
        if (rate is None) == (update is None):
            raise ArgumentError("rate, update: one of them must be given, not both")
        step = partial(_descended, checks.number("rate", rate, above=0)) if update is None else update
        held = None if chunks is None else [_arrays(f"chunks[{i}]", chunk) for i, chunk in enumerate(chunks)]
        return BlockJob(
            partial=self._passes.gradient,
            prepare=self._passes.forward,
            update=step,
            state=self.state(),
            plan=plan,
            chunks=held,
            load=load,
            iterations=iterations,
            until=until,
            name=name,
            tolerance=tolerance,
        )

    def _weights(self) -> list[nn.Parameter]:
        return [weight for layer in self._layers for weight in trained(layer)]


def _descended(rate: float, state: NumberArray, gradient: NumberArray) -> NumberArray:
    return state - rate * gradient


def _modules(model: nn.Sequential) -> Iterator[nn.Module]:
    """Yield the modules that a model runs, one after the other, however nested."""
    for module in model:
        if type(module) is nn.Sequential:
            yield from _modules(module)
        else:
            yield module


def _layers(model: nn.Sequential) -> list[nn.Sequential]:
    """Return the layers, in the order of back-propagation."""
    found: list[list[nn.Module]] = [[]]
    for module in _modules(model):
        if trained(module) and any(map(trained, found[-1])):
            found.append([])
        found[-1].append(module)
    return [nn.Sequential(*modules) for modules in reversed(found)]


def _check(model: nn.Sequential, layers: Sequence[nn.Sequential]) -> None:
    weights = [weight for layer in layers for weight in trained(layer)]
    check_wide(weights)
    if len({id(weight) for weight in weights}) < len(weights):
        raise ArgumentError("model: layers that share parameters are not allowed; the gradient of each must be its own")
    if any(weight.device.type != "cpu" for weight in weights):
        raise ArgumentError("model: parameters elsewhere are not allowed; must be on the CPU")
    check_statistics(model)
    for module in by_chance(model):
        raise ArgumentError(
            f"model: {type(module).__name__} is not allowed while it trains; all workers must find the same gradient "
            "of a chunk, without random draws (eval() is fine)"
        )


def _arrays(name: str, chunk: Any) -> tuple[NumberArray, NumberArray]:
    """Return inputs and targets as arrays, which reach workers through shared memory."""
    if not isinstance(chunk, tuple | list) or len(chunk) != 2:
        raise ArgumentError(f"{name}: {type(chunk).__name__} is not allowed; must be inputs and targets")
    inputs, targets = (np.asarray(some.detach() if isinstance(some, Tensor) else some) for some in chunk)
    return inputs, targets
