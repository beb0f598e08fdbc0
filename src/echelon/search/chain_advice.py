"""Strategies for chains of matrix products: the best scheme of each kind, all on the same draws."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray
from echelon.delays import Delay, Trace
from echelon.job_delay import by_formula
from echelon.profile import Costs, Profile
from echelon.schemes import (
    Sequential,
    diagonal_interleaved,
    improved_diagonal_interleaved,
    polynomial_products,
    uncoded_products,
)
from echelon.schemes.sequential import near_square
from echelon.search.handling import MANY, Sizes
from echelon.search.outcome import Outcome, sampled
from echelon.search.strategy import Strategy
from echelon.simulation import simulate_chain
from echelon.stragglers import Arbitrary, Bursts

TRIED, PLAYED = (100, 4), (400, 40)  # products, and independent runs: of every scheme, and of the best of each kind
TOLERANCES = (0.0, 0.25)
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

    The schemes are a grid that is thinner for more workers; `optimise_chain` tries all of them. A message is a block of
    the product, and decoding makes each block that was coded of all messages. waiting: the rule by which rounds of DIP
    and IDIP end, a name of `endings.WAITING`.
    """
    load, links, costs = float(profile.workload.critical), profile.speeds.link, profile.costs

    def times(scheme: Sequential, products: int, seeds: int, fresh: int) -> FloatArray:
        message = costs.message + sizes.message * scheme.share / costs.bandwidth
        slower = [_later(law, message / (load * scheme.share)) for law in laws] if message else laws
        found = simulate_chain(scheme, slower, loads=[load] * products, links=links, seeds=seeds, seed=seed + fresh)
        return found.times + _beside(scheme, costs, sizes)

    best: dict[str, tuple[float, Sequential]] = {}
    for kind, scheme in schemes(len(laws), delay_rounds, waiting):
        mean = float(times(scheme, *TRIED, 0).mean())
        if kind not in best or mean < best[kind][0]:
            best[kind] = mean, scheme
    played = {kind: times(scheme, *PLAYED, 1)[:, None] for kind, (_, scheme) in best.items()}
    moments = {kind: sampled(seen) for kind, seen in played.items()}
    outcomes = [
        Outcome(
            strategy=Strategy(_NAMES[kind], "uncoded" if kind == "uncoded" else "coded", partial(_itself, scheme)),
            iteration=moments[kind].mean,
            error=moments[kind].error,
            delay=by_formula(profile, moments[kind]).mean,
            gain=1 - moments[kind].mean / moments["uncoded"].mean,
        )
        for kind, (_, scheme) in best.items()
    ]
    return sorted(outcomes, key=lambda one: one.iteration)


def schemes(workers: int, delay: int, waiting: str = "due") -> Iterator[tuple[str, Sequential]]:
    """Yield schemes and their kinds: for 20 workers some two hundred, for a few nearly all that there are."""
    yield "uncoded", uncoded_products(workers)
    for results in _some(1, workers, 12):
        x, y = near_square(results)
        yield "polynomial", polynomial_products(workers, x=x, y=y)
    if not delay:
        return
    for tolerance in TOLERANCES:
        for results in _some(workers, 3 * workers, 6):
            x, y = near_square(results)
            for rounds, spread in sorted({(delay, 1), (delay, (workers + 1) // 2), (delay, workers), (1, 1)}):
                yield (
                    "dip",
                    diagonal_interleaved(
                        workers, x=x, y=y, delay=rounds, spread=spread, tolerance=tolerance, waiting=waiting
                    ),
                )
        for window in sorted({2, delay + 1}):
            for count in _some(1, workers * window - 1, 12):
                model = Arbitrary(count=count, window=window)
                yield "idip", improved_diagonal_interleaved(workers, model, tolerance=tolerance, waiting=waiting)
            for at_once in _some(1, workers - 1, 4):
                for length in sorted({1, window}):
                    bursts = Bursts(workers_at_once=at_once, length=length, window=window)
                    yield (
                        "bursts",
                        improved_diagonal_interleaved(workers, bursts, tolerance=tolerance, waiting=waiting),
                    )


def _some(low: int, high: int, most: int) -> list[int]:
    """Return whole numbers from low to high, all of them or `most` at about the same distances."""
    return (
        np.unique(np.linspace(low, high, min(most, high - low + 1)).round().astype(int)).tolist() if high >= low else []
    )


def _beside(scheme: Sequential, costs: Costs, sizes: Sizes) -> float:
    """Return what a product takes beside tasks and their messages: the round, the state, and decoding."""
    blocks = 1.0 if scheme == uncoded_products(scheme.workers) else 1 + MANY * scheme.threshold
    return costs.round + sizes.state / costs.bandwidth + blocks * sizes.message * costs.combining


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
        """Never asked: it is made of a law that is there."""
        raise AssertionError("a law with something on top is not fitted")
