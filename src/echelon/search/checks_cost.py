"""What checked results cost on some workers: how much longer an iteration takes with ``Stream(verify=...)``."""

from dataclasses import dataclass

from echelon import checks
from echelon.plan import Plan, Slot
from echelon.prediction import predict_jobs
from echelon.profile import Profile
from echelon.schemes import any_k
from echelon.search.strategies import any_windows
from echelon.splits import theorem2


@dataclass(frozen=True, slots=True)
class ChecksCost:
    """How many times as long an iteration takes if its results are checked, at least.

    vote: uncoded rows that two workers compute. spare: coded rows by the profile's redundancy, with one row more.
    rows, needed: of the code, without checks.
    """

    vote: float
    spare: float
    rows: int
    needed: int

    def __str__(self) -> str:
        return (
            f"Checked results: verify='vote' takes {self.vote:.2f} times as long as uncoded rows without; "
            f"verify='spare' {self.spare:.2f} times as long as {self.needed} of {self.rows} coded rows without."
        )


def checks_cost(profile: Profile, work: str = "gradient", *, seed: int = 1) -> ChecksCost:
    """Return what checks cost for a sum over parts ("gradient") or a matrix times a vector ("linear").

    >>> from echelon.profile import Arrivals, Worker, Workload
    >>> job = Workload(critical=12, redundancy=1.5, iterations=1, arrivals=Arrivals.poisson(0.01))
    >>> cost = checks_cost(Profile(job, [Worker(f"w{i}", mean=1.0, std=1.0) for i in range(4)]), "linear")
    >>> print(cost)
    Checked results: verify='vote' takes 1.77 times as long as uncoded rows without; verify='spare' 1.11 times as long \
as 12 of 18 coded rows without.
    """
    checks.one_of("work", work, ("gradient", "linear"))
    parts, gamma = profile.workload.critical, profile.workload.gamma
    plain = theorem2(profile.speeds, parts, gamma).counts
    if work == "linear":
        rows = max(parts + 1, round(parts * profile.workload.redundancy))
        coded = any_k(theorem2(profile.speeds, rows, gamma).counts, parts)
    else:
        needed = min(parts - 1, max(1, round(parts / profile.workload.redundancy)))
        coded = any_windows(profile, parts - needed + 1)

    def took(plan: Plan) -> float:
        return predict_jobs(plan, profile, seed=seed).iteration_mean

    (slot,) = coded.slots
    checked = Plan([Slot(rows=slot.rows, threshold=slot.threshold + 1)], coded.lanes)
    return ChecksCost(
        vote=took(any_k(2 * plain, 2 * parts)) / took(any_k(plain, parts)),
        spare=took(checked) / took(coded),
        rows=slot.rows,
        needed=slot.threshold,
    )
