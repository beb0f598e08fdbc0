"""What a code states: which combinations its rows are, and how many of them are enough."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from echelon import checks
from echelon.arrays import BoolArray, NumberArray
from echelon.codes.combine import apply_rows
from echelon.codes.pairs import Pairs, pairs_of
from echelon.errors import ArgumentError
from echelon.reprs import short_repr


def checked_limit(limit: Any) -> float:
    """Return a limit on noise amplification; infinity means none."""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
        raise ArgumentError(f"limit: {limit!r} is not allowed; must be a number > 0")
    return float(limit)


@dataclass(frozen=True, eq=False, kw_only=True)
class Code:
    """Rows that are linear combinations of parts, and what to recover from them.

    matrix: row i is ``matrix[i] @ parts``, shape (rows, parts), real or complex.
    target: what is wanted, ``target @ parts``, shape (wanted, parts); a row of ones for a sum of gradients.
    threshold: any this many distinct rows recover the target.
    counting: whether fewer never do; otherwise a lucky set of fewer rows may be enough (the span rule decides).
    precoded: whether a row is computed from data combined beforehand, as one part of work (linear work), instead of
        from the results of its parts (gradients).
    systematic: how many of the first rows are the parts themselves.
    limit: the largest noise amplification that a decoder accepts by default; beyond it the decoder waits for one more
        row.
    pieces: into how many pieces of one length results are cut; rows combine pieces, and so are shorter than results.
        Columns are then pieces: column ``part * pieces + i`` of `matrix` and `target` is piece i of a part.
    missing: the chance that a row does not come, for which rows are scaled: then the plain sum of those that come has
        the target for its mean (`stochastic`, `weights_for`). None where rows are not meant to be added up like that.
    """

    matrix: NumberArray
    target: NumberArray
    threshold: int
    counting: bool
    precoded: bool = False
    systematic: int = 0
    limit: float = 1e8
    pieces: int = 1
    missing: float | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        for name in ("matrix", "target"):
            checks.instance(name, getattr(self, name), np.ndarray)
            if getattr(self, name).dtype.kind not in "biufc":
                raise ArgumentError(f"{name}: {getattr(self, name).dtype} is not allowed; must be an array of numbers")
        checks.whole("systematic", self.systematic, least=0)
        if self.matrix.ndim != 2 or self.target.ndim != 2 or self.matrix.shape[1] != self.target.shape[1]:
            raise ArgumentError(
                f"target: shape {self.target.shape} is not allowed; must be (wanted, parts), for a matrix of shape "
                f"(rows, parts), {self.matrix.shape}"
            )
        if not np.isfinite(self.matrix).all() or not np.isfinite(self.target).all():
            raise ArgumentError("matrix, target: must be finite everywhere")
        checks.whole("threshold", self.threshold, least=1, most=self.rows)
        checks.whole("pieces", self.pieces, least=1)
        if self.matrix.shape[1] % self.pieces or (self.pieces > 1 and (self.precoded or self.systematic)):
            raise ArgumentError(
                f"pieces: {self.pieces} is not allowed; must divide the {self.matrix.shape[1]} columns, and be 1 where "
                "rows are encoded beforehand"
            )
        checked_limit(self.limit)
        if self.missing is not None and not checks.probability("missing", self.missing) < 1:
            raise ArgumentError("missing: 1 is not allowed; some rows must come")
        if self.systematic and not self._is_systematic():
            raise ArgumentError(
                f"systematic: {self.systematic} is not allowed; must be 0, or the number of parts, with identity rows "
                "first, real parity, all parts wanted, and counting"
            )

    def _is_systematic(self) -> bool:
        unit = np.eye(self.parts)
        return bool(
            self.systematic == self.threshold == self.parts
            and self.counting
            and not np.iscomplexobj(self.matrix)
            and np.array_equal(self.matrix[: self.parts], unit)
            and np.array_equal(self.target, unit)
        )

    @property
    def rows(self) -> int:
        """Number of rows, n."""
        return int(self.matrix.shape[0])

    @property
    def parts(self) -> int:
        """Number of parts that rows combine."""
        return int(self.matrix.shape[1]) // self.pieces

    @cached_property
    def support(self) -> BoolArray:
        """Which parts each row combines, shape (rows, parts)."""
        held: BoolArray = self.matrix != 0
        if self.pieces == 1:
            return held
        pieced: BoolArray = np.any(held.reshape(self.rows, self.parts, self.pieces), axis=2)
        return pieced

    @cached_property
    def sums(self) -> bool:
        """Whether what it recovers is the sum of the parts' results, piece by piece, from real combinations of them."""
        each = np.eye(self.pieces)
        summed = self.target.shape == (self.pieces, self.matrix.shape[1]) and not self.precoded
        whole = (self.target.reshape(self.pieces, -1, self.pieces) == each[:, None, :]).all() if summed else False
        return bool(whole) and not np.iscomplexobj(self.matrix)

    @cached_property
    def plain(self) -> bool:
        """Whether the rows are the parts themselves, in their order, and no others."""
        one_each = self.pieces == 1 and self.rows == self.parts == np.count_nonzero(self.support)
        return one_each and bool((self.matrix.diagonal() == 1).all())

    @cached_property
    def pairs(self) -> Pairs | None:
        """The graph of the code, where rows are plain sums of at most two groups of parts; otherwise None."""
        return pairs_of(self.matrix, self.target)

    @cached_property
    def mean_costs(self) -> tuple[float, float]:
        """Parts to compute for a row alone, and for one right after the row before it: means over all rows."""
        if self.precoded:
            return 1.0, 1.0
        alone = float(np.count_nonzero(self.support)) / self.rows
        fresh = float(np.count_nonzero(self.support[1:] & ~self.support[:-1]))
        return alone, fresh / (self.rows - 1) if self.rows > 1 else alone

    def cost(self, row: int, after: int | None = None) -> int:
        """Return the parts to compute for a row, alone or right `after` another one of the same lane.

        A worker keeps the part results of its previous row: what both rows share is not computed again.
        """
        for named in (row, *(() if after is None else (after,))):
            checks.whole("row", named, least=0, most=self.rows - 1)
        if self.precoded:
            return 1
        fresh = self.support[row] if after is None else self.support[row] & ~self.support[after]
        return int(np.count_nonzero(fresh))

    def storage(self, rows: Iterable[int]) -> int:
        """Return how many parts' worth of data a worker with these rows must hold."""
        listed = sorted(set(rows))
        return len(listed) if self.precoded else int(np.count_nonzero(self.support[listed].any(axis=0)))

    def encode(self, parts: Any) -> list[Any]:
        """Return all rows of an array (NumPy, torch, …) whose first axis runs over the parts, or their pieces.

        The rest may have any shape. Rows that are parts themselves are views: nothing is copied.
        """
        columns = self.matrix.shape[1]
        if not len(parts.shape) or parts.shape[0] != columns:
            raise ArgumentError(
                f"parts: shape {tuple(parts.shape)} is not allowed; the first axis must be {columns} long"
            )
        plain = [parts[i] for i in range(self.systematic)]
        if self.systematic == self.rows:
            return plain
        coded = apply_rows(self.matrix[self.systematic :], parts)
        return plain + [coded[i] for i in range(self.rows - self.systematic)]
