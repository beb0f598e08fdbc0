"""Whether messages agree with one another, and which of them do not.

More rows than are needed carry checks: combinations of them that must vanish. Corrupt messages make them non-zero, in
directions that only those messages have: as long as the corruptions are not multiples of each other, message i is
corrupt where its own direction lies in the span of what the checks show. Corruptions that are alike (or messages of
one number) are searched for, smallest sets first. The code decides how many can be named: see `distance`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from numbers import Integral
from typing import Any

import numpy as np

from echelon import checks
from echelon.arrays import IntArray, NumberArray
from echelon.codes.base import Code
from echelon.codes.distance import SEARCH, components, tells
from echelon.errors import ArgumentError
from echelon.linalg import row_space
from echelon.reprs import short_repr

_ROUNDING = 64.0  # epsilons of its terms that a correct message may be off
_PROBES = 64  # combinations of a message's numbers that are checked
_STEP = 4096  # numbers of a message at a time
_CHUNK = 4096  # sets at a time


@dataclass(frozen=True, slots=True)
class Verdict:
    """What checks say about a set of messages.

    clean: whether all checks vanish, to rounding.
    corrupt: the rows with wrong messages; empty where clean, or where the checks can't tell which (`told` is False).
    checks: how many independent checks there were; with 0 nothing can be said, and everything passes.
    """

    clean: bool
    corrupt: tuple[int, ...]
    told: bool
    checks: int

    __repr__ = short_repr


def verify(
    code: Code, rows: Iterable[int], messages: Sequence[Any], *, tolerance: float | None = None, terms: float = 0.0
) -> Verdict:
    """Return whether messages of these rows fit together, and which do not.

    Wrong messages are named as long as the code can tell them from honest ones on the rows at hand: as many as half of
    its distance there allows, among the rows that check each other. Where any `threshold` rows are independent that is
    half as many as there are checks; of c copies of one row it is (c - 2) / 2, since copies may be wrong alike; a row
    that no other one checks is never named. With more wrong messages than that, `told` is False, unless they were made
    to look like fewer.

    tolerance: by how much a message may be off, relative to the size of its terms; by default 64 times the precision
    of the coarsest message. Messages with numbers that are not finite are always wrong. Corruptions that are
    multiples of each other, and messages of few numbers, have to be searched for; where that would take more than
    200 000 sets, `told` is False.

    terms: how large the terms are, of rows of length 1, where that may be more than the messages show.
    """
    if tolerance is not None:
        checks.number("tolerance", tolerance, least=0, size=math.inf)
    checks.number("terms", terms, least=0, size=math.inf)
    checks.instance("code", code, Code)
    listed, messages = checked_rows(rows), checks.items("messages", messages)
    if len(listed) != len(messages) or len(set(listed)) != len(listed) or not set(listed) <= set(range(code.rows)):
        raise ArgumentError(
            f"rows: {len(listed)} given; must be distinct rows from 0 to {code.rows - 1}, one for each of "
            f"{len(messages)} messages"
        )
    tables = [_numbers(message) for message in messages]
    if len({table.shape for table in tables}) > 1:
        raise ArgumentError("messages: must all have one shape")
    if tolerance is None:
        tolerance = _ROUNDING * max((float(np.finfo(table.dtype).eps) for table in tables), default=0.0)
    finite = [bool(np.isfinite(table).all()) for table in tables]
    wrong = [row for row, good in zip(listed, finite, strict=True) if not good]
    held = np.array([row for row, good in zip(listed, finite, strict=True) if good], dtype=np.int64)
    if not len(held):
        return Verdict(not wrong, tuple(sorted(wrong)), True, 0)
    probes, largest = _probe([table for table, good in zip(tables, finite, strict=True) if good])
    # rows of one length: then rounding is of one size in all messages, and in all checks
    norms = np.linalg.norm(code.matrix[held], axis=1)[:, None]
    norms[norms == 0] = 1.0
    matrix, probes = code.matrix[held] / norms, probes / norms
    cancel = row_space(matrix).cancel
    for some in components(cancel):
        found = _corrupt(matrix[some], probes[some], tolerance, terms / largest)
        if found is None or (found and not tells(code, row_space(matrix[some]).cancel, found)):
            return Verdict(False, (), False, len(cancel))
        wrong += held[some[found]].tolist()
    return Verdict(not wrong, tuple(sorted(wrong)), True, len(cancel))


def checked_rows(rows: object) -> list[int]:
    """Return rows by their numbers, whether they exist or not."""
    listed = checks.items("rows", rows)
    if not all(isinstance(row, Integral) for row in listed):
        raise ArgumentError(f"rows: {checks.shown(rows)} is not allowed; must be numbers of rows")
    return [int(row) for row in listed]


def _corrupt(matrix: NumberArray, probes: NumberArray, tolerance: float, terms: float) -> list[int] | None:
    """Return the places of the fewest messages that explain what the checks show; None where that is not one set."""
    left = np.arange(len(matrix))
    wrong: list[int] = []
    while True:
        suspects = _suspects(matrix[left], probes[left], tolerance, terms)
        if suspects is None:
            return None
        if not suspects:
            return wrong
        # a gross error hides lesser ones in its rounding: look again without it
        wrong += left[list(suspects)].tolist()
        left = np.delete(left, suspects)


def _numbers(message: Any) -> NumberArray:
    """Return a message as a flat NumPy array of floats, wherever it lives."""
    if hasattr(message, "detach"):
        message = message.detach().cpu()
        message = message.float() if str(message.dtype) in ("torch.bfloat16", "torch.float16") else message
    table = np.asarray(message).reshape(-1)
    return table if table.dtype.kind in "fc" else table.astype(np.float64)


def _probe(tables: Sequence[NumberArray]) -> tuple[NumberArray, float]:
    """Return a few fixed combinations of each message's numbers, or the numbers themselves where they are few.

    They are divided by the largest number, which is returned, too: squares must not overflow.
    """
    if not tables or not tables[0].size:
        return np.zeros((len(tables), 1)), 1.0
    largest = max(float(np.abs(table).max()) for table in tables) or 1.0
    wide = np.result_type(*(table.dtype for table in tables), np.float64)
    if tables[0].size <= _PROBES:
        few: NumberArray = np.stack([table.astype(wide) / largest for table in tables])
        return few, largest
    probes = np.zeros((len(tables), _PROBES), dtype=wide)
    for at in range(0, tables[0].size, _STEP):
        # the golden angle's multiples: fixed, spread, and never in step with a pattern in the data
        places = np.arange(at, min(at + _STEP, tables[0].size))
        waves = np.cos(np.outer(places, 1 + np.arange(_PROBES)) * 2.399963229728653)
        probes += np.stack([table[places].astype(wide) / largest for table in tables]) @ waves
    probes /= np.sqrt(tables[0].size)
    return probes, largest


def _suspects(matrix: NumberArray, probes: NumberArray, tolerance: float, terms: float) -> tuple[int, ...] | None:
    """Return the places of wrong messages, none where all checks vanish, None where the checks can't tell."""
    cancel = row_space(matrix).cancel
    if not len(cancel):
        return ()
    scale = float(np.abs(probes).max()) or 1.0
    probes = probes / scale  # squares must not vanish once a gross error is gone
    # the known noise: rounding of messages, independent of each other, and how well the checks themselves cancel
    size = max(float(np.linalg.norm(probes, axis=1).max()) / probes.shape[1] ** 0.5, terms / scale)
    inexact = float(np.linalg.norm(cancel @ matrix)) * matrix.shape[1] ** 0.5
    noise = (tolerance * len(cancel) ** 0.5 + inexact) * size
    noise = max(noise, float(np.finfo(np.float64).tiny))
    shown = cancel @ probes
    if np.linalg.norm(shown, axis=0).max() <= noise:
        return ()
    found = _by_span(cancel, shown, noise)
    return _by_search(cancel, shown, noise) if found is None else found


