"""What the layers of a network cost: a forward pass, a pass that hands the delta on, and one for the weights' gradient.

Layers b = 0 … B-1 come in the order of back-propagation, the last of the network first, at levels n_0 <= n_1 <= …
Those of one level are a block. A worker computes the block of level n on n + 1 chunks. On chunks that the block before
did not use it needs a forward pass and the deltas of all layers before, but no weights. So at the end of a block that
ends with layer b it has done

    C_b = (n_b + 1) (F + sum_{i <= b} D_i) + sum_{i <= b} (n_i + 1) W_i

(block, note 7): one call of automatic differentiation gives a block's weights and the delta below it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.errors import ArgumentError
from echelon.reprs import short_repr


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """What each pass over one chunk costs, in any unit; layers in the order of back-propagation.

    forward: the whole forward pass, F. deltas: D_i, from the derivative by a layer's output to that by its input; the
    last is 0, since the derivative by the data is not needed. weights: W_i, what the weights of a layer cost beyond
    that, each > 0.

    Results computed from them are in whole gradients of a chunk: F and all D_i and W_i together are 1. With F and
    D_i = 0 layers are coordinates as in (block, (5)).

    >>> costs = LayerCosts(forward=2.0, deltas=(1.0, 0.0), weights=(1.0, 4.0))
    >>> costs.total, costs.tasks([0, 1]).tolist()  # F + D_0 + W_0; then 2 W_1, and F + D_0 on the second chunk
    (8.0, [0.5, 1.375])
    """

    forward: float
    deltas: tuple[float, ...]
    weights: tuple[float, ...]

    __repr__ = short_repr

    def __post_init__(self) -> None:
        object.__setattr__(self, "forward", checks.number("forward", self.forward, least=0))
        for name, more in (("deltas", {"least": 0.0}), ("weights", {"above": 0.0})):
            values = getattr(self, name)
            if isinstance(values, str) or not hasattr(values, "__len__") or not len(values):
                raise ArgumentError(f"{name}: {values!r} is not allowed; must be a list of numbers, one per layer")
            checked = tuple(checks.number(f"{name}[{i}]", value, **more) for i, value in enumerate(values))
            object.__setattr__(self, name, checked)
        if len(self.deltas) != len(self.weights):
            raise ArgumentError(f"deltas: {len(self.deltas)} given; must be {len(self.weights)}, as many as weights")
        if self.deltas[-1]:
            raise ArgumentError(
                f"deltas[{len(self.deltas) - 1}]: {self.deltas[-1]!r} is not allowed; must be 0, since the last layer "
                "hands no delta on"
            )

    @property
    def total(self) -> float:
        """What the whole gradient of one chunk costs."""
        return self.forward + sum(self.deltas) + sum(self.weights)

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return len(self.weights)

    def work(self, levels: Sequence[int] | IntArray, workers: int) -> FloatArray:
        """Return c_n, the work of a worker until the end of the block of level n, shape (workers,).

        A level without layers ends with the one before it, as in `partition.work_until`.

        >>> LayerCosts(forward=2.0, deltas=(1.0, 0.0), weights=(1.0, 4.0)).work([0, 1], 3).tolist()
        [0.5, 1.875, 1.875]
        """
        checks.whole("workers", workers, least=1)
        listed = self._checked(levels, workers)
        return self.work_of_cuts(np.searchsorted(listed, np.arange(workers), side="right"))

    def work_of_cuts(self, cuts: IntArray) -> FloatArray:
        """Return c_n for cuts, shape (..., levels): how many layers have each level or a lower one."""
        before = np.concatenate([np.zeros_like(cuts[..., :1]), cuts[..., :-1]], axis=-1)
        deltas, weights = (np.cumsum([0.0, *some]) / self.total for some in (self.deltas, self.weights))
        chunks = np.arange(1, cuts.shape[-1] + 1)
        done = np.cumsum(chunks * (weights[cuts] - weights[before]), axis=-1)
        done += chunks * (self.forward / self.total + deltas[cuts])
        reached: FloatArray = np.maximum.accumulate(np.where(cuts > before, done, 0.0), axis=-1)
        return reached

    def tasks(self, levels: Sequence[int] | IntArray) -> FloatArray:
        """Return what the task of each block costs a worker, for `schemes.block_coordinate(tasks=...)`."""
        listed = self._checked(levels, None)
        return np.diff(self.work(listed, int(listed[-1]) + 1)[np.unique(listed)], prepend=0.0)

    def partition(self, levels: Sequence[int] | IntArray, workers: int) -> FloatArray:
        """Return the partition x with the same runtime whatever the times: x_n = (c_n - c_{n-1}) / (n+1).

        >>> LayerCosts(forward=0.0, deltas=(0.0, 0.0), weights=(1.0, 3.0)).partition([0, 2], 3).tolist()
        [0.25, 0.0, 0.75]
        """
        return partition_of_work(self.work(levels, workers))

    def _checked(self, levels: Sequence[int] | IntArray, workers: int | None) -> IntArray:
        most = 10**6 if workers is None else workers - 1
        listed = [checks.whole(f"levels[{i}]", level, least=0, most=most) for i, level in enumerate(levels)]
        if len(listed) != self.layers or sorted(listed) != listed:
            raise ArgumentError(f"levels: {listed} is not allowed; must be {self.layers}, one per layer, and not fall")
        return np.array(listed, dtype=np.int64)


def partition_of_work(work: FloatArray) -> FloatArray:
    """Return x with c_n = sum_{i <= n} (i+1) x_i, the inverse of `partition.work_until`."""
    return np.diff(work, prepend=0.0) / np.arange(1, len(work) + 1)
