"""The sample-average linear program: prefer it for recorded times, unequal workers, slow links or a cap on storage.

Over S draws of sorted cycle times, minimise the mean of tau_s under

    tau_s >= unit T_(N-n),s c_n + message_time sum_{i <= n} x_i,    c_n = sum_{i <= n} (i+1) x_i,    sum x = L,

for every draw s and level n: the runtime (block, (5)), where coordinates may also take `message_time` each to arrive.
Most of these S N rows never bind, so rows are added as they are found broken. Each program gives a lower bound of the
minimum over the draws and a partition whose mean is an upper one; both meet, since the rows are finitely many. Where
they have not after `rounds` programs, or a program breaks no further row and rounding keeps them apart, the result says
so: `gap`, `converged`, and a warning.
"""

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from echelon import checks
from echelon.arrays import BoolArray, FloatArray
from echelon.blocks.closed_forms import equalised
from echelon.blocks.partition import Partition, checked_times
from echelon.blocks.sampling import arrivals, assess, checked_laws, sorted_times
from echelon.delays import Delay
from echelon.errors import ArgumentError, EchelonError
from echelon.seeds import generators

_NEAR = 1e-4  # distance of the two bounds at which to stop, as a share


def optimise_lp(
    workers: int,
    coordinates: int,
    law: Delay | Sequence[Delay] | None = None,
    unit: float = 1.0,
    *,
    times: FloatArray | None = None,
    draws: int = 4_000,
    message_time: float = 0.0,
    storage: int | None = None,
    seed: int = 1,
    rounds: int = 60,
    progress: Callable[[int, int], None] | None = None,
) -> Partition:
    """Return the partition that is best on average over draws of `law`, or over recorded `times`.

    law: one for all workers, or one per worker. times: recorded cycle times instead, shape (rounds, workers); then
    `expected` is the mean over them, which flatters x a little.
    message_time: what each coordinate takes to reach the master, in the unit of the runtime.
    storage: the most subsets that a worker can hold, so that x_n = 0 for n >= storage (block, note 8). The certificate
    is also against partitions that keep to it.
    rounds: the most programs to solve. The `gap` left is at most 1e-4 unless `converged` is false.
    progress: called with programs solved and `rounds` after each of them.

    >>> record = np.array([[0.1, 0.1, 0.25, 1.0]])  # block, Fig. 1
    >>> found = optimise_lp(4, 4, times=record)
    >>> round(found.expected, 6), found.x.round(6).tolist()
    (0.888889, [0.888889, 1.333333, 1.777778, 0.0])
    >>> found.converged, found.gap <= 1e-4
    (True, True)
    """
    checks.whole("workers", workers, least=1)
    checks.whole("coordinates", coordinates, least=1)
    checks.number("unit", unit, above=0)
    checks.whole("draws", draws, least=1, most=10**6)
    checks.number("message_time", message_time, least=0)
    checks.whole("rounds", rounds, least=1)
    held = workers if storage is None else checks.whole("storage", storage, least=1, most=workers)
    if (law is None) == (times is None):
        raise ArgumentError("times: give either law or times, not both")
    rng, fresh = generators(seed)
    laws = None if law is None else checked_laws(law, workers)
    if laws is not None:
        ordered = sorted_times(laws, workers, draws, rng)
    else:
        ordered = checked_times("times", np.atleast_2d(np.asarray(times)), workers)
    z, gap = _solved(ordered, message_time / unit, held, rounds, progress)
    x, converged = z * coordinates, gap <= _NEAR
    if not converged:
        warnings.warn(
            f"optimise_lp: stopped with a gap of {gap:.2g}, more than {_NEAR:g}; other partitions may be quicker on "
            "these draws by that share",
            RuntimeWarning,
            stacklevel=2,
        )
    if laws is not None:
        return assess(x, laws, unit, "lp", fresh, message_time, held, gap, converged)
    latest = arrivals(x, ordered, unit, message_time).max(axis=1)
    error = float(latest.std(ddof=1)) / np.sqrt(len(latest)) if len(latest) > 1 else 0.0
    return Partition(x, float(latest.mean()), None, "lp", error, gap, converged)


def _solved(
    times: FloatArray, message: float, held: int, rounds: int, progress: Callable[[int, int], None] | None
) -> tuple[FloatArray, float]:
    """Return the best partition of one coordinate for sorted times, shape (draws, workers), and the gap left."""
    scale = float(times.mean())
    if scale <= 0:
        raise ArgumentError("times: all are 0; one must be > 0")
    draws, workers = times.shape
    z = equalised(np.maximum(times.mean(axis=0) / scale, 1e-9), 1.0)
    z[held - 1] += z[held:].sum()
    z[held:] = 0.0
    best, upper, gap = z, np.inf, np.inf
    rows: BoolArray = np.zeros((draws, held), dtype=np.bool_)
    lower, tau = 0.0, np.zeros(draws)
    for done in range(rounds + 1):
        ends = arrivals(z, times, 1.0, message)[:, ::-1][:, :held]
        latest = ends.max(axis=1)
        if latest.mean() < upper:
            best, upper = z, float(latest.mean())
        gap = max(1 - lower / upper, 0.0) if upper > 0 else 0.0
        # every row that is broken and near the latest one, since the next partition may well make it the latest
        broken = (ends > tau[:, None] * (1 + 1e-9)) & (ends >= 0.9 * latest[:, None]) & ~rows
        if gap <= _NEAR or done == rounds or not broken.any():
            break
        rows |= broken
        # in units of the best mean: a program's tolerance is absolute, and the best may be far below the start
        z, tau = _program(times / upper, message / upper, rows, workers)
        tau *= upper
        lower = float(tau.mean())
        if progress is not None:
            progress(done + 1, rounds)
    return best, gap


def _program(times: FloatArray, message: float, rows: BoolArray, workers: int) -> tuple[FloatArray, FloatArray]:
    """Solve the program with some of the rows; return x and tau."""
    from scipy.optimize import linprog  # slow to load, and only needed here
    from scipy.sparse import bmat, coo_array, csr_array, eye_array

    draws, held = rows.shape
    draw, level = np.nonzero(rows)
    line = np.arange(len(draw))
    # variables: x, c and y = sums of x, each `held` long, then tau
    width = 3 * held
    left = coo_array(
        (
            np.concatenate([times[draw, workers - 1 - level], np.full(len(line), message)]),
            (np.concatenate([line, line]), np.concatenate([held + level, 2 * held + level])),
        ),
        shape=(len(line), width),
    )
    right = coo_array((-np.ones(len(line)), (line, draw)), shape=(len(line), draws))
    identity = eye_array(held)
    previous = eye_array(held, k=-1)
    steps = csr_array(np.diag(np.arange(1.0, held + 1)))
    equal = bmat(
        [
            [-steps, identity - previous, None, None],
            [-identity, None, identity - previous, None],
            [csr_array(np.ones((1, held))), None, None, csr_array((1, draws))],
        ],
        format="csr",
    )
    found = linprog(
        np.concatenate([np.zeros(width), np.full(draws, 1 / draws)]),
        A_ub=bmat([[left, right]], format="csr"),
        b_ub=np.zeros(len(line)),
        A_eq=equal,
        b_eq=np.append(np.zeros(2 * held), 1.0),
        bounds=(0, None),
        method="highs-ipm",
    )
    if found.x is None:
        raise EchelonError(f"linear program: {found.message}")
    x = np.zeros(workers)
    x[:held] = np.maximum(found.x[:held], 0.0)
    return x / x.sum(), found.x[width:]
