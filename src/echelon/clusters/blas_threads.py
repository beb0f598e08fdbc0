"""How many threads a worker's linear algebra may use: workers that each take all processors stand in their own way."""

import os

NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def only_one() -> None:
    """Let this process use one, unless its environment says how many; for a process that has NumPy loaded already."""
    if any(name in os.environ for name in NAMES):
        return
    os.environ |= dict.fromkeys(NAMES, "1")  # for libraries that are loaded later
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return
    threadpool_limits(1)