def _by_span(cancel: NumberArray, shown: NumberArray, noise: float) -> tuple[int, ...] | None:
    """Return the messages whose directions lie in the span of what the checks show, if they explain it.

    Noise turns that span by its size relative to the least of what is shown.
    """
    whole = noise * shown.shape[1] ** 0.5
    u, s, _ = np.linalg.svd(shown, full_matrices=False)
    rank = int(np.count_nonzero(s > 3 * whole))
    if not rank:
        return None
    basis = u[:, :rank]
    directions = cancel / np.linalg.norm(cancel, axis=0).clip(min=1e-300)
    outside = np.linalg.norm(directions - basis @ (basis.conj().T @ directions), axis=0)
    suspects = np.flatnonzero(outside < max(whole / s[rank - 1], 1e-8))
    if len(suspects) != rank or not _explains(cancel, shown, suspects, noise):
        return None
    return tuple(int(i) for i in suspects)


def _by_search(cancel: NumberArray, shown: NumberArray, noise: float) -> tuple[int, ...] | None:
    """Return the smallest set of messages that explains what the checks show, if there is only one."""
    checks, total = cancel.shape
    for size in range(1, checks // 2 + 1):
        if math.comb(total, size) > SEARCH:
            return None
        found = [some for some in _fitting(cancel, shown, noise, size) if _explains(cancel, shown, some, noise)]
        if found:
            return tuple(found[0].tolist()) if len(found) == 1 else None
    return None


def _fitting(cancel: NumberArray, shown: NumberArray, noise: float, size: int) -> Iterator[IntArray]:
    """Yield the sets of messages that explain the largest of what the checks show, many tried at a time."""
    most = shown[:, np.linalg.norm(shown, axis=0).argmax()]
    sets = combinations(range(cancel.shape[1]), size)
    while some := list(islice(sets, _CHUNK)):
        places = np.array(some)
        basis = np.linalg.qr(cancel.T[places].swapaxes(1, 2))[0]
        fitted = np.einsum("kcs,ks->kc", basis, np.einsum("kcs,c->ks", basis.conj(), most))
        yield from places[np.linalg.norm(most - fitted, axis=1) <= noise]


def _explains(cancel: NumberArray, shown: NumberArray, some: IntArray, noise: float) -> bool:
    held = cancel[:, some]
    fitted = held @ np.linalg.lstsq(held, shown, rcond=None)[0]
    return bool(np.linalg.norm(shown - fitted, axis=0).max() <= noise)
