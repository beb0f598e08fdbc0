"""A search over schemes for chains of products: DIP, IDIP for stragglers anywhere or in bursts, and T = 0 baselines.

Which one is best depends on how workers straggle, so schemes are tried in simulation: all on few products and the same
draws, the better ones on more, and the winner again on draws that had no part in choosing it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from echelon import checks
from echelon.arrays import FloatArray
from echelon.delays import Delay, per_worker
from echelon.endings import WAITING
from echelon.schemes import (
    Sequential,
    diagonal_interleaved,
    improved_diagonal_interleaved,
    polynomial_products,
    uncoded_products,
)
from echelon.schemes.sequential import near_square
from echelon.simulation import ChainResult, simulate_chain
from echelon.stragglers import Arbitrary, Bursts, StragglerModel

STAGES = ((100, 4, 30), (400, 10, 8), (1000, 30, 1))  # products, seeds, and how many schemes go on
FRESH_SEEDS = 60
TOLERANCES = (0.0, 0.1, 0.25)


@dataclass(frozen=True, slots=True)
class ChainSearch:
    """What a search found.

    scheme: the winner; score: what it takes, on fresh draws.
    finalists: the schemes of the last stage with the mean times they were chosen by, best first.
    best: the best scheme of each kind in the first stage and its mean time there; kinds are dip, idip, bursts,
        polynomial and uncoded.
    tried: how many schemes were looked at.
    """

    scheme: Sequential
    score: ChainResult
    finalists: tuple[tuple[Sequential, float], ...]
    best: dict[str, tuple[Sequential, float]]
    tried: int


def optimise_chain(
    workers: int,
    law: Delay | Sequence[Delay],
    *,
    delay: int,
    loads: Sequence[float] | FloatArray | None = None,
    most_results: int | None = None,
    tolerances: Sequence[float] = TOLERANCES,
    waiting: Sequence[str] = ("due",),
    links: Sequence[float] | FloatArray | None = None,
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> ChainSearch:
    """Return the scheme of least mean time a product, where products may take `delay` rounds after their first.

    law: as in `simulate_chain`. loads: of the products, over and over again; 1 each by default.
    most_results: blocks that a product is cut into at most, by default three times the workers: more of them split the
        work more finely, but each costs a message and coding.
    tolerances: mu to try; 0 only pays where workers that are not slow take exactly the same time.
    waiting: waiting rules to try with DIP and IDIP, names of `endings.WAITING`; "fastest" is the paper's. Of all laws
        that we tried "due" was never slower.

    >>> from echelon.delays import Deterministic, Straggler
    >>> law = Straggler(base=Deterministic(time=1.0), probability=0.3, slowdown=5.0)
    >>> found = optimise_chain(2, law, delay=1, most_results=3, tolerances=[0.0])
    >>> found.score.mean < found.best["uncoded"][1]
    True
    """
    checks.whole("workers", workers, least=1, most=1000)
    checks.whole("delay", delay, least=0, most=100)
    most = 3 * workers if most_results is None else checks.whole("most_results", most_results, least=1, most=10**4)
    waits = [checks.number("tolerances", tolerance, least=0) for tolerance in tolerances]
    rules = [checks.one_of("waiting", rule, WAITING) for rule in waiting]
    laws = per_worker(law, workers, "law")
    kinds = list(_schemes(workers, delay, most, [(rule, wait) for rule in rules for wait in waits]))
    left = [scheme for _, scheme in kinds]
    steps = len(left) + sum(min(len(left), count) for _, _, count in STAGES[:-1])
    done = 0
    scored: list[tuple[Sequential, float]] = []
    best: dict[str, tuple[Sequential, float]] = {}
    for stage, (products, seeds, going_on) in enumerate(STAGES):
        some = _repeated(loads, products)
        scored = []
        for scheme in left:
            found = simulate_chain(scheme, laws, loads=some, links=links, seeds=seeds, seed=seed + stage)
            scored.append((scheme, found.mean))
            done += 1
            if progress is not None:
                progress(done, steps)
        if not stage:
            for (kind, _), result in zip(kinds, scored, strict=True):
                best[kind] = min(best.get(kind, result), result, key=lambda pair: pair[1])
        scored.sort(key=lambda pair: pair[1])
        left = [scheme for scheme, _ in scored[:going_on]]
    fresh = simulate_chain(
        left[0], laws, loads=_repeated(loads, STAGES[-1][0]), links=links, seeds=FRESH_SEEDS, seed=seed + len(STAGES)
    )
    return ChainSearch(left[0], fresh, tuple(scored), best, len(kinds))


def _repeated(loads: Sequence[float] | FloatArray | None, products: int) -> list[float]:
    listed = [1.0] if loads is None else list(loads)
    return [listed[i % len(listed)] for i in range(products)]


def _schemes(workers: int, delay: int, most: int, waits: list[tuple[str, float]]) -> Iterator[tuple[str, Sequential]]:
    yield "uncoded", uncoded_products(workers)
    for results in range(1, min(workers, most) + 1):
        x, y = near_square(results)
        yield "polynomial", polynomial_products(workers, x=x, y=y)
    if not delay:
        return
    for rule, tolerance in waits:
        for results in range(min(workers, most), most + 1):
            x, y = near_square(results)
            # spreads matter little, and shorter delays less: all spreads are tried at the longest delay only
            choices = [(delay, spread) for spread in range(1, workers + 1)] + [(t, 1) for t in range(1, delay)]
            for t, spread in choices:
                yield (
                    "dip",
                    diagonal_interleaved(workers, x=x, y=y, delay=t, spread=spread, tolerance=tolerance, waiting=rule),
                )
        for kind, model in _models(workers, delay):
            if workers * model.window - model.most <= most:
                yield kind, improved_diagonal_interleaved(workers, model, tolerance=tolerance, waiting=rule)


def _models(workers: int, delay: int) -> Iterator[tuple[str, StragglerModel]]:
    for window in range(2, delay + 2):
        for count in range(1, workers * window):
            yield "idip", Arbitrary(count=count, window=window)
        for at_once in range(1, workers):
            for length in range(1, window + 1):
                yield "bursts", Bursts(workers_at_once=at_once, length=length, window=window)
