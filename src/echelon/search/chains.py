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
from echelon.reprs import short_repr
from echelon.schemes import Sequential
from echelon.search.chain_schemes import chain_schemes
from echelon.search.halving import Stage, halve
from echelon.simulation import ChainResult, simulate_chain

STAGES = (  # rounds are products
    Stage(rounds=100, runs=4, go_on=30),
    Stage(rounds=400, runs=10, go_on=8),
    Stage(rounds=1000, runs=30),
)
FRESH = Stage(rounds=1000, runs=60)
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

    __repr__ = short_repr


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
    """Return the scheme of least mean time per product, where products may take `delay` rounds after their first.

    law: as in `simulate_chain`. loads: of the products, over and over again; 1 each by default.
    most_results: blocks that a product is cut into at most, by default three times the workers: more of them split the
        work more finely, but each costs a message and coding.
    tolerances: mu to try; 0 pays only where workers that are not slow take exactly the same time.
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
    schemes = list(chain_schemes(workers, delay, most=most, waits=[(rule, wait) for rule in rules for wait in waits]))

    def score(some: Sequence[tuple[str, Sequential]], stage: Stage, seed: int) -> Iterator[ChainResult]:
        repeated = _repeated(loads, stage.rounds)
        for _, scheme in some:
            yield simulate_chain(scheme, laws, loads=repeated, links=links, seeds=stage.runs, seed=seed)

    found = halve(schemes, STAGES, score, lambda _, result: (result.mean,), seed=seed, progress=progress)
    winner = found.finalists[0][0]
    (fresh,) = score([winner], FRESH, found.fresh)
    best: dict[str, tuple[Sequential, float]] = {}
    for (kind, scheme), result in found.stages[0]:
        best.setdefault(kind, (scheme, result.mean))
    finalists = tuple((scheme, result.mean) for (_, scheme), result in found.finalists)
    return ChainSearch(winner[1], fresh, finalists, best, len(schemes))


def _repeated(loads: Sequence[float] | FloatArray | None, products: int) -> list[float]:
    listed = [1.0] if loads is None else list(loads)
    return [listed[i % len(listed)] for i in range(products)]
