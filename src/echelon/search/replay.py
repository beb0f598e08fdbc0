"""What a few strategies would have taken on times of parts that are known, round by round."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from echelon.arrays import FloatArray
from echelon.delays import task_laws
from echelon.profile import Costs, Profile
from echelon.search.handling import Sizes, handling
from echelon.search.rehearsal import Drawn, Rehearsed
from echelon.search.strategies import BASELINE, STRATEGIES
from echelon.search.strategy import Strategy
from echelon.seeds import place_generator
from echelon.simulation.rounds import can

PLAIN = (BASELINE, "uncoded, by speed", "pulled by 1", "by speed, with copies")
CODES = (None, "repetition")  # families of codes that are tried, by `Strategy.best_of`
CHOICE = 500  # rounds by which one of the codes is chosen
_HELD = 1 << 22  # times held at once

# times of parts of some rounds, so many for each worker: arrays of shape (rounds, parts)
Parts = Callable[[slice, int], Sequence[FloatArray]]


def replayed(
    profile: Profile, work: str, parts: Parts, rounds: int, *, adding_s: float = 0.0
) -> list[tuple[Strategy, FloatArray]]:
    """Return what each round would have taken under equal shares, shares by speed, pulling, copies and a code.

    The code is that with the least mean on some of these rounds, spread evenly over them. Strategies that can't be
    evaluated are left out.

    parts: gives the times of parts in some of the rounds. Each worker begins a round with the first of its parts,
        whatever the strategy: all of them see the same times.
    adding_s: seconds to add one result to another: a worker pays it for each part that a row combines, the master for
        each message that it decodes from, beyond the `critical` ones of uncoded work.

    >>> from echelon.profile import Arrivals, Worker, Workload
    >>> job = Workload(critical=6, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0))
    >>> pair = Profile(job, [Worker("a", mean=1.0, std=0.0), Worker("b", mean=2.0, std=0.0)])
    >>> steady = lambda rounds, most: [np.full((1, most), 1.0), np.full((1, most), 2.0)]
    >>> {one.name: times.tolist() for one, times in replayed(pair, "linear", steady, 1)}["uncoded, by speed"]
    [4.0]
    """
    known = list(_known(profile, work))
    tried = {strategy.name: _tried(strategy, profile, adding_s) for strategy in known}
    laws = task_laws(profile)
    able = [strategy for strategy in known if can(tried[strategy.name].plan, laws, tried[strategy.name].rules)]
    plain = [strategy for strategy in able if strategy.name in PLAIN]
    codes = [strategy for strategy in able if strategy.family == "coded"]
    if len(codes) > 1:
        step = -(-rounds // CHOICE)
        times = _times([tried[one.name] for one in codes], parts, range(0, rounds, step), profile)
        codes = [codes[int(np.argmin([each.mean() for each in times]))]]
    chosen = plain + codes
    found = _times([tried[one.name] for one in chosen], parts, range(rounds), profile)
    return list(zip(chosen, found, strict=True))


def _known(profile: Profile, work: str) -> Iterator[Strategy]:
    for strategy in STRATEGIES[work](profile, task_laws(profile), 1):
        code = strategy.family == "coded" and strategy.best_of in CODES and strategy.job is None
        if strategy.name in PLAIN or (code and "pulled" not in strategy.name):
            yield strategy


def _tried(strategy: Strategy, profile: Profile, adding_s: float) -> Rehearsed:
    critical = profile.workload.critical
    tried = handling(strategy, critical).rehearsed(Costs(combining=adding_s), Sizes(message=1.0))
    return Rehearsed(tried.plan, tried.beside, max(0.0, tried.more - critical * adding_s))


def _times(tried: Sequence[Rehearsed], parts: Parts, rounds: range, profile: Profile) -> list[FloatArray]:
    """Return the times of these rounds under each plan, shape (rounds,)."""
    found: list[list[FloatArray]] = [[] for _ in tried]
    if not tried:
        return []
    most = max(one.most for one in tried)
    size = max(1, _HELD // (most * len(profile.workers)))
    for at in range(0, len(rounds), size):
        some = rounds[at : at + size]
        drawn = parts(slice(some.start, some.stop, some.step), most)
        for one, pieces in zip(tried, found, strict=True):
            laws = [Drawn(times[None], kept=one.plan.pool is not None) for times in drawn]
            sampler, rng = one.sampler(laws, profile.speeds.link), place_generator(0, 0)
            state = sampler.begin(1, rng)
            pieces.append(sampler.draw(state, 1, len(some), rng)[0].times[0])
    return [np.concatenate(pieces) for pieces in found]
