"""Single rounds, many of them: the time until every slot is recovered, and the messages it took."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from echelon import checks
from echelon.arrays import FloatArray
from echelon.delays import Delay, per_worker
from echelon.plan import Plan
from echelon.reprs import short_repr
from echelon.seeds import generators
from echelon.simulation.rounds import RoundSampler
from echelon.simulation.simulated_jobs import CONFIDENCE, Interval

_TOGETHER, _CHUNK = 3000, 1 << 22  # rounds, and arrivals, held at once
_HISTORIES = 100  # where rounds depend on each other, the means of this many runs give the error
_MOST_ROUNDS = 10**8


@dataclass(frozen=True, slots=True)
class SimulatedRounds:
    """What simulated rounds showed.

    times: completion time of every round, shape (rounds,), or a few more where histories must have one length.
    mean, error: their mean and its standard error.
    load, load_error: mean number of messages received up to completion, repeated ones and those for slots that were
        recovered before included; and its standard error.
    load_with_stop: the same where workers are told to stop sending for a recovered slot.
    residuals: how far what each round gives is from the exact sum, |alpha - 1| / |1|, shaped like `times`; 0 but for
        plans that end by a policy (`echelon.endings`).
    """

    times: FloatArray
    mean: float
    error: float
    load: float
    load_error: float
    load_with_stop: float
    residuals: FloatArray

    __repr__ = short_repr

    @property
    def interval(self) -> Interval:
        """The mean with its 99 % interval."""
        half = float(ndtri((1 + CONFIDENCE) / 2)) * self.error
        return Interval(self.mean, self.mean - half, self.mean + half)

    def percentile(self, percent: float) -> float:
        """Return a percentile of the completion time."""
        return float(np.percentile(self.times, percent))


def simulate_rounds(
    plan: Plan,
    laws: Delay | Sequence[Delay],
    *,
    rounds: int = 100_000,
    seed: int = 1,
    links: FloatArray | Sequence[float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SimulatedRounds:
    """Return completion times and communication loads of simulated rounds; `laws` is one law, or one per worker.

    A round ends as the master ends it: when every slot is recovered, by what its rows span where fewer than the
    threshold may be enough, or by the plan's own ending. The latter is followed message by message, and takes longer.

    Where rounds depend on each other they are those of a hundred independent histories, one after another.

    Where workers keep one pace per round, plans of up to a thousand tasks for the same workers see the same paces for
    the same seed, and can be compared round by round.

    >>> from echelon.delays import RoundPace, ShiftedExponential
    >>> from echelon.schemes import gradient_coding
    >>> law = RoundPace(base=ShiftedExponential(shift=0.01, rate=10.0))
    >>> simulate_rounds(gradient_coding(workers=40, load=10), law, rounds=1000).load
    31.0
    """
    rounds = checks.whole("rounds", rounds, least=2, most=_MOST_ROUNDS)
    chosen = per_worker(laws, len(checks.instance("plan", plan, Plan).lanes))
    if progress is not None:
        checks.function("progress", progress)
    sampler = RoundSampler(plan, chosen, np.zeros(len(plan.lanes)) if links is None else links)
    _, rng = generators(seed)
    independent = all(law.independent_rounds for law, lane in zip(chosen, plan.lanes, strict=True) if lane)
    histories = 1 if independent else min(_HISTORIES, rounds)
    each = -(-rounds // histories)
    times, loads, residuals = (np.empty((histories, each)) for _ in range(3))
    stopped = 0
    state = sampler.begin(histories, rng)
    step = max(1, min(_TOGETHER, _CHUNK // plan.draws) // histories)
    for at in range(0, each, step):
        seen, state = sampler.draw(state, histories, min(step, each - at), rng)
        times[:, at : at + step], loads[:, at : at + step] = seen.times, seen.load
        residuals[:, at : at + step] = seen.residual
        stopped += int(seen.load_with_stop.sum())
        if progress is not None:
            progress(min(at + step, each), each)
    return SimulatedRounds(
        times=times.ravel(),
        mean=float(times.mean()),
        error=_error(times),
        load=float(loads.mean()),
        load_error=_error(loads),
        load_with_stop=stopped / times.size,
        residuals=residuals.ravel(),
    )


def _error(values: FloatArray) -> float:
    """Return the standard error of the mean, over rounds or over histories of dependent ones."""
    units = values[0] if len(values) == 1 else values.mean(axis=1)
    return float(units.std(ddof=1) / len(units) ** 0.5)
