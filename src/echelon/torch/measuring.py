"""What the passes over the layers of a network cost here, by the clock."""

from statistics import median
from time import perf_counter
from typing import Any

from echelon.arrays import NumberArray
from echelon.blocks import LayerCosts
from echelon.torch.passes import Passes

_LEAST = 0.01  # least share of a layer's passes that its weights take, whatever the noise


def measured(passes: Passes, layers: int, state: NumberArray, chunk: tuple[Any, Any], repeats: int) -> LayerCosts:
    """Return seconds, the median of repeats after one that warms up.

    The weights of a layer are the time of its whole backward pass beyond passing the delta on; the last layer, which
    passes none on, has weights only.
    """
    forwards: list[float] = []
    wholes: list[list[float]] = [[] for _ in range(layers)]
    deltas: list[list[float]] = [[] for _ in range(layers)]
    for _ in range(repeats + 1):
        began = perf_counter()
        forward = passes.forward(state, chunk)
        forwards.append(perf_counter() - began)
        for layer in range(layers):
            began = perf_counter()
            passes.gradient(forward, chunk, slice(layer, layer + 1))
            wholes[layer].append(perf_counter() - began)
            if layer < layers - 1:
                began = perf_counter()
                passes.delta(forward, layer)
                deltas[layer].append(perf_counter() - began)
    whole = [median(some[1:]) for some in wholes]
    delta = [*(median(some[1:]) for some in deltas[:-1]), 0.0]
    weights = [max(both - handed, _LEAST * both) for both, handed in zip(whole, delta, strict=True)]
    return LayerCosts(forward=median(forwards[1:]), deltas=tuple(delta), weights=tuple(weights))
