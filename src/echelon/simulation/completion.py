"""Single rounds, many of them: the time until every slot is recovered, and the messages that took."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.delays import Delay, per_worker
from echelon.plan import Plan
from echelon.seeds import generators
from echelon.simulation.rounds import RoundSampler
from echelon.simulation.stream import Interval

_TOGETHER, _CHUNK = 2048, 1 << 21  # rounds, and arrivals, held at once
_BATCHES = 100  # means of so many stretches give the error where rounds depend on each other
_MOST_ROUNDS = 10**8


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """What simulated rounds showed.

    times: completion time of every round, shape (rounds,).
    mean, error: their mean and its standard error.
    load, load_error: mean number of messages received up to completion, repeated ones and those for slots that were
        recovered before included; and its standard error.
    load_with_stop: the same where workers are told to stop sending for a recovered slot.
    """

    times: FloatArray
    mean: float
    error: float
    load: float
    load_error: float
    load_with_stop: float

    @property
    def interval(self) -> Interval:
        """The mean with its 99 % interval."""
        half = 2.5758293035489004 * self.error
        return Interval(self.mean, self.mean - half, self.mean + half)

    def percentile(self, percent: float) -> float:
        """Return a percentile of the completion time."""
        return float(np.percentile(self.times, percent))


def complete(
    plan: Plan,
    laws: Delay | Sequence[Delay],
    *,
    rounds: int = 100_000,
    seed: int = 1,
    links: FloatArray | Sequence[float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CompletionResult:
    """Return completion times and communication loads of simulated rounds; `laws` is one law, or one a worker.

    Where workers keep one pace a round, plans of up to a thousand tasks for the same workers see the same paces for the
    same seed, and can be compared round by round.

    >>> from echelon.delays import RoundPace, ShiftedExponential
    >>> from echelon.schemes import gradient_coding
    >>> law = RoundPace(base=ShiftedExponential(shift=0.01, rate=10.0))
    >>> complete(gradient_coding(workers=40, load=10), law, rounds=1000).load
    31.0
    """
    rounds = checks.whole("rounds", rounds, least=2, most=_MOST_ROUNDS)
    chosen = per_worker(laws, len(plan.lanes))
    sampler = RoundSampler(plan, chosen, np.zeros(len(plan.lanes)) if links is None else np.asarray(links))
    _, rng = generators(seed)
    times, loads, stopped = np.empty(rounds), np.empty(rounds), 0
    state = sampler.begin(1, rng)
    step = max(1, min(_TOGETHER, _CHUNK // plan.tasks))
    for at in range(0, rounds, step):
        seen, state = sampler.draw(state, 1, min(step, rounds - at), rng)
        times[at : at + step], loads[at : at + step] = seen.times[0], seen.load[0]
        stopped += int(seen.load_with_stop.sum())
        if progress is not None:
            progress(min(at + step, rounds), rounds)
    independent = all(law.independent_rounds for law, lane in zip(chosen, plan.lanes, strict=True) if lane)
    return CompletionResult(
        times=times,
        mean=float(times.mean()),
        error=_error(times, independent),
        load=float(loads.mean()),
        load_error=_error(loads, independent),
        load_with_stop=stopped / rounds,
    )


def _error(values: FloatArray, independent: bool) -> float:
    """Return the standard error of the mean."""
    if not independent and len(values) >= 2 * _BATCHES:
        values = values[: len(values) // _BATCHES * _BATCHES].reshape(_BATCHES, -1).mean(axis=1)
    return float(values.std(ddof=1) / len(values) ** 0.5)
