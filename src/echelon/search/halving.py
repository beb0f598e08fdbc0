"""Successive halving: all candidates on few rounds, the better ones on more; the same draws for all of a stage.

Every search and the advice choose by it. What differs between two candidates of a stage is then the candidates, and not
luck; a winner is scored once more on draws that had no part in choosing it (`Halved.fresh`).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

C = TypeVar("C")
S = TypeVar("S")
Order = tuple[float, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of a search.

    rounds: what each candidate is tried on, in each of `runs` independent runs.
    go_on: how many of the best go on, or this `share` of them if that is more. of_each: of each kind, at least.
    """

    rounds: int
    runs: int = 1
    go_on: int = 1
    share: float = 0.0
    of_each: int = 1


@dataclass(frozen=True, slots=True)
class Halved(Generic[C, S]):
    """What came of a search.

    stages: the candidates of every stage with their scores, best first. fresh: the first seed that no stage had.
    """

    stages: tuple[tuple[tuple[C, S], ...], ...]
    fresh: int

    @property
    def finalists(self) -> tuple[tuple[C, S], ...]:
        """Those of the last stage."""
        return self.stages[-1]

    @property
    def latest(self) -> dict[C, S]:
        """The last score of each candidate, by candidate."""
        return {candidate: score for stage in self.stages for candidate, score in stage}


def halve(
    candidates: Sequence[C],
    stages: Sequence[Stage],
    score: Callable[[Sequence[C], Stage, int], Iterable[S]],
    order: Callable[[C, S], Order],
    *,
    seed: int,
    kind: Callable[[C], Hashable] | None = None,
    crowd: Callable[[C], Hashable | None] | None = None,
    few: int = 3,
    progress: Callable[[int, int], None] | None = None,
) -> Halved[C, S]:
    """Return the candidates of every stage, best first.

    score: yields the scores of some candidates, in their order, in a stage, all from this seed.
    order: what candidates are sorted by, least first; None leaves one out.
    kind: the best of each kind go on, besides the best of all.
    crowd: of candidates that differ little, only the best `few` are kept after the first stage; None is no crowd.
    progress: is told how many scores there are, and how many there will be at most.

    >>> def score(some, stage, seed):
    ...     return [abs(number - 6) for number in some]
    >>> found = halve(range(9), [Stage(rounds=1, go_on=3), Stage(rounds=9)], score, lambda _, off: (off,), seed=1)
    >>> found.finalists, found.fresh
    (((6, 0), (5, 1), (7, 1)), 3)
    """
    going, done = list(candidates), 0
    seen: list[tuple[tuple[C, S], ...]] = []
    for number, stage in enumerate(stages):
        total = done + _trials(len(going), stages[number:])
        scored: list[tuple[tuple[float, ...], C, S]] = []
        for candidate, found in zip(going, score(going, stage, seed + number), strict=True):
            place = order(candidate, found)
            if place is not None:
                scored.append((place, candidate, found))
            done += 1
            if progress is not None:
                progress(done, total)
        scored.sort(key=lambda one: one[0])
        ranked = [(candidate, found) for _, candidate, found in scored]
        if number == 0 and crowd is not None:
            beyond = _places([crowd(candidate) for candidate, _ in ranked])
            ranked = [
                one for one, place in zip(ranked, beyond, strict=True) if crowd(one[0]) is None or place < few
            ]  # fmt: skip
        seen.append(tuple(ranked))
        most = max(stage.go_on, round(stage.share * len(ranked)))
        of_kind = _places([None if kind is None else kind(candidate) for candidate, _ in ranked])
        going = [
            candidate
            for at, (candidate, _) in enumerate(ranked)
            if at < most or (kind is not None and of_kind[at] < stage.of_each)
        ]
    return Halved(tuple(seen), seed + len(stages))


def _trials(candidates: int, stages: Sequence[Stage]) -> int:
    """Return how many scores there will be, if no kind is kept besides the best and nothing is left out."""
    total = 0
    for stage in stages:
        total += candidates
        candidates = min(candidates, max(stage.go_on, round(stage.share * candidates)))
    return total


def _places(kinds: Sequence[Hashable]) -> list[int]:
    """Return, of each one, how many of its kind are before it."""
    counts: dict[Hashable, int] = {}
    places = []
    for kind in kinds:
        places.append(counts.get(kind, 0))
        counts[kind] = places[-1] + 1
    return places


def thinned(values: Sequence[C], most: int | None) -> list[C]:
    """Return all values, or `most` of them at about the same distances, the first and the last among them.

    >>> thinned(range(1, 10), 3), thinned([4, 5], 3), thinned(range(9), 1), thinned("abc", None)
    ([1, 5, 9], [4, 5], [0], ['a', 'b', 'c'])
    """
    if most is None or len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[round(last * i / max(1, most - 1))] for i in range(most)]
