"""Placements with few copies of each chunk, for any number of parts: repetition, graphs and balanced ones.

Each worker sends one message, the sum of its chunks, and the first that give the sum of all end the round: not as many
as for any code with the same number of copies, but those that complete it.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from echelon.codes import Code, balanced, graph
from echelon.delays import Delay, common_cycle
from echelon.profile import Profile
from echelon.schemes import CodedPlan, coded_rows, fractional_repetition
from echelon.search.designs import dealt, evenly, spread
from echelon.search.strategy import Strategy
from echelon.seeds import place_generator

COPIES = (2, 3, 4, 6, 8, 12, 16)
FEWER = (2, 4)  # workers for each chunk of a balanced placement
MOST_SPANNED = 16  # rows of a balanced placement, unless rounds come again: what any set of them spans is known then


def sparse(profile: Profile, laws: Sequence[Delay]) -> Iterator[Strategy]:
    """Yield sparse placements; nothing where there are fewer parts than chunks."""
    workers, parts = len(profile.workers), profile.workload.critical
    for copies in (some for some in COPIES if some <= workers):
        if workers > 1 and workers % copies == 0 and parts >= workers:
            yield from _repeated(profile, copies)
        vertices, uneven = divmod(2 * workers, copies)
        if not uneven and copies < vertices <= parts:
            made = partial(graph, parts=vertices, load=copies)
            yield _placed(f"graph, {copies} copies", made, workers, parts, "graph")
    if workers > MOST_SPANNED and common_cycle(laws) is None:
        return
    for fewer in FEWER:
        chunks = workers // fewer
        for copies in (some for some in COPIES if fewer < some < workers and 2 <= chunks <= parts):
            if chunks * copies >= workers:
                made = partial(balanced, rows=workers, parts=chunks, load=copies)
                yield _placed(f"balanced, {copies} copies of {chunks} chunks", made, workers, parts, "balanced")


def _repeated(profile: Profile, copies: int) -> Iterator[Strategy]:
    """Yield repetition with groups of workers of all speeds, and with groups of workers that are no neighbours."""
    workers = len(profile.workers)
    name, sizes = f"fractional repetition, groups of {copies}", evenly(profile.workload.critical, workers)
    by_speed = partial(fractional_repetition, workers=workers, load=copies)
    plan = partial(dealt, profile, sizes, workers // copies, by_speed)
    yield Strategy(name, "coded", plan, best_of="repetition")
    if 1 < copies < workers:
        apart = partial(_apart, workers, copies, profile.workload.critical)
        yield Strategy(f"{name}, apart", "coded", apart, best_of="repetition")


def _apart(workers: int, copies: int, parts: int) -> CodedPlan:
    return spread(fractional_repetition(workers=workers, load=copies, apart=True), evenly(parts, workers))


def _placed(name: str, made: Callable[..., Code], workers: int, parts: int, kind: str) -> Strategy:
    """Return the strategy in which each worker has one row of a code of plain sums."""
    return Strategy(name, "coded", partial(_rows, made, workers, parts), best_of=kind)


def _rows(made: Callable[..., Code], workers: int, parts: int) -> CodedPlan:
    code = made(rng=place_generator(1, 0))
    return spread(coded_rows(code, [1] * workers), evenly(parts, code.parts))
