"""What can be done about stragglers, as plans for one profile: a new strategy is one function and one entry."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate

import numpy as np

from echelon.arrays import IntArray
from echelon.codes import Code, cyclic, mds, uncoded
from echelon.delays import Delay
from echelon.plan import Plan, Slot, Task
from echelon.profile import Profile
from echelon.schemes import CodedPlan, any_k, backups, coded_rows, pull
from echelon.schemes.coded_plan import LEAST
from echelon.search.designs import blocks, designs, whole_shares
from echelon.search.sparse import sparse
from echelon.search.strategy import Strategy
from echelon.seeds import place_generator
from echelon.splits import largest_remainder, theorem2, uniform

OMEGAS = (1.05, 1.1, 1.2, 1.35, 1.5, 2.0)  # coded rows for each that is needed
LOADS = (2, 3, 4, 6, 8, 12, 16)  # parts that a row of a gradient code combines
BATCHES = (1, 2, 4, 8, 16, 32)
SHARES = (0.5, 0.8)  # of a split that workers have from the start
COPIES = (2, 3)  # of a row; also one for each worker
MOST_COPIED = 20_000  # tasks in all that are tried of more than two copies
AHEAD = (0, 1, 2)  # tasks that a worker still has when it gets the next
_SEED = 1  # of codes


def for_sums(profile: Profile, laws: Sequence[Delay], coordinates: int) -> Iterator[Strategy]:
    """Yield strategies for a sum over `critical` parts, such as a gradient: coded rows cost as many as they combine."""
    yield from _common(profile, uncoded(parts=profile.workload.critical))
    parts, workers = profile.workload.critical, len(profile.workers)
    if workers > 1:
        counts = theorem2(profile.speeds, parts, profile.workload.gamma).counts
        yield Strategy("uncoded, Theorem 2, one message each", "uncoded", partial(whole_shares, counts))
    for load in LOADS:
        if workers > 1 and load <= max(2, parts // 2) and load < parts:
            yield Strategy(
                f"gradient code, {load} parts a row",
                "coded",
                partial(_windows, profile, load),
                lighter=partial(any_windows, profile, load),
                load=load,
            )
    yield from designs(profile)
    yield from sparse(profile, laws)
    yield from blocks(profile, laws, coordinates)


def for_linear(profile: Profile, laws: Sequence[Delay], coordinates: int) -> Iterator[Strategy]:
    """Yield strategies for a matrix times a vector, in `critical` blocks: coded rows cost one."""
    critical, workers = profile.workload.critical, len(profile.workers)
    yield from _common(profile, uncoded(parts=critical, stacked=True))
    if workers == 1:
        return
    for rows in sorted({max(critical + 1, round(critical * omega)) for omega in OMEGAS}):
        counts = theorem2(profile.speeds, rows, profile.workload.gamma).counts
        coded = partial(_coded, critical, rows, counts)
        yield Strategy(f"MDS, {rows} rows", "coded", coded, lighter=partial(any_k, counts, critical), load=0)
    for batch in BATCHES:
        if batch * workers <= critical:
            rows = critical + batch * workers
            yield Strategy(
                f"MDS, {rows} rows, pulled by {batch}",
                "coded",
                partial(_pulled, workers, rows, batch, critical),
                lighter=partial(_any_pulled, workers, rows, batch, critical),
                load=0,
            )


def _common(profile: Profile, code: Code) -> Iterator[Strategy]:
    """Yield what needs no parity: splits, pulling, backups."""
    parts, workers = code.rows, len(profile.workers)
    speeds = profile.speeds
    splits = {
        "uniform": uniform(speeds, parts).counts,
        "by speed": largest_remainder(parts / speeds.mean / (1 / speeds.mean).sum(), parts),
        "Theorem 2": theorem2(speeds, parts, profile.workload.gamma).counts,
    }
    for name, counts in splits.items():
        yield Strategy(f"uncoded, {name}", "uncoded", partial(coded_rows, code, counts))
        if workers == 1:
            return
    one, often = partial(pull, workers=workers, parts=parts, code=code), _copies(workers, parts)
    for name, counts in splits.items():
        yield from _copied(name, partial(one, shares=counts), more=often if name == "Theorem 2" else ())
    for share in SHARES:
        name = f"{share:.0%} by Theorem 2, the rest pulled"
        plan = partial(one, shares=np.floor(share * splits["Theorem 2"]).astype(int))
        yield Strategy(name, "pull", plan)
        yield from _copied(name, plan, more=often)
    for batch in BATCHES:
        if batch * workers <= parts or batch == 1:
            name, plan = f"pulled by {batch}", partial(one, batch=batch)
            yield Strategy(name, "pull", plan)
            yield Strategy(f"{name}, {batch} ahead", "pull", partial(plan, ahead=batch))
            yield from _copied(name, plan, more=often if batch == 1 else ())
    for copies in often:
        name = "backups" if copies == 2 else f"backups, {copies} copies"
        yield Strategy(name, "copies", partial(backups, workers=workers, parts=parts, copies=copies, code=code))


def _copied(name: str, plan: "partial[CodedPlan]", more: Sequence[int] = ()) -> Iterator[Strategy]:
    """Yield a plan in which idle workers repeat rows once; with `more` copies in all, these also handed out ahead."""
    yield Strategy(f"{name}, with copies", "copies", partial(plan, copies=2))
    for copies in more:
        said = f"{name}, with copies" if copies == 2 else f"{name}, with {copies} copies"
        for ahead in AHEAD:
            if ahead or copies > 2:
                named = f"{said}, {ahead} ahead" if ahead else said
                yield Strategy(named, "copies", partial(plan, copies=copies, ahead=ahead), best_of="copies")


def _copies(workers: int, parts: int) -> list[int]:
    """Return how often rows may be handed out; more than twice only where that makes few enough tasks to be tried."""
    some = {*COPIES, workers}
    return sorted(copies for copies in some if copies <= workers and (copies == 2 or copies * parts <= MOST_COPIED))


def _coded(parts: int, rows: int, counts: IntArray) -> Plan:
    return coded_rows(mds(parts=parts, rows=rows, rng=place_generator(_SEED, 0)), counts)


def _any_pulled(workers: int, rows: int, batch: int, critical: int) -> Plan:
    """Return the plan of `_pulled` without its code, which takes longer to make than to try."""
    plan = pull(workers=workers, parts=rows, batch=batch)
    return Plan([Slot(rows=rows, threshold=critical)], plan.lanes, pool=plan.pool)


def _pulled(workers: int, rows: int, batch: int, critical: int) -> Plan:
    code = mds(parts=critical, rows=rows, rng=place_generator(_SEED, 0))
    return pull(workers=workers, parts=rows, batch=batch, code=code)


def _windows(profile: Profile, load: int) -> Plan:
    """Return lanes of neighbouring rows of a cyclic code: the first of a lane costs `load` parts, the others one."""
    parts = profile.workload.critical
    counts = theorem2(profile.speeds, parts, profile.workload.gamma, first=load).counts
    return coded_rows(cyclic(rows=parts, load=load, rng=place_generator(_SEED, 0)), counts)


def any_windows(profile: Profile, load: int) -> Plan:
    """Return the plan of `_windows` without its code: a further row of a lane costs what it adds to the parts."""
    parts = profile.workload.critical
    counts = theorem2(profile.speeds, parts, profile.workload.gamma, first=load).counts.tolist()
    lanes = [
        [
            Task(slot=0, row=row, cost=float(load) if at == 0 else 1.0 if load + at <= parts else LEAST)
            for at, row in enumerate(range(end - count, end))
        ]
        for count, end in zip(counts, accumulate(counts), strict=True)
    ]
    return Plan([Slot(rows=parts, threshold=parts - load + 1)], lanes)


STRATEGIES: dict[str, Callable[[Profile, Sequence[Delay], int], Iterator[Strategy]]] = {
    "gradient": for_sums,
    "linear": for_linear,
}

BASELINE = "uncoded, uniform"
