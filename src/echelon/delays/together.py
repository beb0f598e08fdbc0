"""Where the memories of several workers begin: each on its own, but those that were recorded together at one place."""

from collections.abc import Hashable, Sequence
from copy import copy
from typing import Any

from numpy.random import Generator

from echelon.arrays import FloatArray
from echelon.delays.base import Delay


def begin_all(laws: Sequence[Delay], seeds: int, rngs: Sequence[Generator]) -> list[Any]:
    """Return what each law must remember about `seeds` independent runs before the first round (`Delay.begin`).

    rngs: one per worker, or the same for all. Of laws with something in common (`Delay.together`) the first draws, and
    the others begin in the same state. Whatever follows several workers through rounds has to begin here.

    >>> import numpy as np
    >>> from echelon.delays import Recorded
    >>> fast, slow = Recorded(times=[1.0, 2.0, 3.0]), Recorded(times=[5.0, 9.0, 7.0])
    >>> one, other = begin_all([fast, slow], 100, [np.random.default_rng(1)] * 2)
    >>> bool((one == other).all())
    True
    """
    begun: dict[Hashable, Any] = {}
    states = []
    for law, rng in zip(laws, rngs, strict=True):
        if law.together is None:
            states.append(law.begin(seeds, rng))
            continue
        if law.together not in begun:
            begun[law.together] = law.begin(seeds, rng)
        states.append(copy(begun[law.together]))
    return states


def common_cycle(laws: Sequence[Delay]) -> int | None:
    """Return after how many rounds all workers' times come again together; None where they need not.

    >>> from echelon.delays import Exponential, Recorded
    >>> some = [Recorded(times=[1.0, 2.0, 3.0]), Recorded(times=[5.0, 9.0, 7.0])]
    >>> common_cycle(some), common_cycle([*some, Recorded(times=[4.0])]), common_cycle([Exponential(rate=1.0)])
    (3, None, None)
    """
    shared = {(law.together, law.cycle) for law in laws}
    if len(shared) != 1:
        return None
    ((together, cycle),) = shared
    return None if together is None else cycle


def sample_all(laws: Sequence[Delay], size: tuple[int, int, int], rngs: Sequence[Generator]) -> list[FloatArray]:
    """Return times of parts of each worker, shape (seeds, rounds, parts), in runs that all of them begin together."""
    states = begin_all(laws, size[0], rngs)
    return [law.advance(state, size, rng)[0] for law, state, rng in zip(laws, states, rngs, strict=True)]
