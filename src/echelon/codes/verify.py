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
from typing import Any

import numpy as np

from echelon.arrays import IntArray, NumberArray
from echelon.codes.base import Code
from echelon.errors import ArgumentError
from echelon.linalg import row_space

_SEARCH = 200_000  # sets that a search may try
_PROBES = 64  # combinations of a message's numbers that are looked at
_STEP = 4096  # numbers of a message at a time


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


def verify(code: Code, rows: Iterable[int], messages: Sequence[Any], *, tolerance: float | None = None) -> Verdict:
    """Return whether messages of these rows fit together, and which do not: up to half as many as there are checks.

    A disagreement counts once it is more than `tolerance` times what the messages themselves add up to in that check;
    10 000 times the precision of the coarsest message where left out. Messages with numbers that are not finite are
    wrong by themselves. Corruptions that are multiples of each other, and messages of few numbers, have to be searched
    for; where that would take more than 200 000 sets, `told` is False.
    """
    listed = [int(row) for row in rows]
    if len(listed) != len(messages) or len(set(listed)) != len(listed) or not set(listed) <= set(range(code.rows)):
        raise ArgumentError(
            f"rows: {len(listed)} given; must be distinct rows from 0 to {code.rows - 1}, one for each of "
            f"{len(messages)} messages"
        )
    tables = [_numbers(message) for message in messages]
    if len({table.shape for table in tables}) > 1:
        raise ArgumentError("messages: must all have one shape")
    if tolerance is None:
        tolerance = 1e4 * max((float(np.finfo(table.dtype).eps) for table in tables), default=0.0)
    finite = [bool(np.isfinite(table).all()) for table in tables]
    wrong = [row for row, good in zip(listed, finite, strict=True) if not good]
    held = np.array([row for row, good in zip(listed, finite, strict=True) if good], dtype=np.int64)
    probes = _probe([table for table, good in zip(tables, finite, strict=True) if good])
    checks = len(row_space(code.matrix[held]).cancel) if len(held) else 0
    named = 0
    while len(held):
        suspects = _suspects(code.matrix[held], probes, tolerance)
        if suspects is None or named + len(suspects) > checks // 2:
            return Verdict(False, (), False, checks)
        if not len(suspects):
            break
        # a gross error hides lesser ones in its rounding: look again without it
        named += len(suspects)
        wrong += held[suspects].tolist()
        held, probes = np.delete(held, suspects), np.delete(probes, suspects, axis=0)
    return Verdict(not wrong, tuple(sorted(wrong)), True, checks)


def _numbers(message: Any) -> NumberArray:
    """Return a message as a flat NumPy array of floats, wherever it lives."""
    if hasattr(message, "detach"):
        message = message.detach().cpu()
        message = message.float() if str(message.dtype) in ("torch.bfloat16", "torch.float16") else message
    table = np.asarray(message).reshape(-1)
    return table if table.dtype.kind in "fc" else table.astype(np.float64)


def _probe(tables: Sequence[NumberArray]) -> NumberArray:
    """Return a few fixed combinations of each message's numbers, or the numbers themselves where they are few.

    They are scaled so that the largest is 1, lest squares overflow.
    """
    if not tables or not tables[0].size:
        return np.zeros((len(tables), 1))
    largest = max(float(np.abs(table).max()) for table in tables) or 1.0
    wide = np.result_type(*(table.dtype for table in tables), np.float64)
    if tables[0].size <= _PROBES:
        few: NumberArray = np.stack([table.astype(wide) / largest for table in tables])
        return few
    probes = np.zeros((len(tables), _PROBES), dtype=wide)
    for at in range(0, tables[0].size, _STEP):
        # the golden angle's multiples: fixed, spread, and never in step with a pattern in the data
        places = np.arange(at, min(at + _STEP, tables[0].size))
        waves = np.cos(np.outer(places, 1 + np.arange(_PROBES)) * 2.399963229728653)
        probes += np.stack([table[places].astype(wide) / largest for table in tables]) @ waves
    probes /= np.sqrt(tables[0].size)
    return probes


def _suspects(matrix: NumberArray, probes: NumberArray, tolerance: float) -> IntArray | None:
    """Return the places of wrong messages, none where all checks vanish, None where it can't be told."""
    cancel = row_space(matrix).cancel
    if not len(cancel):
        return np.empty(0, dtype=np.int64)
    # what rounding alone may leave in each check; divided by it, noise has size one in all of them
    rounding = tolerance * (np.abs(cancel) @ np.linalg.norm(probes, axis=1))
    rounding = np.maximum(rounding, np.finfo(np.float64).tiny)[:, None]
    shown = (cancel @ probes) / rounding
    if np.linalg.norm(shown, axis=1).max() <= 1:
        return np.empty(0, dtype=np.int64)
    weighed = cancel / rounding * rounding.min()
    noise = float(np.sqrt(shown.size))
    found = _by_span(weighed, shown, noise)
    if found is None or len(found) > len(cancel) // 2:
        found = _by_search(weighed, shown, noise, len(cancel) // 2)
    return None if found is None else np.array(found, dtype=np.int64)


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
