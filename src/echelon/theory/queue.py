"""From iterations to the delay of a job: service time, stability, and the queue at the master."""

from dataclasses import dataclass

from echelon import checks
from echelon.profile import Arrivals


def service_moments(mean: float, second: float, iterations: int) -> tuple[float, float]:
    """Return both moments of a job's service time, a sum of independent iterations (stream, (8)).

    >>> service_moments(1.0, 2.0, 3)
    (3.0, 12.0)
    """
    checks.whole("iterations", iterations, least=1)
    _checked_moments(mean, second)
    return iterations * mean, iterations * second + iterations * (iterations - 1) * mean**2


def _checked_moments(mean: float, second: float) -> None:
    """Refuse what is no pair of moments; either may be infinite."""
    for name, value in (("mean", mean), ("second", second)):
        if not isinstance(value, float) or value != float("inf"):
            checks.number(name, value, least=0, size=1e300)


def pollaczek_khinchine(rate: float, mean: float, second: float) -> float:
    """Return the mean delay of an M/G/1 queue, waiting and service; inf where it is unstable (stream, (7)).

    >>> pollaczek_khinchine(0.5, 1.0, 2.0)
    2.0
    """
    checks.number("rate", rate, above=0)
    _checked_moments(mean, second)
    if rate * mean >= 1:
        return float("inf")
    return mean + rate * second / (2 * (1 - rate * mean))


def kingman(gap_mean: float, gap_second: float, mean: float, second: float) -> float:
    """Return Kingman's approximation of the mean delay of a G/G/1 queue; inf where unstable (stream, (6)).

    With Poisson arrivals, gap_second = 2 gap_mean^2, it is Pollaczek and Khinchine's number (note 10).

    >>> kingman(2.0, 8.0, 1.0, 2.0)
    2.0
    """
    checks.number("gap_mean", gap_mean, above=0)
    _checked_moments(mean, second)
    _checked_moments(gap_mean, gap_second)
    checks.number("mean", mean, above=0)
    load = mean / gap_mean
    if load >= 1:
        return float("inf")
    gap_spread = (gap_second - gap_mean**2) / gap_mean**2
    spread = (second - mean**2) / mean**2
    return mean * (1 + load / (1 - load) * (gap_spread + spread) / 2)


@dataclass(frozen=True, slots=True)
class QueueDelay:
    """The delay of a job: `mean` (inf where unstable) from a `formula` that is `exact` or an approximation."""

    mean: float
    stable: bool
    formula: str
    exact: bool


def queue_delay(arrivals: Arrivals, service_mean: float, service_second: float) -> QueueDelay:
    """Return the mean delay by the sharpest formula that the arrivals allow.

    Stable means E[Ts] < E[Ta]. Kingman's formula is an approximation in general, and so is said to be.

    >>> queue_delay(Arrivals.poisson(0.5), 1.0, 2.0)
    QueueDelay(mean=2.0, stable=True, formula='Pollaczek-Khinchine', exact=True)
    """
    if checks.instance("arrivals", arrivals, Arrivals).poisson_process:
        mean, formula = pollaczek_khinchine(arrivals.rate, service_mean, service_second), "Pollaczek-Khinchine"
    else:
        mean, formula = kingman(arrivals.mean, arrivals.second, service_mean, service_second), "Kingman"
    # within rounding of E[Ts] = E[Ta] the two tests may differ; a queue of infinite load is not stable either
    stable = service_mean < arrivals.mean and (mean < float("inf") or service_second == float("inf"))
    return QueueDelay(mean if stable else float("inf"), stable, formula, exact=arrivals.poisson_process)
