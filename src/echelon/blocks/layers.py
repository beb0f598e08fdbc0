"""Levels for the layers of a network: prefer it where blocks can't be cut anywhere, and cost what was measured.

Layers are indivisible, and redundancy costs forward and delta passes on every further chunk (see `layer_costs`). So the
levels are found by a search on tau = max_b T_(N-n_b) C_b. Work that does not fall from level to level is that of some
partition x, so the few best are compared by their exact expected runtimes, with the best single block among them:
where one block is best, the answer is one block, and it says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.blocks.closed_forms import equalised
from echelon.blocks.layer_costs import LayerCosts, partition_of_work
from echelon.blocks.layer_search import LayerSearch
from echelon.blocks.partition import Partition, checked_partition
from echelon.blocks.sampling import assess, checked_laws, sorted_times
from echelon.delays import Delay
from echelon.errors import ArgumentError
from echelon.reprs import short_repr
from echelon.seeds import generators

_FINALISTS = 16  # cuts whose expected runtimes are compared exactly
_SINGLES = 3  # single blocks among them, in addition to no redundancy at all
_EQUAL = 1e-9  # a share of the runtime that is not worth a second block


@dataclass(frozen=True, slots=True)
class LayerLevels:
    """How much redundancy each layer has, and what that is worth.

    levels: of each layer, in the order of back-propagation. tasks: what the task of each block costs.
    expected: expected time of a round; error: its standard error where it was sampled, else that of quadrature.
    single, single_level: expected time and level of the best single block. uncoded: expected time without redundancy.
    exhaustive: whether all ways to give levels were tried, or a climb found these.
    why: one sentence on what was found.
    """

    levels: tuple[int, ...]
    tasks: tuple[float, ...]
    expected: float
    error: float
    single: float
    single_level: int
    uncoded: float
    exhaustive: bool
    why: str

    __repr__ = short_repr

    @property
    def one_block(self) -> bool:
        """Whether all layers have one level."""
        return len(self.tasks) == 1

    @property
    def gain(self) -> float:
        """What share of the time of the best single block is saved."""
        return 1 - self.expected / self.single


def optimise_layers(
    workers: int,
    costs: LayerCosts,
    law: Delay | Sequence[Delay],
    unit: float = 1.0,
    *,
    storage: int | None = None,
    draws: int = 2_000,
    most: int = 20_000,
    seed: int = 1,
) -> LayerLevels:
    """Return the levels of least expected time, of all where there are at most `most` ways, else near the least.

    law: one for all workers, or one per worker. unit times a draw is what the whole gradient of one chunk takes.
    storage: chunks that a worker can hold at most, so that levels stay below it (block, note 8).
    draws: on which the search compares levels; the few best are then compared exactly, or on fresh draws.

    >>> from echelon.delays import ShiftedExponential
    >>> law = ShiftedExponential(shift=0.1, rate=1.0)
    >>> cheap = optimise_layers(4, LayerCosts(forward=0.1, deltas=(0.1, 0.0), weights=(1.0, 2.0)), law)
    >>> cheap.levels, round(cheap.expected, 3), round(cheap.gain, 3)
    ((0, 3), 1.242, 0.113)
    >>> optimise_layers(4, LayerCosts(forward=1.0, deltas=(1.0, 0.0), weights=(1.0, 1.0)), law).why
    'one block at level 3 is best: forward and delta passes on further chunks cost more than early blocks save'
    """
    checks.whole("workers", workers, least=1)
    if not isinstance(costs, LayerCosts):
        raise ArgumentError(f"costs: {costs!r} is not allowed; must be LayerCosts")
    checks.number("unit", unit, above=0)
    held = workers if storage is None else checks.whole("storage", storage, least=1, most=workers)
    checks.whole("draws", draws, least=1, most=10**6)
    checks.whole("most", most, least=0, most=10**6)
    laws = checked_laws(law, workers)
    times = sorted_times(laws, workers, draws, generators(seed)[0])
    search = LayerSearch(costs, times, held)
    exhaustive = search.ways <= most
    tried = search.best(search.every(), _FINALISTS) if exhaustive else _climbed(search, costs, times, held)

    def judged(cuts: IntArray) -> Partition:
        work = np.pad(costs.work_of_cuts(cuts), (0, workers - held), mode="edge")
        # the same fresh draws for all, where they are needed: the cuts are compared, not the draws
        return assess(partition_of_work(work), laws, unit, "layers", generators(seed)[1])

    singles = search.singles()
    ahead = search.best(singles, _SINGLES)
    rivals = {int(np.argmax(cuts)): judged(cuts) for cuts in [singles[0], *ahead]}
    level = min(rivals, key=lambda n: rivals[n].expected)
    several = [(judged(cuts), cuts) for cuts in tried if ((cuts > 0) & (cuts < costs.layers)).any()]
    best, cuts = min(several, key=lambda pair: pair[0].expected, default=(rivals[level], singles[level]))
    if best.expected >= rivals[level].expected * (1 - _EQUAL):
        best, cuts = rivals[level], singles[level]
    levels = _levels(cuts)
    return LayerLevels(
        levels=tuple(levels.tolist()),
        tasks=tuple(costs.tasks(levels).tolist()),
        expected=best.expected,
        error=best.error,
        single=rivals[level].expected,
        single_level=level,
        uncoded=rivals[0].expected,
        exhaustive=exhaustive,
        why=_why(levels, 1 - best.expected / rivals[level].expected, level, costs, times, held),
    )


def levels_by_cost(x: FloatArray, costs: Sequence[float] | FloatArray) -> IntArray:
    """Return the level of each coordinate, where coordinates cost different amounts and x is in equal units of work.

    x: a partition by one of `METHODS`; only its shares count. costs: of each coordinate, in any unit. Each cut is put
    where the cumulative cost is nearest to that of x, so that blocks cost what x says as nearly as coordinates allow.
    `schemes.block_coordinate(workers, levels=..., costs=...)` makes a plan of it.

    >>> levels_by_cost(np.array([1.0, 0.0, 1.0]), [4.0, 1.0, 1.0, 2.0]).tolist()
    [0, 2, 2, 2]
    """
    x = checked_partition("x", x)
    values = np.asarray(costs, dtype=np.float64)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all() or values.min() <= 0:
        raise ArgumentError("costs: not allowed; must be a row of finite numbers > 0, one per coordinate")
    ends = np.cumsum(x) / x.sum()
    middles = (np.cumsum(values) - values / 2) / values.sum()
    # a cut goes behind a coordinate whose middle lies before it: nowhere else is the cumulative cost nearer
    found: IntArray = np.minimum(np.searchsorted(ends, middles), np.flatnonzero(x)[-1])
    return found


def _climbed(search: LayerSearch, costs: LayerCosts, times: FloatArray, held: int) -> IntArray:
    """Return where climbs end: from the best single blocks, and from the partition that suits mean times, rounded."""
    means = times.mean(axis=0)
    x = equalised(np.maximum(means, 1e-9 * means[-1]), 1.0)  # recorded times may be 0
    x[held - 1] += x[held:].sum()
    suited = levels_by_cost(x[:held], np.add(costs.weights, costs.deltas))
    starts = [*search.best(search.singles(), _SINGLES), np.searchsorted(suited, np.arange(held), side="right")]
    return np.unique([search.climbed(start) for start in starts], axis=0)


def _levels(cuts: IntArray) -> IntArray:
    """Return the level of each layer."""
    return np.repeat(np.arange(len(cuts)), np.diff(cuts, prepend=0))


def _why(levels: IntArray, gain: float, single: int, costs: LayerCosts, times: FloatArray, held: int) -> str:
    used = np.unique(levels).tolist()
    if len(used) > 1:
        named = ", ".join(map(str, used))
        return f"{len(used)} blocks at levels {named} save {100 * gain:.2g} % of what one block at level {single} takes"
    said = f"one block at level {used[0]} is best: "
    if costs.layers == 1:
        return said + "there is one layer only"
    if used[0] == 0:
        return said + "redundancy costs more than waiting for all workers"
    free = LayerSearch(LayerCosts(0.0, (0.0,) * costs.layers, costs.weights), times, held)
    cut = free.climbed(free.best(free.singles(), 1)[0])
    if len(np.unique(_levels(cut))) > 1:
        return said + "forward and delta passes on further chunks cost more than early blocks save"
    return said + "no layer is small enough for an early block to save time"
