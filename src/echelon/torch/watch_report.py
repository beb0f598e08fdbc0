"""What a watched training was like, in words; and its ranks as the workers of a profile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from echelon.arrays import FloatArray
from echelon.delays import RoundPace, Trace
from echelon.jobs.sums import rows_of
from echelon.profile import Arrivals, Costs, Profile, Worker, Workload
from echelon.reprs import short_repr
from echelon.schemes import CodedPlan
from echelon.search import Advice, Outcome
from echelon.torch.scores import BEGUN, LAST, REDUCED, RankScore, by_speed, scores

FINE, MOST = 16, 256  # parts of a rank's samples, and of all ranks', in a profile
STEADY = 1e-3  # relative deviation below which a rank's time is taken for constant
RARELY = 1e-3  # load of the job in a profile: steps don't queue


@dataclass(frozen=True, slots=True)
class Report:
    """What was seen of a training.

    ranks: their scores, in order.
    steps: how many these rest on, the latest; seen: how many there were that all ranks stamped.
    step_s: mean time of a step, from the end of one reduce to that of the next; reduce_s: of that, after the last rank
        had arrived.
    waiting: share of the ranks' time that they waited for others.
    shares: of the samples that each rank would have by its speed. by_speed_s: mean time of these steps with them.
    advised: the best strategy for `CodedGradient` that `echelon.advise` finds on these ranks; None where it was not
        asked.
    """

    ranks: tuple[RankScore, ...]
    steps: int
    seen: int
    step_s: float
    reduce_s: float
    waiting: float
    shares: tuple[float, ...]
    by_speed_s: float
    advised: Outcome | None = None

    __repr__ = short_repr

    @property
    def slowest(self) -> RankScore:
        """The rank that others waited for longest."""
        return max(self.ranks, key=lambda one: (one.awaited_s, one.score))

    @property
    def saved(self) -> float:
        """Share of a step that sizes by speed would have saved."""
        return 1 - self.by_speed_s / self.step_s

    def __str__(self) -> str:
        of_all = "" if self.seen == self.steps else f" (the latest of {self.seen})"
        lines = [
            f"{self.steps} steps{of_all} of {len(self.ranks)} ranks, {self.step_s:.4g} s each; ranks wait "
            f"{self.waiting:.1%} of the time for others.",
            "  rank    usual s   score  lately     own   waited s  awaited s  kind",
        ]
        lines += [
            f"{one.rank:>6} {one.usual_s:>10.4g} {one.score:>7.2f} {one.lately:>7.2f} {one.own:>7.2f} "
            f"{one.waited_s:>10.4g} {one.awaited_s:>10.4g}  {one.kind}"
            for one in self.ranks
        ]
        slowest = self.slowest
        if slowest.late:
            lines.append(
                f"Rank {slowest.rank} is late ({slowest.kind}): it takes {slowest.score:.2f} times as long as the "
                f"fastest, and others waited {slowest.awaited_s:.4g} s for it."
            )
        lines.append(f"With samples by speed a step would have taken {self.by_speed_s:.4g} s, {self.saved:.0%} less.")
        if self.advised is not None:
            takes = self.advised.iteration
            pays = "pays" if self.advised.strategy.family == "coded" else "does not pay"
            lines.append(
                f"The best that advice finds for CodedGradient, {self.advised.name!r}, takes {takes:.4g} s, "
                f"{1 - takes / self.step_s:.0%} less; coding {pays} here."
            )
        return "\n".join(lines)


def reported(
    stamps: FloatArray, waited: FloatArray, awaited: FloatArray, names: list[int], seen: int, advised: Outcome | None
) -> Report:
    """Return the report on the steps that are kept, with what was waited in all."""
    last = stamps[:, :, LAST]
    arrived = last.max(axis=1)
    reduce_s = reduce_time(stamps)
    shares, times = by_speed(stamps)
    step_s = float(arrived.mean()) + reduce_s
    return Report(
        ranks=scores(stamps, waited, awaited, names),
        steps=len(stamps),
        seen=seen,
        step_s=step_s,
        reduce_s=reduce_s,
        waiting=float((arrived[:, None] - last).mean() / step_s),
        shares=tuple(shares.tolist()),
        by_speed_s=float(times.mean()) + reduce_s,
        advised=advised,
    )


def reduce_time(stamps: FloatArray) -> float:
    """Return how long a reduce takes once all ranks are there: what it takes on the rank that came last."""
    return float(np.maximum(stamps[:, :, REDUCED] - stamps[:, :, LAST], 0).min(axis=1).mean())


def usual_parts(ranks: int) -> int:
    """Return how many parts a rank's samples are cut into: fine enough for sizes by speed, few enough to be tried.

    >>> usual_parts(4), usual_parts(64), usual_parts(1000)
    (16, 4, 2)
    """
    return max(2, min(FINE, MOST // ranks))


def profile_of(stamps: FloatArray, names: Sequence[int], parts: int, costs: Costs | None) -> Profile:
    """Return the ranks as workers: their passes as tasks, cut into `parts` each, and what comes before as links.

    A rank keeps one pace per step. A message is taken to cost what the reduce takes once all ranks are there.
    """
    before = np.median(stamps[:, :, BEGUN], axis=0)
    passes = np.maximum(stamps[:, :, LAST] - stamps[:, :, BEGUN], 1e-9) / parts
    mean, std = passes.mean(axis=0), passes.std(axis=0)
    std[std < STEADY * mean] = 0.0
    workers = [
        Worker(f"rank {name}", mean=float(mean[i]), std=float(std[i]), link=float(before[i]), law="round_pace")
        for i, name in enumerate(names)
    ]
    step_s = float(stamps[:, :, LAST].max(axis=1).mean()) + reduce_time(stamps)
    job = Workload(
        critical=parts * len(workers), redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(RARELY / step_s)
    )
    return Profile(job, workers, costs=Costs(message=reduce_time(stamps)) if costs is None else costs)


def paces_of(stamps: FloatArray, parts: int) -> list[RoundPace]:
    """Return the ranks' times per part as they were, step by step: they hold outliers that two moments can't tell."""
    passes = np.maximum(stamps[:, :, LAST] - stamps[:, :, BEGUN], 1e-9) / parts
    return [RoundPace(base=Trace(times=times.tolist())) for times in passes.T]


def for_gradients(advice: Advice) -> Iterator[Outcome]:
    """Yield the strategies that take in `CodedGradient` what advice says, best first.

    It computes each row in one pass. A plan in which workers reuse chunks of rows that they sent before costs it more
    than other jobs, so it is left out, and so is what only other jobs can run.
    """
    for one in advice.ranked:
        if one.strategy.job in (None, "SumJob") and not one.strategy.overlap:
            plan = one.plan()
            if isinstance(plan, CodedPlan) and not _reuses(plan):
                yield one


def _reuses(plan: CodedPlan) -> bool:
    rows = rows_of(plan.codes, plan.chunks)
    tasks = (task for lane in plan.lanes for task in lane)
    return any(task.cost < len(rows[task.slot][task.row][0]) for task in tasks)
