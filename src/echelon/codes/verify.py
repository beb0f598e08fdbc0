"""Whether messages agree with one another, and which of them do not.

More rows than the threshold carry checks: combinations of them that must vanish. Corrupt messages make them non-zero,
in directions that only those messages can: as long as the corruptions are not multiples of each other, message i is
corrupt where its own direction lies in the span of what the checks show. Corruptions that are alike (or messages of
one number) are searched for, smallest sets first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from echelon.arrays import IntArray, NumberArray
from echelon.codes.base import Code
from echelon.errors import ArgumentError
from echelon.linalg import row_space

_SEARCH = 200_000  # sets that a search may try
_PROBES = 64  # random combinations of a message's numbers that are looked at


@dataclass(frozen=True, slots=True)
class Verdict:
    """What checks say of a set of messages.

    clean: whether all checks vanish, to rounding.
    corrupt: the rows whose messages are wrong; empty where clean, or where it can't be told which (`told` is False).
    checks: how many independent checks there were; with 0 nothing can be said, and everything passes.
    """

    clean: bool
    corrupt: tuple[int, ...]
    told: bool
    checks: int


def verify(code: Code, rows: Iterable[int], messages: Sequence[NumberArray], *, tolerance: float = 1e-6) -> Verdict:
    """Return whether messages of these rows fit together, and which do not: up to half as many as there are checks.

    A disagreement counts from `tolerance` times the size of the messages on (for float32 messages 1e-3 is sensible).
    """
    listed = np.fromiter(rows, dtype=np.int64)
    if len(listed) != len(messages) or len(set(listed.tolist())) != len(listed):
        raise ArgumentError(f"rows: {len(listed)} given; must be distinct, one for each of {len(messages)} messages")
    held = code.matrix[listed]
    cancel = row_space(held).cancel
    count = len(cancel)
    if not count:
        return Verdict(True, (), True, 0)
    table = np.stack([np.asarray(message).reshape(-1) for message in messages])
    table = table.astype(np.result_type(table.dtype, np.float64))
    finite = np.isfinite(table).all(axis=1)
    table[~finite] = 0.0
    probes = _probe(table)
    scale = np.median(np.linalg.norm(probes, axis=1)) or 1.0
    shown = cancel @ probes
    if finite.all() and np.linalg.norm(shown, axis=0).max() <= tolerance * scale:
        return Verdict(True, (), True, count)
    suspects = _by_span(cancel, shown, tolerance * scale)
    if suspects is None or len(suspects) > count // 2:
        suspects = _by_search(cancel, shown, tolerance * scale, count // 2)
    if suspects is None:
        return Verdict(False, (), False, count)
    named = np.union1d(listed[list(suspects)], listed[~finite])
    return Verdict(False, tuple(int(row) for row in named), True, count)


def _probe(table: NumberArray) -> NumberArray:
    """Return a few fixed combinations of each message's numbers, or the numbers themselves where they are few."""
    if table.shape[1] <= _PROBES:
        return table
    # the golden angle's multiples: fixed, spread, and never in step with a pattern in the data
    turns = np.outer(np.arange(table.shape[1]), 1 + np.arange(_PROBES)) * 2.399963229728653
    probes: NumberArray = (table @ np.cos(turns)) / np.sqrt(table.shape[1])
    return probes


def _by_span(cancel: NumberArray, shown: NumberArray, noise: float) -> tuple[int, ...] | None:
    """Return the messages whose directions lie in the span of what the checks show, if they explain it."""
    u, s, _ = np.linalg.svd(shown, full_matrices=False)
    rank = int(np.count_nonzero(s > noise))
    basis = u[:, :rank]
    directions = cancel / np.linalg.norm(cancel, axis=0).clip(min=1e-300)
    outside = np.linalg.norm(directions - basis @ (basis.conj().T @ directions), axis=0)
    suspects = np.flatnonzero(outside < 1e-5)
    return (
        tuple(int(i) for i in suspects)
        if 0 < len(suspects) <= rank and _explains(cancel, shown, suspects, noise)
        else None
    )


def _by_search(cancel: NumberArray, shown: NumberArray, noise: float, most: int) -> tuple[int, ...] | None:
    """Return the smallest set of messages that explains what the checks show."""
    total = cancel.shape[1]
    for size in range(1, most + 1):
        if comb(total, size) > _SEARCH:
            return None
        found = [some for some in combinations(range(total), size) if _explains(cancel, shown, np.array(some), noise)]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _explains(cancel: NumberArray, shown: NumberArray, some: IntArray, noise: float) -> bool:
    held = cancel[:, some]
    fitted = held @ np.linalg.lstsq(held, shown, rcond=None)[0]
    return bool(np.linalg.norm(shown - fitted, axis=0).max() <= noise)
