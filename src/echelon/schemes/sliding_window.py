"""Sliding windows on unequal workers: one cyclic code, lanes as long as each worker's speed asks for."""

from echelon import checks
from echelon.codes import reed_solomon
from echelon.errors import ArgumentError
from echelon.profile import Profile
from echelon.schemes.coded_plan import CodedPlan
from echelon.schemes.coded_rows import coded_rows
from echelon.schemes.multi_message import MOST_WORKERS, arcs
from echelon.splits import SPLITS


def sliding_window(profile: Profile, rule: str = "theorem2") -> CodedPlan:
    """Return the plan in which worker p computes kappa_p consecutive rows of a gradient code over n = K Omega chunks.

    Stream's split joined to the sliding window of the mmc paper: any K of the n rows give the sum; the first row of a
    lane costs d = n - K + 1 chunks and each further one a chunk more, and the split is made with that cost. Prefer it
    where workers differ in speed permanently, and little redundancy is wanted: the first row of every worker costs one
    chunk more than there may be losses.

    >>> from echelon.profile import Arrivals, Workload, Worker
    >>> job = Workload(critical=9, redundancy=1.2, iterations=1, arrivals=Arrivals.poisson(0.01))
    >>> plan = sliding_window(Profile(job, [Worker("a", mean=1, std=0.1), Worker("b", mean=3, std=0.3)]))
    >>> [[task.cost for task in lane] for lane in plan.lanes]
    [[3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [3.0, 1.0]]
    """
    checks.instance("profile", profile, Profile)
    rows, critical = profile.workload.tasks, profile.workload.critical
    if rows > MOST_WORKERS:
        raise ArgumentError(f"profile: {rows} rows are not allowed; must be at most {MOST_WORKERS}")
    load = rows - critical + 1
    split = SPLITS[checks.one_of("rule", rule, SPLITS)]
    counts = split(profile.speeds, rows, profile.workload.gamma, first=load).counts
    return coded_rows(reed_solomon(arcs(rows, load), real=True), counts)
