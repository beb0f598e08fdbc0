"""Factors of products on their way to workers: each travels once, however many mini-tasks need it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from echelon.arrays import NumberArray
from echelon.clusters import Attached, new_key
from echelon.codes import ProductCode
from echelon.codes.products import coded_factor


class Factor:
    """A matrix that workers can read. Made by `MatmulStream.keep`, it may be a factor of many products.

    Later changes to the original array do not reach it.
    """

    def __init__(self, packed: Any, owner: object, *, kept: bool) -> None:
        self.packed, self.owner = packed, owner
        matrix = packed.value
        self.shape: tuple[int, int] = matrix.shape
        self.dtype: np.dtype[Any] = matrix.dtype
        self.key = new_key()
        self.kept = kept
        self.users = 0  # products that need it
        self.loaded = False

    def drop(self) -> None:
        """Let the workers forget it once no product needs it any more."""
        self.kept = False

    def __repr__(self) -> str:
        return f"<factor of shape {self.shape}, {self.dtype}>"


class RoundFactors(Attached):
    """Which factors the slots of a round are made of, and where the coded ones made by the master lie.

    slots: for each slot the keys of its factors, and of what was coded beforehand, each a dict of pairs by row.
    """

    def __init__(self, slots: Sequence[tuple[int, int, tuple[int, ...]]]) -> None:
        self._slots = slots
        self._find: Callable[[int], Any] | None = None

    def attach(self, find: Callable[[int], Any]) -> None:
        """Take the function that finds factors by key."""
        self._find = find

    def factors(self, slot: int) -> tuple[NumberArray, NumberArray]:
        """Return both factors of a slot's product."""
        assert self._find is not None
        first, second, _ = self._slots[slot]
        return self._find(first), self._find(second)

    def coded(self, slot: int, row: int) -> tuple[NumberArray, NumberArray] | None:
        """Return the coded factors of a row, where the master has made them."""
        assert self._find is not None
        for key in self._slots[slot][2]:
            pair: tuple[NumberArray, NumberArray] | None = self._find(key).get(row)
            if pair is not None:
                return pair
        return None


def coded_pair(
    code: ProductCode, row: int, first: NumberArray, second: NumberArray
) -> tuple[NumberArray, NumberArray]:  # fmt: skip
    """Return the coded factors of a row."""
    x, z, y = code.blocks
    if first.dtype != second.dtype:  # coded in the finer precision of the two
        common = np.result_type(first, second)
        first, second = first.astype(common, copy=False), second.astype(common, copy=False)
    return coded_factor(first, code.left[row], x, z), coded_factor(second, code.right[row], z, y)


class ProductWork:
    """Mini-tasks: products of coded factors. Part numbers are slot times rows plus row."""

    def __init__(self, code: ProductCode) -> None:
        self._code = code

    def row(self, slot: int, row: int) -> tuple[Sequence[int], NumberArray]:
        """Return the only part of a row."""
        return (slot * self._code.rows + row,), np.ones(1)

    def part(self, state: RoundFactors, part: int) -> NumberArray:
        """Return the product of a row's coded factors; factors not made by the master are made here."""
        slot, row = divmod(part, self._code.rows)
        first, second = state.coded(slot, row) or coded_pair(self._code, row, *state.factors(slot))
        result: NumberArray = first @ second
        return result
