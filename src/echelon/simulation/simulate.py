"""One call for both kinds of simulation: a stream of jobs on profiled workers, or single rounds under given laws."""

from collections.abc import Sequence
from typing import Any, overload

from echelon.arrays import FloatArray
from echelon.delays import Delay
from echelon.plan import Plan
from echelon.profile import Profile
from echelon.simulation.completion import CompletionResult, complete
from echelon.simulation.stream import Progress, StreamResult, simulate_stream


@overload
def simulate(
    plan: Plan,
    workers: Profile,
    *,
    jobs: int = ...,
    seeds: int = ...,
    seed: int = ...,
    purge: bool = ...,
    warmup: int = ...,
    laws: Delay | Sequence[Delay] | None = ...,
    overlap: bool = ...,
    progress: Progress | None = ...,
) -> StreamResult: ...


@overload
def simulate(
    plan: Plan,
    workers: Delay | Sequence[Delay],
    *,
    rounds: int = ...,
    seed: int = ...,
    links: FloatArray | Sequence[float] | None = ...,
    progress: Progress | None = ...,
) -> CompletionResult: ...


def simulate(plan: Plan, workers: Any, **options: Any) -> StreamResult | CompletionResult:
    """Return what a plan does on these workers: delays of a stream of jobs, or completion times of single rounds.

    With a profile its jobs arrive and queue up (see `simulate_stream` for the options and what comes back); with a
    delay law, or one a worker, there are rounds and nothing else (see `complete`).

    >>> from echelon.delays import Deterministic
    >>> from echelon.schemes import any_k
    >>> simulate(any_k([1, 1], critical=2), Deterministic(time=2.0), rounds=10).mean
    2.0
    """
    if isinstance(workers, Profile):
        return simulate_stream(plan, workers, **options)
    return complete(plan, workers, **options)
