"""Block coordinate gradient coding: how many of L coordinates get how much redundancy, to get the gradient soonest.

N workers compute coordinates in order of rising redundancy; those of level n can do without n workers and cost each
worker n + 1 subsets of the data. `METHODS` finds the partition x, each called as (workers, coordinates, law, unit):

    exact        optimal and certified; all workers alike, with a law for which `is_continuous` holds
    subgradient  any laws, by draws (the paper's method)
    lp           any laws or recorded times, by draws; slow links, a cap on storage
    t, f         closed forms, at once for any N

Layers of a network can't be cut, and redundancy costs them forward and delta passes, too: `optimise_layers` finds their
levels from measured `LayerCosts`.

>>> from echelon.delays import ShiftedExponential
>>> law = ShiftedExponential(shift=50.0, rate=1e-3)
>>> best = METHODS["exact"](20, 20_000, law, 2.5)  # block, section VI: M b / N = 50 / 20
>>> round(best.expected / 1e6, 3), round(METHODS["t"](20, 20_000, law, 2.5).expected / 1e6, 3)
(70.494, 78.853)
"""

from collections.abc import Callable

from echelon.blocks.baselines import baselines, ferdinand, single_block, tandon, uncoded
from echelon.blocks.closed_forms import equalised, optimise_f, optimise_t, x_f, x_t
from echelon.blocks.continuous import is_continuous
from echelon.blocks.exact import optimise_exact
from echelon.blocks.layer_costs import LayerCosts
from echelon.blocks.layers import LayerLevels, levels_by_cost, optimise_layers
from echelon.blocks.linear_program import optimise_lp
from echelon.blocks.order_statistics import order_harmonic_means, order_means
from echelon.blocks.partition import Partition, blocks_of, levels, rounded, runtime_of, runtime_of_levels
from echelon.blocks.runtime import Runtime, expected_runtime
from echelon.blocks.subgradient import optimise_subgradient

METHODS: dict[str, Callable[..., Partition]] = {
    "exact": optimise_exact,
    "subgradient": optimise_subgradient,
    "lp": optimise_lp,
    "t": optimise_t,
    "f": optimise_f,
}

__all__ = [
    "METHODS", "LayerCosts", "LayerLevels", "Partition", "Runtime", "baselines", "blocks_of", "equalised",
    "expected_runtime", "ferdinand", "is_continuous", "levels", "levels_by_cost", "optimise_exact", "optimise_f",
    "optimise_layers", "optimise_lp", "optimise_subgradient", "optimise_t", "order_harmonic_means", "order_means",
    "rounded", "runtime_of", "runtime_of_levels", "single_block", "tandon", "uncoded", "x_f", "x_t",
]  # fmt: skip
