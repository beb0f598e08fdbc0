"""The optimal partition with a certificate: prefer it where all workers have one law with a formula, up to N = 100.

The expected runtime f is convex, smooth and 1-homogeneous in x, with exact gradients (see `runtime`). Sequential
quadratic programming finds the minimum; a Newton method on the levels in use polishes it where that stops early. What
is returned is certified: f(y) >= L min_i df/dx_i for every partition y, so 1 - L min_i df/dx_i / f(x) bounds what is
left to gain (block, note 4).

Differs from paper: it uses the stochastic projected subgradient method here (see `subgradient`).
"""

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.blocks.closed_forms import x_t
from echelon.blocks.continuous import ContinuousLaw
from echelon.blocks.partition import Partition
from echelon.blocks.runtime import mean_and_gradient
from echelon.blocks.sampling import assess
from echelon.delays import Delay
from echelon.errors import ArgumentError

_ROUNDS = 4  # of quadratic programming, each from where the last one stopped
_POLISH = 12  # Newton steps at most


def optimise_exact(workers: int, coordinates: int, law: Delay, unit: float = 1.0, tolerance: float = 1e-5) -> Partition:
    """Return the partition of least expected runtime, certified to be within `tolerance` of it (a share of it).

    law: of one cycle time, the same for all workers; with a continuous distribution function, which may have kinks.
    unit: M b / N. Raises `ArgumentError` where the tolerance is out of reach.

    >>> from echelon.delays import ShiftedExponential
    >>> best = optimise_exact(3, 100, ShiftedExponential(shift=0.1, rate=1.0))
    >>> best.x.round(1).tolist(), round(best.expected, 2), best.certificate <= 1e-5
    ([28.8, 13.9, 57.3], 109.55, True)
    """
    checks.whole("coordinates", coordinates, least=1)
    checks.number("unit", unit, above=0)
    checks.number("tolerance", tolerance, above=0)
    known = ContinuousLaw(law, workers)
    z = x_t(workers, coordinates, law) / coordinates
    # the certificate adds the error of quadrature, so aim for a little more than asked
    goal = 0.9 * tolerance
    for _ in range(_ROUNDS):
        if _gap(z, known) <= goal:
            break
        z = _programmed(z, known, goal)
    else:
        z = _polished(z, known, goal)
    found = assess(z * coordinates, law, unit, "exact")
    assert found.certificate is not None
    if found.certificate > tolerance:
        raise ArgumentError(f"tolerance: {tolerance!r} is not allowed; {found.certificate:.2g} is the best reached")
    return found


def _gap(z: FloatArray, law: ContinuousLaw) -> float:
    value, gradient = mean_and_gradient(z, law)
    return 1 - float(gradient.min()) / value


def _programmed(z: FloatArray, law: ContinuousLaw, goal: float) -> FloatArray:
    """Return a better partition of one coordinate by sequential quadratic programming."""
    from scipy.optimize import minimize  # slow to load, and only needed here

    scale = mean_and_gradient(z, law)[0]

    def objective(raw: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = mean_and_gradient(np.maximum(raw, 0.0), law)
        return value / scale, gradient / scale

    ones = np.ones_like(z)
    found = minimize(
        objective,
        z,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(z),
        constraints=[{"type": "eq", "fun": lambda raw: raw.sum() - 1, "jac": lambda raw: ones}],
        options={"maxiter": 200, "ftol": min(1e-12, goal * 1e-7)},
    )
    better = np.maximum(found.x, 0.0)
    better /= better.sum()
    # a failed line search may end anywhere
    return better if _gap(better, law) < _gap(z, law) else z


def _polished(z: FloatArray, law: ContinuousLaw, goal: float) -> FloatArray:
    """Return a better partition by Newton steps on the levels in use, with differences of gradients for curvature."""
    best, least = z, _gap(z, law)
    for _ in range(_POLISH):
        if least <= goal:
            break
        gradient = mean_and_gradient(best, law)[1]
        used = np.flatnonzero((best > 0) | (gradient <= gradient.min() * (1 + goal)))
        count = len(used)
        system = np.zeros((count + 1, count + 1))
        for column, level in enumerate(used):
            step = 1e-4 * max(float(best[level]), 1e-3)
            moved = best.copy()
            moved[level] += step
            system[:count, column] = (mean_and_gradient(moved, law)[1] - gradient)[used] / step
        system[:count, :count] += system[:count, :count].T
        system[:count, :count] /= 2
        system[count, :count] = system[:count, count] = 1.0
        move = np.zeros_like(best)
        move[used] = np.linalg.lstsq(system, np.append(-gradient[used], 0.0), rcond=None)[0][:count]
        for share in (1.0, 0.5, 0.25, 0.1, 0.01):
            tried = np.maximum(best + share * move, 0.0)
            tried /= tried.sum()
            if (gap := _gap(tried, law)) < least:
                best, least = tried, gap
                break
        else:
            break
    return best
