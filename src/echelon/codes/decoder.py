"""Weights that recover the target from the rows received, with the noise they let through.

The system of all rows is solved once. A round then misses few rows, and costs a system of the size of what is
missing, not of what arrived. With W0 the shortest weights over all rows and N an orthonormal basis of the combinations
that cancel, the weights W0 + Y N vanish on the missing rows M where Y N[:, M] = -W0[:, M]; the shortest such Y gives
the weights that amplify noise least, from all rows received.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import array_api_compat as api
import numpy as np

from echelon import checks
from echelon.arrays import BoolArray, FloatArray, IntArray, NumberArray
from echelon.codes.base import Code, checked_limit
from echelon.codes.checking import Checker
from echelon.codes.combine import combine, inexact
from echelon.codes.error_estimate import EPSILON, ErrorEstimate, relative
from echelon.codes.residual import weights_for
from echelon.codes.systematic import lost_part_weights
from echelon.codes.verify import checked_rows, verify
from echelon.errors import ArgumentError, CorruptMessages, NotDecodable
from echelon.linalg import row_space
from echelon.reprs import short_repr

_MISFIT = 1e-9  # relative: beyond it the target is outside the span of the rows, as the tracker sees it
_CACHE = 1024  # patterns remembered
_LARGE = 1e8  # a solution this much larger than its right-hand side comes from a singular system


@dataclass(frozen=True, slots=True)
class Weights:
    """How to recover the target from some rows.

    rows: the rows that messages must come from, in this order, shape (received,).
    solved: which of the wanted values are combinations of messages; the others are messages themselves.
    matrix: the solved ones are ``matrix @ messages``, shape (solved, received).
    copied: for each wanted value the message that it is a copy of, or -1, shape (wanted,).
    amplification: the largest norm of a row of `matrix`, at least 1 where something is copied: independent noise of
        size one in every message becomes this much.
    gain: how much larger the error of the result is than that of a message, both relative to the terms they are made
        of: the norm of weights times norms of rows, over that of the target; at least 1.
    misfit: by how much the weights miss the target, relative to its norm; usually rounding alone.
    reach: how large the terms of the target are, for each message, if its largest number is 1, shape (received,).
    """

    rows: IntArray
    solved: IntArray
    matrix: NumberArray
    copied: IntArray
    amplification: float
    gain: float
    misfit: float
    reach: FloatArray

    __repr__ = short_repr

    def relative_to_terms(self, epsilon: float = EPSILON, adding: float | None = None) -> float:
        """Return the error to expect of the result, relative to its terms.

        epsilon: the precision of messages; adding: that of the sum, where it differs.
        """
        if not len(self.solved):  # a copy is as good as what it is a copy of
            return epsilon
        added = float(len(self.rows) ** 0.5) * (epsilon if adding is None else adding)
        return self.gain * epsilon + added + self.misfit

    def error_estimate(
        self, value: Any, sizes: FloatArray, epsilon: float = EPSILON, adding: float | None = None
    ) -> ErrorEstimate:
        """Return both errors of a result, from the largest number of every message that it was combined from."""
        terms = self.relative_to_terms(epsilon, adding)
        if not len(self.solved):
            return ErrorEstimate(terms, terms)
        return ErrorEstimate(terms, relative(terms * self.terms(sizes), value, epsilon))

    def terms(self, sizes: FloatArray) -> float:
        """Return how large the terms of the result are, from the largest number of every message."""
        return float((self.reach * sizes).max())

    def combine(self, messages: Iterable[Any], out: Any = None, *, sizes: FloatArray | None = None) -> Any:
        """Return the target, shape (wanted, ...), from messages in the order of `rows`; see `combine`.

        `sizes` is left alone where every wanted value is a copy.
        """
        listed = list(messages)
        if len(listed) != len(self.rows):
            raise ArgumentError(f"messages: {len(listed)} given; must be {len(self.rows)}, one per row")
        if len(self.solved) == len(self.copied):
            return combine(self.matrix, listed, out, sizes=sizes)
        values = [inexact(listed[i]) if i >= 0 else None for i in self.copied]
        if len(self.solved):
            for wanted, value in zip(self.solved, combine(self.matrix, listed, sizes=sizes), strict=True):
                values[wanted] = value
        whole = api.array_namespace(*listed).stack(values)
        if out is None:
            return whole
        if not api.is_numpy_array(out) or out.shape != whole.shape or out.dtype != whole.dtype:
            raise ArgumentError(f"out: must be a NumPy array of shape {tuple(whole.shape)} and type {whole.dtype}")
        out[...] = whole
        return out


@dataclass(frozen=True, slots=True)
class Decoded:
    """A recovered target and what is known about its quality.

    value: the target, shape (wanted, ...), in the precision of the messages.
    amplification: of the weights that were used.
    error_estimate: how far the value may be off, relative to its terms and relative to itself.
    corrupt: rows whose messages were found wrong and left out; always empty unless verification was asked for.
    """

    value: Any
    amplification: float
    error_estimate: ErrorEstimate
    corrupt: tuple[int, ...]

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Nearest:
    """How to come near the target from rows that are too few to give it.

    weights: of the rows that have something to add; their `misfit` is 0, since what is missed is in `effective`.
    effective: the weight that each part has in the result, shape (parts,).
    """

    weights: Weights
    effective: NumberArray


class Decoder:
    """Finds weights for a code; made once, used every round; patterns seen before cost a look-up.

    `limit` is the largest amplification that is accepted, by default the code's own: beyond it `NotDecodable` asks
    for more rows.

    >>> from echelon.codes import cyclic
    >>> weights = Decoder(cyclic(rows=3, load=2, rng=np.random.default_rng(1))).weights([2, 0])
    >>> weights.rows.tolist(), weights.matrix.shape
    ([0, 2], (1, 2))
    """

    def __init__(self, code: Code, *, limit: float | None = None) -> None:
        self.code = checks.instance("code", code, Code)
        self.limit = code.limit if limit is None else checked_limit(limit)
        self._known: dict[bytes, Weights] = {}
        self._norms = np.ones(code.rows) if code.plain else np.linalg.norm(code.matrix, axis=1)
        self._norms[self._norms == 0] = 1.0  # rows of zeros
        self._targets = np.linalg.norm(code.target, axis=1)
        self._targets[self._targets == 0] = 1.0
        self._reach = float(np.abs(code.target).sum(axis=1).max()) / self._norms
        if code.systematic:
            return
        self._solved, self._copied = np.arange(len(code.target)), np.full(len(code.target), -1)
        if code.plain:  # nothing cancels, and nothing has to be solved
            self._shortest, self._cancel = code.target, np.empty((0, code.rows))
            self._size = float(np.abs(code.target).max()) or 1.0
            return
        space = row_space(code.matrix)
        inside = (code.target @ space.basis.conj().T) @ space.basis
        if not np.allclose(inside, code.target, rtol=0, atol=_MISFIT * np.abs(code.target).max()):
            raise ArgumentError("code: not allowed; its target lies outside the span of all its rows")
        self._shortest = (code.target @ space.basis.conj().T) @ space.reach
        self._cancel = space.cancel
        self._size = float(np.abs(self._shortest).max()) or 1.0

    @cached_property
    def checker(self) -> Checker:
        """What rows beyond the needed ones check; made when it is first asked for."""
        return Checker(self.code)

    def weights(self, received: Iterable[int]) -> Weights:
        """Return the weights for the distinct rows received; raise `NotDecodable` where they are not enough."""
        here = np.zeros(self.code.rows, dtype=bool)
        listed = np.asarray(received if isinstance(received, np.ndarray) else checks.items("received", received))
        try:
            # as unsigned numbers, negative ones are out of range like those too large
            here[listed.astype(np.uintp) if listed.dtype.kind in "iu" or not listed.size else [self.code.rows]] = True
        except IndexError:
            raise ArgumentError(f"received: must be rows from 0 to {self.code.rows - 1}") from None
        key = here.tobytes()
        found = self._known.get(key)
        if found is None:
            found = self._solve(here)
            if len(self._known) >= _CACHE:
                self._known.pop(next(iter(self._known)))
            self._known[key] = found
        return found

    def nearest(self, received: Iterable[int]) -> Nearest:
        """Return the weights by which rows that may be too few come nearest to one sum, and what they give.

        >>> from echelon.codes import fractional_repetition
        >>> near = Decoder(fractional_repetition(rows=4, load=2)).nearest([0, 1])
        >>> near.weights.rows.tolist(), near.effective.tolist()
        ([1], [1.0, 1.0, 0.0, 0.0])
        """
        found = weights_for(self.code, received)
        used = np.flatnonzero(found.weights)  # others have nothing to add
        rows, matrix = found.rows[used], np.ascontiguousarray(found.weights[None, used])
        amplification = float(np.linalg.norm(matrix))
        gain = max(1.0, float(np.linalg.norm(matrix[0] * self._norms[rows]) / self._targets[0]))
        solved, copied = np.arange(1), np.full(1, -1)
        weights = Weights(rows, solved, matrix, copied, amplification, gain, 0.0, self._reach[rows])
        return Nearest(weights, found.effective)

    def decode(
        self, rows: Iterable[int], messages: Sequence[Any], *, verified: bool = False, tolerance: float | None = None
    ) -> Decoded:
        """Return the target from the messages of some rows, with its amplification and errors.

        `verified` checks the messages against each other first (see `verify`) and leaves out those that are wrong; it
        raises `CorruptMessages` where it can't name them.

        >>> from echelon.codes import uncoded
        >>> Decoder(uncoded(parts=2)).decode([1, 0], [np.ones(2), np.full(2, 3.0)]).value.tolist()
        [[4.0, 4.0]]
        """
        listed = checked_rows(rows)
        messages = checks.items("messages", messages)
        checks.flag("verified", verified)
        if len(listed) != len(messages):
            raise ArgumentError(f"messages: {len(messages)} given; must be {len(listed)}, one per row")
        by_row = dict(zip(listed, messages, strict=True))
        corrupt: tuple[int, ...] = ()
        if verified:
            said = verify(self.code, by_row, list(by_row.values()), tolerance=tolerance)
            if not said.told:
                raise CorruptMessages(
                    f"{len(by_row)} messages contradict each other, and {said.checks} checks can't tell which are "
                    "wrong: ask for more rows, or compute the round again"
                )
            corrupt = said.corrupt
        weights = self.weights(row for row in by_row if row not in corrupt)
        used, sizes = [by_row[row] for row in weights.rows.tolist()], np.empty(len(weights.rows))
        value = weights.combine(used, sizes=sizes)
        estimate = weights.error_estimate(value, sizes, max(_epsilon(message) for message in used))
        return Decoded(value, weights.amplification, estimate, corrupt)

    def ready(self, received: Iterable[int]) -> bool:
        """Return whether these rows decode within the limit: use it where a tracker's yes is not enough."""
        try:
            self.weights(received)
        except NotDecodable:
            return False
        return True

    def _solve(self, here: BoolArray) -> Weights:
        rows = np.flatnonzero(here)
        if self.code.counting and len(rows) < self.code.threshold:
            raise NotDecodable(
                f"{len(rows)} of {self.code.rows} rows; {self.code.threshold} are needed: wait for more rows or raise "
                "redundancy"
            )
        if self.code.systematic:
            solved, weights, misfit = lost_part_weights(self.code, here)
            copied = np.where(here[: self.code.systematic], np.cumsum(here)[: self.code.systematic] - 1, -1)
            kept = np.ascontiguousarray(weights[:, rows])
        else:
            weights, solved, copied = self._shift(here), self._solved, self._copied
            kept = np.ascontiguousarray(weights[:, rows])
            misfit = self._missed(weights)
        squares = (kept * kept.conj()).real
        copies = self.code.systematic and len(solved) < self.code.systematic
        amplification = float(squares.sum(axis=1).max(initial=1.0 if copies else 0.0)) ** 0.5
        gains = squares @ self._norms[rows] ** 2 / self._targets[solved] ** 2
        gain = float(gains.max(initial=1.0)) ** 0.5  # summation rounds, too
        if not amplification <= self.limit:
            raise NotDecodable(
                f"{len(rows)} of {self.code.rows} rows give the target with noise amplified {amplification:.1e} times, "
                f"more than {self.limit:.1e}: wait for another row, or choose a better conditioned code"
            )
        reach = self._reach[rows]
        for shared in (rows, solved, kept, copied, reach):
            shared.setflags(write=False)  # patterns are remembered: no caller may change what others will get
        return Weights(rows, solved, kept, copied, amplification, gain, misfit, reach)

    def _missed(self, weights: NumberArray) -> float:
        """Return by how much weights over all rows miss the target, relative to its norm."""
        missed = np.linalg.norm(weights @ self.code.matrix - self.code.target, axis=1)
        return float((missed / self._targets).max())

    def _shift(self, here: BoolArray) -> NumberArray:
        """Return weights over all rows that vanish on the missing ones."""
        missing = np.flatnonzero(~here)
        if not len(missing):
            return self._shortest
        wanted = self._shortest[:, missing]
        weights: NumberArray = (
            self._shortest - _least_shift(self._cancel[:, missing], wanted, self._size) @ self._cancel
        )
        if not np.abs(weights[:, missing]).max() <= _MISFIT * self._size:
            raise NotDecodable(
                f"{int(here.sum())} of {self.code.rows} rows do not give the target in floating point: wait for more "
                "rows, raise redundancy, or choose a better conditioned code"
            )
        weights[:, missing] = 0
        return weights


def _least_shift(held: NumberArray, wanted: NumberArray, size: float) -> NumberArray:
    """Return the shortest y with ``y @ held`` as near to `wanted` as possible; a square system is solved directly.

    Where it is singular, or nearly so, least squares tells whether the rows are enough.
    """
    if held.shape[0] == held.shape[1]:
        try:
            direct: NumberArray = np.linalg.solve(held.T, wanted.T).T
        except np.linalg.LinAlgError:
            direct = np.full(wanted.shape, np.inf)
        if np.abs(direct).max() <= _LARGE * size:
            return direct
    fitted: NumberArray = np.linalg.lstsq(held.T, wanted.T, rcond=1e-12)[0].T
    return fitted


def _epsilon(message: Any) -> float:
    """Return the precision of a message's numbers; integers count as float64."""
    xp = api.array_namespace(message)
    exact = not xp.isdtype(message.dtype, ("real floating", "complex floating"))
    return float(xp.finfo(xp.float64 if exact else message.dtype).eps)
