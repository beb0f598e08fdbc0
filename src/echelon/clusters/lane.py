"""A worker's lane, part by part: how every cluster computes the rows of a round.

Results of parts that a later row of the lane needs are kept, so that a lane computes each part once. Between parts it
asks whether the round, and the slot, are still wanted: a purge costs one part at most, or a row computed at once.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from echelon import trees
from echelon.arrays import NumberArray, private
from echelon.clusters.base import AtOnce, Remembers, Work, Writes
from echelon.clusters.narrow import narrowed
from echelon.clusters.pieces import combined_pieces, short_form
from echelon.codes import combine
from echelon.errors import ArgumentError

Allocate = Callable[[bytes, Any], list[NumberArray] | None]


class Lane:
    """Computes the rows of one round on one worker.

    wanted: says whether the current row is still needed.
    allocate: gives memory for a message of some form, into which a sum is written directly, on a device where one is
        named; None for no preference.
    own: whether messages are kept as they are, and so must not lie in memory that a part's code will use again.
    copy: copies what is kept.
    memory: what the worker remembers of the work.

    added: whether its rows are only ever added up.
    sizes: the largest number of each segment of the last row, where the work has told it.
    """

    def __init__(
        self,
        work: Work,
        state: Any,
        wanted: Callable[[], bool],
        allocate: Allocate | None = None,
        *,
        own: bool = False,
        copy: Callable[[NumberArray], NumberArray] = np.copy,
        memory: dict[Any, Any] | None = None,
    ) -> None:
        self._narrow, self.added = bool(getattr(work, "narrow", False)), only_added(work)
        self._work, self._state, self._wanted, self._own, self._copy = work, state, wanted, own, copy
        self._memory: dict[Any, Any] = {} if memory is None else memory
        self._allocate = None if self._narrow else allocate  # a sum is as wide as its parts
        self._kept: dict[int, tuple[bytes, list[NumberArray]]] = {}
        self._uses: dict[int, int] = {}  # of each part, by rows still to compute
        self.sizes: tuple[float, ...] = ()
        self.computing: Sequence[int] = ()  # the parts that the work computes just now, to be named if it raises

    def expect(self, rows: Iterable[tuple[int, int]]) -> None:
        """Register coming rows, (slot, row) each: what they share is kept until the last of them."""
        uses = self._uses
        for slot, row in rows:
            for part in self._work.row(slot, row)[0]:
                uses[part] = uses.get(part, 0) + 1

    def row(self, slot: int, row: int) -> tuple[bytes, list[NumberArray]] | None:
        """Return the form and the segments of a row's message, or None where the round is no longer wanted."""
        self.computing, self.sizes = (), ()
        found = self._row(slot, row)
        return found if found is None or not self._narrow else narrowed(*found)

    def _row(self, slot: int, row: int) -> tuple[bytes, list[NumberArray]] | None:
        parts, coefficients = self._work.row(slot, row)
        if isinstance(self._work, Remembers):
            return self._gone_on(self._work, parts)
        whole = coefficients.ndim == 1
        if whole and isinstance(self._work, Writes) and self._alone(parts):
            return self._written(self._work, parts, coefficients)
        if whole and len(parts) == 1 and coefficients[0] == 1:
            return self._plain(parts[0])
        if whole and isinstance(self._work, AtOnce) and self._alone(parts):
            return self._at_once(self._work, parts, coefficients)
        used: dict[int, tuple[bytes, list[NumberArray]]] = {}
        for part in parts:
            known = self._kept.get(part)
            if known is None:
                if not self._wanted():
                    return None
                known = self._kept[part] = self._part(part, keep=True)
            used[part] = known
        for part in parts:
            self._used(part)
        results = list(used.values())
        form = results[0][0]
        for part, (other, _) in used.items():
            if other != form:
                raise ArgumentError(
                    f"result: part {part} gave {other.decode()}, part {parts[0]} gave {form.decode()}; all parts must "
                    "give results of one shape and type"
                )
        form = form if whole else short_form(form, coefficients.shape[1])
        out = self._allocate(form, None) if self._allocate is not None else None
        adding = _combined if whole else combined_pieces
        return form, [
            adding(coefficients, segments, None if out is None else out[i])
            for i, segments in enumerate(zip(*(segments for _, segments in results), strict=True))
        ]

    def _plain(self, part: int) -> tuple[bytes, list[NumberArray]] | None:
        """Return a row that is a part."""
        known = self._kept.get(part)
        if known is None:
            if not self._wanted():
                return None
            again = self._uses.get(part, 1) > 1
            known = self._part(part, keep=self._own or again)
            if again:
                self._kept[part] = known
        self._used(part)
        return known

    def _gone_on(self, work: Remembers, parts: Sequence[int]) -> tuple[bytes, list[NumberArray]] | None:
        """Return a row whose part goes on from what this worker remembers."""
        (part,) = parts
        if not self._wanted():
            return None
        self.computing = parts
        result = work.go_on(self._state, part, self._memory, self._wanted)
        self._used(part)
        return None if result is None else self._flat(result, keep=self._own)

    def _alone(self, parts: Sequence[int]) -> bool:
        """Return whether no other row needs these parts, and none of them is known."""
        return all(self._uses.get(part, 1) == 1 and part not in self._kept for part in parts)

    def _written(
        self, work: Writes, parts: Sequence[int], coefficients: NumberArray
    ) -> tuple[bytes, list[NumberArray]] | None:
        """Return a row whose parts no other row needs, written where it is to lie."""
        if not self._wanted():
            return None
        for part in parts:
            self._used(part)
        self.computing = parts
        given: list[NumberArray] = []

        def room(count: int, dtype: str, device: Any = None) -> NumberArray:
            assert not given, "one row, one memory"
            form = trees.array_form(np.dtype(dtype).char, (count,))
            out = None if self._allocate is None else self._allocate(form, device if self.added else None)
            given.append(np.empty(count, dtype) if out is None else out[0])
            return given[0]

        result, size = work.write(self._state, parts, coefficients, room)
        self.sizes = () if self._narrow else (size,)
        if given and result is given[0] and not isinstance(result, np.ndarray):
            return trees.array_form(np.dtype(str(result.dtype).removeprefix("torch.")).char, (len(result),)), given
        if not given or result is given[0]:
            return self._flat(result, keep=self._own and not given)
        given[0][:] = result
        return self._flat(given[0], keep=False)

    def _at_once(
        self, work: AtOnce, parts: Sequence[int], coefficients: NumberArray
    ) -> tuple[bytes, list[NumberArray]] | None:
        """Return a row whose parts no other row needs."""
        if not self._wanted():
            return None
        for part in parts:
            self._used(part)
        self.computing = parts
        return self._flat(work.at_once(self._state, parts, coefficients), keep=self._own)

    def _part(self, part: int, *, keep: bool) -> tuple[bytes, list[NumberArray]]:
        self.computing = (part,)
        return self._flat(self._work.part(self._state, part), keep)

    def _flat(self, result: Any, keep: bool) -> tuple[bytes, list[NumberArray]]:
        """Return form and segments of a part's result; what is kept for later must not lie in foreign memory."""
        form, segments = trees.flatten(result)
        del result  # an array without other references is not copied
        return form, [
            segment if private(segment) else self._copy(segment) for segment in segments
        ] if keep else segments

    def _used(self, part: int) -> None:
        """Count one use of a part less, and drop its result after the last."""
        left = self._uses.pop(part, 1) - 1
        if left > 0:
            self._uses[part] = left
        else:
            self._kept.pop(part, None)


def _combined(coefficients: NumberArray, segments: Sequence[NumberArray], out: NumberArray | None) -> NumberArray:
    """Return the weighted sum of segments, written into `out` where it is given."""
    total: NumberArray = combine(coefficients[None], segments, None if out is None else out[None])[0]
    return total


def only_added(work: Work) -> bool:
    """Return whether the rows of some work are only ever added up."""
    return bool(getattr(work, "added", False))
