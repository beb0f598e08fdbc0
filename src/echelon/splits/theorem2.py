"""The split of the stream paper: all active workers reach the same E[T] + gamma E[T^2]."""

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.profile import Speeds
from echelon.splits.base import Split, largest_remainder

_SAMPLE = 4096  # workers from which a large cluster gets its first guess


def theorem2(speeds: Speeds, tasks: int, gamma: float = 1.0, *, first: float = 1.0) -> Split:
    """Prefer this one by default: it needs two moments per worker, and is fast for 10^6 workers.

    Worker p gets kappa_p rows such that c + gamma c^2 + b kappa + gamma m^2 kappa^2 = theta, or none where
    c + gamma c^2 >= theta, with b = m + 2 gamma c m + gamma sigma^2 (stream, (5) and Theorem 2); theta is
    the number at which the rows sum to `tasks`. Tasks of a lane are taken to be independent.

    first: what the first task of a lane costs where the others cost 1, as with neighbouring rows of a gradient code:
        kappa rows then take the time of kappa + first - 1 tasks.

    Differs from paper: evaluated as 2d / (b + sqrt(b^2 + 4 gamma m^2 d)), d = (theta - a)^+, since the printed
    form cancels for small gamma (note 4); rounded by largest remainder (note 5).

    >>> split = theorem2(Speeds(np.array([1.0, 2.0]), np.array([1.0, 2.0]), np.zeros(2)), tasks=6)
    >>> split.counts.tolist(), split.active
    ([4, 2], 2)
    """
    checks.whole("tasks", tasks, least=1)
    checks.number("gamma", gamma, least=0)
    checks.instance("speeds", speeds, Speeds)
    c, m, sigma = speeds.link, speeds.mean, speeds.std
    a = c + gamma * c**2
    b = m + 2 * gamma * c * m + gamma * sigma**2
    q = 4 * gamma * m**2
    # with D = first - 1 tasks more, theta = a + b (kappa + D) + gamma m^2 (kappa + D)^2, by powers of kappa
    more = checks.number("first", first, least=1) - 1
    a += b * more + q / 4 * more**2
    b += q / 2 * more
    # links may dwarf the work: what is solved for is how far theta lies above the least a
    least = float(a.min())
    a -= least
    above = _theta(a, b, q, float(tasks))
    real = _rows(above, a, b, q)[0]
    real *= tasks / real.sum()
    return Split(largest_remainder(real, tasks), real, least + above)


def _rows(theta: float, a: FloatArray, b: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return kappa (stream, Theorem 2) and sqrt(b^2 + q d), the reciprocal of its slope in theta."""
    d = np.maximum(theta - a, 0.0)
    root = np.sqrt(b * b + q * d)
    return 2 * d / (b + root), root


def _theta(a: FloatArray, b: FloatArray, q: FloatArray, tasks: float) -> float:
    """Solve sum kappa(theta) = tasks by Newton's method, kept inside a bracket that only shrinks.

    Each kappa is concave above its a and flat below it, so the sum has kinks but never falls: a step that
    would leave the bracket is replaced by its middle. Large clusters start from the root of a sample of their workers.
    """
    # one worker alone bounds theta from above: the one that reaches `tasks` soonest
    high = float(np.min(a + b * tasks + q / 4 * tasks**2))
    low = float(a.min())
    theta = low + (high - low) / 2
    stride = len(a) // _SAMPLE
    if stride > 1:
        sampled = _theta(a[::stride], b[::stride], q[::stride], tasks / stride)
        theta = sampled if low < sampled < high else theta
    able = a < high
    a, b, q = a[able], b[able], q[able]
    for _ in range(200):
        kappa, root = _rows(theta, a, b, q)
        excess = float(kappa.sum()) - tasks
        if excess >= 0:
            high = theta
        else:
            low = theta
        if abs(excess) <= 1e-13 * tasks or high - low <= 4e-16 * high:
            break
        slope = float((a < theta) @ (1 / root))
        step = theta - excess / slope if slope > 0 else low
        theta = step if low < step < high else low + (high - low) / 2
    return theta
