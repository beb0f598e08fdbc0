"""How many threads a worker's linear algebra may use: workers that each use all processors slow each other down."""

import os

NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def only_one() -> None:
    """Limit this process to one thread, unless its environment sets a number; works after NumPy was loaded."""
    if any(name in os.environ for name in NAMES):
        return
    os.environ |= dict.fromkeys(NAMES, "1")  # for libraries that are loaded later
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return
    threadpool_limits(1)
