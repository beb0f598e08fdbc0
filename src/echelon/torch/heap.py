"""Memory of a worker process between two passes: kept, as a plain loop keeps it."""

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, in <malloc.h>
_KEPT, _LARGEST = 1 << 30, 1 << 25  # bytes; the most that it takes for the second


def keep_freed_memory() -> None:
    """Make this process keep memory that it frees, up to a gigabyte.

    A worker frees all it has after a pass, and glibc gives the top of the heap back to the system; touching it again
    page by page costs a tenth of the next pass. With another C library, nothing happens.
    """
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST)  # first: the other one would stop it from growing by itself
        mallopt(_TRIM_THRESHOLD, _KEPT)
