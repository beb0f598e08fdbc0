"""Which code: the number of critical tasks K, the work of one task C and the redundancy Omega.

`algorithm1` follows the paper and levels the workers' metrics; `best_code` lowers what a user feels, the exact
delay. How C follows from K and n is the cost model of the code, an argument of both.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from echelon import checks
from echelon.errors import ArgumentError
from echelon.prediction import PredictedJobs, predict_jobs
from echelon.profile import Profile, Speeds
from echelon.reprs import short_repr
from echelon.schemes import any_k
from echelon.search.splits import split_rows
from echelon.splits import Split, theorem2
from echelon.theory import metric, mismatch

CostModel = Callable[[int, int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeShape:
    """Code parameters: any `critical` of `tasks` rows are enough; the cost model says what a row costs."""

    critical: int
    tasks: int

    def __post_init__(self) -> None:
        checks.whole("critical", self.critical, least=1)
        checks.whole("tasks", self.tasks, least=self.critical)

    @property
    def redundancy(self) -> float:
        """Omega."""
        return self.tasks / self.critical


def fixed_work(critical: int, tasks: int) -> float:
    """Return 1/K: K tasks make up an iteration, so K C is fixed, as for MDS-coded linear work (stream, VI)."""
    return 1 / critical


def gradient_work(critical: int, tasks: int) -> float:
    """Return d/n with d = n - K + 1: what a row of an exact gradient code touches (stream, note 14)."""
    return (tasks - critical + 1) / tasks


COSTS: dict[str, CostModel] = {"fixed": fixed_work, "gradient": gradient_work}


def code_grid(criticals: Iterable[int], redundancies: Iterable[float]) -> list[CodeShape]:
    """Return the codes of a grid of K and Omega, each (K, n) once.

    >>> code_grid([2], [1.0, 1.5, 1.6])
    [CodeShape(critical=2, tasks=2), CodeShape(critical=2, tasks=3)]
    """
    omegas = [checks.number("redundancy", omega, least=1) for omega in checks.items("redundancies", redundancies)]
    shapes = dict.fromkeys(
        (checks.whole("critical", k, least=1), round(k * omega))
        for k in checks.items("criticals", criticals)
        for omega in omegas
    )
    return [CodeShape(critical=k, tasks=n) for k, n in shapes]


@dataclass(frozen=True, slots=True)
class Trial:
    """A code with the split, mismatch (10) and prediction that belong to it."""

    code: CodeShape
    profile: Profile
    split: Split
    mismatch: float
    prediction: PredictedJobs | None

    __repr__ = short_repr


def recode(profile: Profile, code: CodeShape, cost: CostModel = fixed_work) -> Profile:
    """Return the profile as it would be under another code.

    Task times scale with the work of a task, both moments alike (stream, Assumption 1); links stay.
    """
    checks.instance("profile", profile, Profile)
    factor = cost(code.critical, code.tasks) / cost(profile.workload.critical, profile.workload.tasks)
    speeds = profile.speeds
    scaled = Speeds(speeds.mean * factor, speeds.std * factor, speeds.link)
    operations = None if profile.workload.operations is None else profile.workload.operations * factor
    return profile.with_speeds(scaled).with_workload(
        critical=code.critical, redundancy=code.redundancy, operations=operations
    )


def algorithm1(profile: Profile, grid: Sequence[CodeShape], *, cost: CostModel = fixed_work) -> list[Trial]:
    """Return the codes with their Theorem 2 splits, least mismatch (10) over all workers first (Algorithm 1).

    Mismatch knows nothing of purging, so the order says little about Omega (note 12); use `best_code`.
    """
    trials = []
    for code in _some(grid):
        coded = recode(profile, code, cost)
        split = theorem2(coded.speeds, code.tasks, coded.workload.gamma)
        uneven = mismatch(metric(coded.speeds, split.counts, coded.workload.gamma))
        trials.append(Trial(code, coded, split, uneven, None))
    return sorted(trials, key=lambda trial: trial.mismatch)


def best_code(
    profile: Profile,
    grid: Sequence[CodeShape],
    *,
    cost: CostModel = fixed_work,
    rule: str = "theorem2",
    purge: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> list[Trial]:
    """Return the codes, smallest mean delay first; unstable ones come last, by their service time.

    Each trial's `PredictedJobs` says whether its delay is exact.
    """
    grid = _some(grid)
    checks.flag("purge", purge)
    if progress is not None:
        checks.function("progress", progress)
    trials = []
    for i, code in enumerate(grid):
        coded = recode(profile, code, cost)
        split = split_rows(coded, rule, tasks=code.tasks, purge=purge)
        uneven = mismatch(metric(coded.speeds, split.counts, coded.workload.gamma))
        seen = predict_jobs(any_k(split.counts, code.critical), coded, purge=purge)
        trials.append(Trial(code, coded, split, uneven, seen))
        if progress is not None:
            progress(i + 1, len(grid))
    return sorted(trials, key=_by_delay)


def _by_delay(trial: Trial) -> tuple[float, float]:
    assert trial.prediction is not None
    return trial.prediction.delay, trial.prediction.service_mean


def _some(grid: Sequence[CodeShape]) -> list[CodeShape]:
    listed = [checks.instance("grid", shape, CodeShape) for shape in checks.items("grid", grid)]
    if not listed:
        raise ArgumentError("grid: empty is not allowed; must hold at least one code")
    return listed


def default_grid(profile: Profile) -> list[CodeShape]:
    """Return codes around the profile's own: K from a quarter to four times, Omega from 1 to 1.6."""
    k = profile.workload.critical
    criticals = sorted({max(1, round(k * 2 ** (i / 2))) for i in range(-4, 5)})
    redundancies = {1.0, 1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, profile.workload.redundancy}
    return code_grid(criticals, sorted(redundancies))
