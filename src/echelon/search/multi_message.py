"""A search over multi-message designs: how many clusters, which orders, correlated or not, hybrid or not.

The paper leaves this open. Designs are screened on few rounds and the same draws for all, the better ones on more
rounds, and the winner is scored again on draws that had no part in choosing it, so that its figures are not its luck.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice

from echelon import checks
from echelon.delays import Delay, per_worker
from echelon.errors import ArgumentError
from echelon.schemes import CodedPlan, multi_message
from echelon.schemes.multi_message import MOST_WORKERS
from echelon.simulation import SimulatedRounds, simulate_rounds

STAGES = ((500, 0.1), (4_000, 0.1), (30_000, 0.0))  # rounds, and which share of the designs goes on; one at least
RESCORED_ROUNDS = 100_000
MOST_DESIGNS = 20_000
_FEW = 40  # designs that go on from a stage at least


@dataclass(frozen=True)
class Design:
    """A multi-message design: the arguments of `echelon.schemes.multi_message`."""

    workers: int
    load: int
    clusters: int
    order: int | None
    orders: tuple[int, ...] | None
    hybrid: bool

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

    def __str__(self) -> str:
        kind = f"order {self.order}" if self.orders is None else f"orders {list(self.orders)}"
        plural = "s" if self.clusters > 1 else ""
        return f"{self.clusters} cluster{plural}, {kind}{', hybrid' if self.hybrid else ''}"


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

    workers, load: as in `multi_message`. delay: one law for all workers, or one a worker.
    max_messages: the largest communication load (mean number of messages received a round) that is allowed.
    max_orders: the most messages a worker of an uncorrelated design.

    Rows are counted to thresholds: designs of which fewer rows may do are better than they are scored here.

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
    designs = list(islice(_designs(workers, load, max_orders), MOST_DESIGNS + 1))
    if len(designs) > MOST_DESIGNS:
        raise ArgumentError(f"max_orders: {max_orders} makes more than {MOST_DESIGNS} designs; must be less")
    search = _Search(laws, most, message_cost, progress, designs)
    scored: list[tuple[Design, SimulatedRounds]] = []
    for stage, (rounds, share) in enumerate(STAGES):
        scored = search.screen(designs, rounds, seed + stage)
        designs = [design for design, _ in scored[: max(_FEW, round(share * len(scored)))]]
    for i, design in enumerate(designs):
        score = search.score(design, RESCORED_ROUNDS, seed + len(STAGES) + i)
        if score.load <= most:
            return DesignSearch(design, score, tuple(scored), search.tried)
    raise ArgumentError(f"max_messages: {max_messages!r} is not allowed; no design of {search.tried} needs so few")


class _Search:
    def __init__(
        self,
        laws: list[Delay],
        most: float,
        message_cost: float,
        progress: Callable[[int, int], None] | None,
        designs: list[Design],
    ) -> None:
        self._laws, self._most, self._cost, self._progress = laws, most, message_cost, progress
        self.tried = len(designs)
        self._done, self._all, going_on = 0, 0, len(designs)
        for _, share in STAGES:
            self._all += going_on
            going_on = min(going_on, max(_FEW, round(share * going_on)))

    def score(self, design: Design, rounds: int, seed: int) -> SimulatedRounds:
        return simulate_rounds(design.plan, self._laws, rounds=rounds, seed=seed)

    def screen(self, designs: list[Design], rounds: int, seed: int) -> list[tuple[Design, SimulatedRounds]]:
        """Return designs and scores on the same draws, best first; those with too many messages are left out."""
        scored = []
        for design in designs:
            score = self.score(design, rounds, seed)
            if score.load - 3 * score.load_error <= self._most:
                scored.append((design, score))
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, max(self._done, self._all))
        return sorted(scored, key=lambda pair: pair[1].mean + self._cost * pair[1].load)


def _designs(workers: int, load: int, max_orders: int) -> Iterator[Design]:
    for clusters in range(1, workers // load + 1):
        if workers % clusters:
            continue
        for order in range(1, load + 1):
            # not hybrid: a worker that has computed its whole cluster has sent as many rows as are needed anyway
            yield Design(workers, load, clusters, order, None, False)
        for hybrid in (False, True) if load == workers // clusters else (False,):
            for count in range(1, min(load, max_orders) + 1):
                for orders in combinations(range(1, load + 1), count):
                    # one message after all computations is gradient coding, which is there already
                    if orders != (load,) and (not hybrid or orders[-1] == load):
                        yield Design(workers, load, clusters, None, orders, hybrid)
