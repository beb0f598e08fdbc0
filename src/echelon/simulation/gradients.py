"""Chains of gradients in virtual time: what M-SGC and SR-SGC take, for laws of any kind.

Round by round, as what a round plans depends on who straggled before, by the master's own bookkeeping (`by_message`)
and with the draws of workers in virtual time: a run takes what the master takes with the same seed and a `patience_s`
that is never over. A master that learns what silence is normal gives late rows to others, too, and may be quicker.
"""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import FloatArray
from echelon.can import Can
from echelon.delays import Delay, Trace, begin_all, per_worker
from echelon.delays.base import DRAWN, MISSED, draws, task_times
from echelon.errors import ArgumentError
from echelon.plan import Plan, Task
from echelon.schemes import GradientChain, GradientWindow
from echelon.seeds import place_generator
from echelon.simulation.by_message import MessageRound
from echelon.simulation.chains import ChainResult


def can(scheme: GradientChain, laws: Sequence[Delay]) -> Can:
    """Return whether chains of a scheme can be simulated under laws, one per worker; if not, it says why.

    >>> from echelon.delays import Exponential
    >>> from echelon.schemes import m_sgc
    >>> can(m_sgc(2, workers_at_once=1, length=1, window=2), [Exponential(rate=1.0)]).why_not
    'it is for 2 workers, and there are laws for 1'
    """
    if not isinstance(scheme, GradientChain):
        return Can(f"{type(scheme).__name__} is no scheme for a chain of gradients; products are for simulate_chain")
    if len(laws) != scheme.workers:
        return Can(f"it is for {scheme.workers} workers, and there are laws for {len(laws)}")
    return Can()


def simulate_gradients(
    scheme: GradientChain,
    law: Delay | Sequence[Delay],
    *,
    gradients: int,
    cost: float = 1.0,
    links: Sequence[float] | FloatArray | None = None,
    seeds: int = 1,
    seed: int = 1,
) -> ChainResult:
    """Return what `gradients` gradients take, one begun in each round, in as many independent runs as `seeds`.

    There are models enough for that: T + 1 or more, in turn.

    law: of the time that a worker takes for a part, one for all workers or one per worker.
    cost: of a whole gradient, in parts; a task takes the sum of its parts' times.
    links: delay of each worker's link, paid once per round.

    >>> from echelon.delays import Deterministic, GilbertElliott
    >>> from echelon.schemes import m_sgc, sr_sgc
    >>> law = GilbertElliott(base=Deterministic(time=1.0), enter=0.05, leave=0.8, slowdown=8.0)
    >>> burst = {"workers_at_once": 3, "length": 1, "window": 2}
    >>> [round(simulate_gradients(make(10, **burst), law, gradients=300).mean, 2) for make in (m_sgc, sr_sgc)]
    [0.25, 0.31]
    """
    count, runs = checks.whole("gradients", gradients, least=1), checks.whole("seeds", seeds, least=1, most=10**6)
    checks.number("cost", cost, above=0)
    checks.whole("seed", seed, least=0)
    checks.instance("scheme", scheme, GradientChain)  # type: ignore[type-abstract]
    laws = per_worker(law, scheme.workers, "law")
    late = np.zeros(scheme.workers) if links is None else checks.floats("links", links)
    if late.shape != (scheme.workers,) or not np.isfinite(late).all() or (late < 0).any():
        raise ArgumentError(f"links: must be {scheme.workers} finite numbers >= 0, one per worker")
    known = can(scheme, laws)
    if not known:
        raise ArgumentError(f"scheme: {scheme!r} is not allowed; {known.why_not}")
    rounds = count + scheme.delay
    durations, loads = np.zeros((runs, rounds)), np.zeros((runs, rounds))
    finished = np.zeros((runs, count), dtype=np.int64)
    for run in range(runs):
        workers = _Workers(laws, late, seed + run)
        window = GradientWindow(scheme)
        for t in range(rounds):
            plan = window.open(t if t < count else None, cost)
            if plan is None:
                break
            end, came, settled = _ended(plan, workers.arrivals(plan))
            durations[run, t] = end
            loads[run, t] = max(float(costs.sum()) for costs in plan.costs)
            for gradient in window.close(came, settled):
                finished[run, gradient] = t - gradient
    return ChainResult(durations, loads, finished)


class _Workers:
    """Times of one run's rounds, drawn as workers in virtual time draw them."""

    def __init__(self, laws: Sequence[Delay], links: FloatArray, seed: int) -> None:
        self._laws, self._links = laws, links
        self._rngs: list[Generator] = [place_generator(seed, place) for place in range(len(laws))]
        self._memories = begin_all(laws, 1, self._rngs)
        self._missed = [0] * len(laws)  # rounds without a lane since the last

    def arrivals(self, plan: Plan) -> list[tuple[float, Task]]:
        """Return the tasks of a round and when each arrives, the first one first."""
        found: list[tuple[float, Task]] = []
        for place, lane in enumerate(plan.lanes):
            if lane:
                costs = plan.costs[place]
                at = self._links[place] + np.cumsum(task_times(self._drawn(place, int(draws(costs).sum())), costs))
                found += zip(at.tolist(), lane, strict=True)
            else:
                self._missed[place] += 1
        return sorted(found, key=lambda one: one[0])

    def _drawn(self, place: int, parts: int) -> FloatArray:
        """Return the times of a lane's parts; bursts go on through rounds without a lane, a recorded trace does not."""
        law, rng = self._laws[place], self._rngs[place]
        memory = self._memories[place]
        missed, self._missed[place] = self._missed[place], 0
        replayed = isinstance(law, Trace)
        while missed > 0 and not replayed:
            _, memory = law.advance(memory, (1, min(missed, MISSED), DRAWN), rng)
            missed -= MISSED
        size = parts if replayed else DRAWN * -(-parts // DRAWN)
        times, self._memories[place] = law.advance(memory, (1, 1, size), rng)
        found: FloatArray = times[0, 0, :parts]
        return found


def _ended(plan: Plan, arrivals: Sequence[tuple[float, Task]]) -> tuple[float, set[tuple[int, int]], set[int]]:
    """Return how long a round lasts, the rows that come by then, and the slots that they recover."""
    round, came = MessageRound(plan), set[tuple[int, int]]()
    recovered = np.full(len(plan.slots), np.inf)
    for now, task in arrivals:
        if now > round.end:
            break
        round.receive(task.slot, task.row, now, recovered)
        came.add((task.slot, task.row))
    return round.end, came, set(np.flatnonzero(recovered < np.inf).tolist())
