"""The place of the worker that runs in this thread: for work that deals out what a machine has several of."""

from threading import local

_here = local()
_first = [0]  # of threads that no worker has named: those of a process that is one worker


def take(place: int, *, process: bool) -> None:
    """Note the place of this thread's worker, or of the worker that this process is."""
    if process:
        _first[0] = place
    _here.place = place


def mine() -> int:
    """Return the place of this thread's worker; 0 where there is none.

    >>> mine()
    0
    """
    return int(getattr(_here, "place", _first[0]))
