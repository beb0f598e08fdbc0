"""A search over multi-message designs: how many clusters, which orders, correlated or not, hybrid or not.

The paper leaves this open. Of some designs fewer rows than the threshold may be enough, which is slow to follow: they
are screened as if rows were only counted, which flatters none, and followed truly in the last stage.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice

from echelon import checks
from echelon.delays import Delay, per_worker
from echelon.errors import ArgumentError
from echelon.plan import Plan
from echelon.reprs import short_repr
from echelon.schemes import CodedPlan, multi_message
from echelon.schemes.multi_message import MOST_WORKERS
from echelon.search.halving import Order, Stage, halve, thinned
from echelon.simulation import SimulatedRounds, simulate_rounds

STAGES = (
    Stage(rounds=500, go_on=40, share=0.1, of_each=20),
    Stage(rounds=4_000, go_on=10, of_each=3),
    Stage(rounds=10_000),
)
FRESH = Stage(rounds=100_000)
MOST_DESIGNS = 20_000


@dataclass(frozen=True)
class Design:
    """A multi-message design: the arguments of `echelon.schemes.multi_message`."""

    workers: int
    load: int
    clusters: int
    order: int | None
    orders: tuple[int, ...] | None
    hybrid: bool

    __repr__ = short_repr

    @cached_property
    def plan(self) -> CodedPlan:
        """The plan of this design."""
        return multi_message(
            workers=self.workers,
            load=self.load,
            clusters=self.clusters,
            order=self.order,
            orders=self.orders,
            hybrid=self.hybrid,
        )

    @cached_property
    def spans(self) -> bool:
        """Whether fewer rows than the threshold of a slot may be enough."""
        return not all(slot.counting for slot in self.plan.slots)

    @property
    def kind(self) -> str:
        """Its orders in words."""
        kind = f"order {self.order}" if self.orders is None else f"orders {list(self.orders)}"
        return f"{kind}, hybrid" if self.hybrid else kind

    def __str__(self) -> str:
        return f"{self.clusters} cluster{'s' if self.clusters > 1 else ''}, {self.kind}"


@dataclass(frozen=True, slots=True)
class DesignSearch:
    """What a search found.

    design: the winner; score: its figures on fresh draws.
    finalists: the designs of the last stage with the figures they were chosen by, best first.
    tried: how many designs were looked at.
    """

    design: Design
    score: SimulatedRounds
    finalists: tuple[tuple[Design, SimulatedRounds], ...]
    tried: int

    __repr__ = short_repr


def optimise_multi_message(
    workers: int,
    load: int,
    delay: Delay | Sequence[Delay],
    *,
    max_messages: float | None = None,
    message_cost: float = 0.0,
    max_orders: int = 4,
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> DesignSearch:
    """Return the multi-message design with the least mean completion time plus `message_cost` times its load.

    workers, load: as in `multi_message`. delay: one law for all workers, or one per worker.
    max_messages: the largest communication load (mean number of messages received in a round) that is allowed.
    max_orders: the most messages of a worker in an uncorrelated design.

    All stages but the last count rows to thresholds. That takes designs of which fewer rows may be enough for slower
    than they are, so the best of these go on beside the best of the others. The last stage and the score of the winner
    are what the master would see.

    >>> from echelon.delays import RoundPace, ShiftedExponential
    >>> law = RoundPace(base=ShiftedExponential(shift=0.01, rate=10.0))
    >>> found = optimise_multi_message(6, 3, law, max_messages=6)
    >>> found.score.load <= 6
    True
    """
    checks.whole("workers", workers, least=1, most=MOST_WORKERS)
    checks.whole("load", load, least=1, most=workers)
    checks.number("message_cost", message_cost, least=0)
    checks.whole("max_orders", max_orders, least=1)
    checks.whole("seed", seed, least=0)
    most = float("inf") if max_messages is None else checks.number("max_messages", max_messages, above=0)
    laws = per_worker(delay, workers, "delay")
    designs = list(islice(multi_message_designs(workers, load, max_orders=max_orders), MOST_DESIGNS + 1))
    if len(designs) > MOST_DESIGNS:
        raise ArgumentError(f"max_orders: {max_orders} makes more than {MOST_DESIGNS} designs; must be less")

    def score(some: Sequence[Design], stage: Stage, seed: int) -> Iterator[tuple[SimulatedRounds, bool]]:
        """Yield figures, and whether they are the true ones."""
        followed = stage is STAGES[-1] or stage is FRESH
        for design in some:
            plan = design.plan if followed else Plan(design.plan.slots, design.plan.lanes)
            yield simulate_rounds(plan, laws, rounds=stage.rounds, seed=seed), followed or not design.spans

    def order(design: Design, scored: tuple[SimulatedRounds, bool]) -> Order:
        found, true = scored
        if found.load - 3 * found.load_error <= most:
            return 0.0, found.mean + message_cost * found.load
        # where rows are only counted, messages are as well those that come too late to be needed
        return None if true else (1.0, found.load)

    if progress is not None:
        checks.function("progress", progress)
    found = halve(designs, STAGES, score, order, seed=seed, kind=lambda design: design.spans, progress=progress)
    for i, (design, _) in enumerate(found.finalists):
        ((fresh, _),) = score([design], FRESH, found.fresh + i)
        if fresh.load <= most:
            finalists = tuple((design, scored) for design, (scored, _) in found.finalists)
            return DesignSearch(design, fresh, finalists, len(designs))
    raise ArgumentError(f"max_messages: {max_messages!r} is not allowed; no design of {len(designs)} needs so few")


def multi_message_designs(workers: int, load: int, *, max_orders: int, grid: int | None = None) -> Iterator[Design]:
    """Yield all designs that differ in what they do.

    grid: how many numbers of clusters are tried at most, and how many orders; None for all.
    """
    orders = thinned(range(1, load + 1), grid)
    for clusters in thinned([some for some in range(1, workers // load + 1) if workers % some == 0], grid):
        for order in orders:
            # not hybrid: a worker that has computed its whole cluster has sent as many rows as are needed anyway
            yield Design(workers, load, clusters, order, None, False)
        for hybrid in (False, True) if load == workers // clusters else (False,):
            for count in range(1, min(load, max_orders) + 1):
                for some in combinations(orders, count):
                    # one message after all computations is gradient coding, which is there already
                    if some != (load,) and (not hybrid or some[-1] == load):
                        yield Design(workers, load, clusters, None, some, hybrid)
