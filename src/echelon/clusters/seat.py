"""The place of the worker that runs in this thread: for work that deals out what a machine has several of."""

from threading import local

from echelon.profile import Profile

_here = local()
_first = [0]  # of threads that no worker has named: those of a process that is one worker


def take(place: int, *, process: bool) -> None:
    """Note the place of this thread's worker, or of the worker that this process is."""
    if process:
        _first[0] = place
    _here.place = place


def of_thread() -> int | None:
    """Return the place of the worker that is this thread; None for any other thread."""
    place: int | None = getattr(_here, "place", None)
    return place


def names(places: int, profile: Profile | None) -> list[str]:
    """Return what workers are called: as a profile calls them, else by their places.

    >>> names(3, None)
    ['w1', 'w2', 'w3']
    """
    return [f"w{place + 1}" for place in range(places)] if profile is None else profile.names


def mine() -> int:
    """Return the place of this thread's worker; 0 where there is none.

    >>> mine()
    0
    """
    return int(getattr(_here, "place", _first[0]))
