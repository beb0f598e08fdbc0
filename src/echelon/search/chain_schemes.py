"""All schemes for chains of products that a search tries, or a thinner grid of them: DIP, IDIP and T = 0 baselines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from echelon.schemes import (
    Sequential,
    diagonal_interleaved,
    improved_diagonal_interleaved,
    polynomial_products,
    uncoded_products,
)
from echelon.schemes.sequential import near_square
from echelon.search.halving import thinned
from echelon.stragglers import Arbitrary, Bursts, StragglerModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """How many values of each parameter are tried at most; None for all.

    blocks: of those that a polynomial code cuts a product into; results: of those that DIP does.
    spreads: of lambda; delays: of those shorter than the longest.
    windows, counts, at_once, lengths: of W, of stragglers anywhere, of workers that straggle at once, and of bursts.
    """

    blocks: int | None = None
    results: int | None = None
    spreads: int | None = None
    delays: int | None = None
    windows: int | None = None
    counts: int | None = None
    at_once: int | None = None
    lengths: int | None = None


ALL = Grid()
THIN = Grid(blocks=12, results=6, spreads=3, delays=1, windows=2, counts=12, at_once=4, lengths=2)


def chain_schemes(
    workers: int, delay: int, *, most: int, waits: Sequence[tuple[str, float]], grid: Grid = ALL
) -> Iterator[tuple[str, Sequential]]:
    """Yield schemes and their kinds: uncoded, polynomial, dip, idip or bursts.

    most: blocks that a product is cut into at most. waits: waiting rules of DIP and IDIP, each with its mu.
    """
    yield "uncoded", uncoded_products(workers)
    for results in thinned(range(1, min(workers, most) + 1), grid.blocks):
        x, y = near_square(results)
        yield "polynomial", polynomial_products(workers, x=x, y=y)
    if not delay:
        return
    # spreads matter little, and shorter delays less: spreads are tried at the longest delay only
    choices = [(delay, spread) for spread in thinned(range(1, workers + 1), grid.spreads)]
    choices += [(shorter, 1) for shorter in thinned(range(1, delay), grid.delays)]
    for rule, tolerance in waits:
        for results in thinned(range(min(workers, most), most + 1), grid.results):
            x, y = near_square(results)
            for t, spread in choices:
                yield (
                    "dip",
                    diagonal_interleaved(workers, x=x, y=y, delay=t, spread=spread, tolerance=tolerance, waiting=rule),
                )
        for kind, model in _models(workers, delay, most, grid):
            yield kind, improved_diagonal_interleaved(workers, model, tolerance=tolerance, waiting=rule)


def _models(workers: int, delay: int, most: int, grid: Grid) -> Iterator[tuple[str, StragglerModel]]:
    """Yield patterns of stragglers for which a product is not cut into more blocks than `most`."""
    for window in thinned(range(2, delay + 2), grid.windows):
        anywhere = [Arbitrary(count=count, window=window) for count in range(1, workers * window)]
        for model in thinned([one for one in anywhere if workers * window - one.most <= most], grid.counts):
            yield "idip", model
        for at_once in thinned(range(1, workers), grid.at_once):
            for length in thinned(range(1, window + 1), grid.lengths):
                bursts = Bursts(workers_at_once=at_once, length=length, window=window)
                if workers * window - bursts.most <= most:
                    yield "bursts", bursts
