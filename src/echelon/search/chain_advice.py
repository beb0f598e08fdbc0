"""Strategies for chains of matrix products: the best scheme of each kind, all on the same draws."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from numpy.random import Generator

from echelon.arrays import FloatArray
from echelon.delays import Delay, Trace
from echelon.errors import CannotEvaluate
from echelon.job_delay import by_formula
from echelon.ports import state_s
from echelon.profile import Costs, Profile
from echelon.schemes import Sequential, uncoded_products
from echelon.search.chain_schemes import THIN, chain_schemes
from echelon.search.halving import Stage, halve
from echelon.search.handling import MANY, Sizes
from echelon.search.outcome import Outcome, sampled
from echelon.search.strategy import Strategy
from echelon.simulation import simulate_chain

# rounds are products: of every scheme, and of the best of each kind
STAGES = (Stage(rounds=100, runs=4, go_on=0), Stage(rounds=400, runs=40))
TOLERANCES = (0.0, 0.25)
CUT = 3  # blocks of a product for each worker, at most
_NAMES = {
    "uncoded": "uncoded products",
    "polynomial": "polynomial code",
    "dip": "diagonal interleaved (DIP)",
    "idip": "improved (IDIP)",
    "bursts": "improved, for bursts",
}


def chains(
    profile: Profile, laws: Sequence[Delay], sizes: Sizes, delay_rounds: int, waiting: str, seed: int
) -> list[Outcome]:
    """Return what to expect of each kind of scheme, best first; a product takes one worker `critical` parts.

    The schemes are a thin grid (`chain_schemes`); `optimise_chain` tries all of them. A message is a block of the
    product, and decoding makes each block that was coded of all messages. waiting: the rule by which rounds of DIP
    and IDIP end, a name of `endings.WAITING`.
    """
    load, links, costs = float(profile.workload.critical), profile.speeds.link, profile.costs
    if sizes.message and costs.port != float("inf"):
        raise CannotEvaluate(
            "profile: can't be advised on: products whose messages wait at the master's port are not simulated; leave "
            "out bytes_per_message, or run the schemes in virtual time"
        )

    def score(some: Sequence[tuple[str, Sequential]], stage: Stage, seed: int) -> Iterator[FloatArray]:
        for _, scheme in some:
            message = costs.message + sizes.message * scheme.share / costs.bandwidth
            slower = [_later(law, message / (load * scheme.share)) for law in laws] if message else laws
            loads = [load] * stage.rounds
            found = simulate_chain(scheme, slower, loads=loads, links=links, seeds=stage.runs, seed=seed)
            yield found.times + _beside(scheme, costs, sizes)

    workers = len(laws)
    waits = [(waiting, tolerance) for tolerance in TOLERANCES]
    schemes = list(chain_schemes(workers, delay_rounds, most=CUT * workers, waits=waits, grid=THIN))
    halved = halve(schemes, STAGES, score, lambda _, times: (times.mean(),), seed=seed, kind=lambda one: one[0])
    moments = {kind: sampled(times[:, None]) for (kind, _), times in halved.finalists}
    return [
        Outcome(
            strategy=Strategy(_NAMES[kind], "uncoded" if kind == "uncoded" else "coded", partial(_itself, scheme)),
            iteration=moments[kind].mean,
            error=moments[kind].error,
            delay=by_formula(profile, moments[kind]).mean,
            gain=1 - moments[kind].mean / moments["uncoded"].mean,
        )
        for (kind, scheme), _ in halved.finalists
    ]


def _beside(scheme: Sequential, costs: Costs, sizes: Sizes) -> float:
    """Return what a product takes beside tasks and their messages: the round, the state, and decoding."""
    blocks = 1.0 if scheme == uncoded_products(scheme.workers) else 1 + MANY * scheme.threshold
    return costs.round + state_s(costs, sizes.state, scheme.workers) + blocks * sizes.message * costs.combining


def _itself(scheme: Sequential) -> Sequential:
    return scheme


def _later(law: Delay, more: float) -> Delay:
    """Return a law of tasks that take some time more, each of them; a record stays one, as it is replayed."""
    return Trace(times=[time + more for time in law.times]) if isinstance(law, Trace) else _Later(law, more)


@dataclass(frozen=True)
class _Later(Delay):
    """A law of tasks that take some time more, each of them."""

    base: Delay
    more: float

    @property
    def mean(self) -> float:
        """Mean with what comes on top."""
        return self.base.mean + self.more

    @property
    def std(self) -> float:
        """Deviation, which stays."""
        return self.base.std

    @property
    def independent_rounds(self) -> bool:
        """As before."""
        return self.base.independent_rounds

    @property
    def one_pace(self) -> bool:
        """As before."""
        return self.base.one_pace

    @property
    def together(self) -> Hashable:
        """As before."""
        return self.base.together

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return times with what comes on top."""
        return self.base.sample(size, rng) + self.more

    def begin(self, seeds: int, rng: Generator) -> Any:
        """As before."""
        return self.base.begin(seeds, rng)

    def advance(self, state: Any, size: tuple[int, int, int], rng: Generator) -> tuple[FloatArray, Any]:
        """Return the next times with what comes on top."""
        times, after = self.base.advance(state, size, rng)
        return times + self.more, after

    @classmethod
    def fit(cls, mean: float, std: float) -> Self:
        """Never called: this law is made from another one, and not fitted."""
        raise AssertionError("a law with something on top is not fitted")
