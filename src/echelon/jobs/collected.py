"""What a round gave: its messages, and the weights that recover its slots from them."""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import numpy as np

from echelon import trees
from echelon.arrays import FloatArray, NumberArray
from echelon.clusters import Message, Sum, Total
from echelon.clusters.narrow import EPSILON, is_narrow
from echelon.clusters.pieces import joined
from echelon.codes import Code, Weights
from echelon.codes.combine import is_finite
from echelon.codes.error_estimate import relative_to
from echelon.errors import NotFinite

_NOT_FINITE = (
    "results that are not finite can't be recovered from rows that combine several parts, where inf may become NaN: "
    "return finite numbers, or let the job run without a code (redundancy=1.0)"
)


class Collected:
    """Messages of a round, by slot and row, and weights of the slots that are recovered.

    combine: adds up messages that lie here. What lies elsewhere is added there first, and given to `use`.
    scale: what sums are multiplied by.
    codes: of the slots, or of all of them. A sum of rows that add and subtract the same part can't tell inf from NaN:
        where one is not finite, `NotFinite` is raised. Without codes nothing is said.
    relative_to_result: the error to expect of what was added up so far, relative to its largest number; 0 where
        nothing was.
    """

    def __init__(
        self,
        messages: dict[tuple[int, int], Message],
        weights: dict[int, Weights],
        combine: Callable[[NumberArray, Sequence[Message]], Total],
        codes: Sequence[Code] = (),
        scale: float = 1.0,
    ) -> None:
        self._scale = scale
        self.messages, self.weights, self._combine, self._codes = messages, weights, combine, codes
        self.relative_to_result = 0.0
        self._totals: dict[tuple[int, ...], Total] = {}  # by slots, of what was added elsewhere

    def unread(self) -> bool:
        """Return whether a message that was chosen is gone."""
        return any((slot, row) not in self.messages for slot, of in self.weights.items() for row in of.rows.tolist())

    def elsewhere(self) -> bool:
        """Return whether a message that was chosen lies elsewhere."""
        return any(message.elsewhere for slot in self.weights for message in self._of(slot))

    def wanted(self, *, by_slot: bool) -> dict[tuple[int, ...], Sum]:
        """Return the sums to be formed, by the slots that each is over."""
        groups = [(slot,) for slot in sorted(self.weights)] if by_slot else [tuple(self.weights)]
        return {slots: self._sum(slots) for slots in groups}

    def use(self, totals: dict[tuple[int, ...], Total]) -> None:
        """Take totals that were formed elsewhere."""
        self._totals = totals

    def take(self) -> dict[tuple[int, int], Message]:
        """Return the messages, whose memory the caller must give back."""
        taken, self.messages = self.messages, {}
        return taken

    def total(self) -> Any:
        """Return the sum over all slots, in one pass over their messages."""
        return self._summed(tuple(self.weights))

    def by_slot(self) -> list[Any]:
        """Return what each slot gives, in their order."""
        return [self._summed((slot,)) for slot in sorted(self.weights)]

    def stacked(self) -> Any:
        """Return all values that the only slot gives, along a first axis."""
        ((slot, weights),) = self.weights.items()
        messages, sizes, values = self._of(slot), np.empty(len(weights.rows)), []
        for i in range(len(messages[0].segments)):
            values.append(weights.combine([message.segments[i] for message in messages], sizes=sizes))
            if self._codes and len(weights.solved) and not is_finite(values[-1][weights.solved]):
                raise NotFinite(_NOT_FINITE)
            seen = weights.error_estimate(values[-1], sizes, *precisions(messages[0], i))
            self.relative_to_result = max(self.relative_to_result, seen.relative_to_result)
        return trees.unflatten(messages[0].form, values)

    def _of(self, slot: int) -> list[Message]:
        """Return the messages of a slot, in the order of its weights."""
        return [self.messages[slot, row] for row in self.weights[slot].rows.tolist()]

    def _sum(self, slots: tuple[int, ...]) -> Sum:
        weights = np.concatenate([self.weights[slot].matrix[0] for slot in slots])
        return Sum(
            weights if self._scale == 1 else self._scale * weights,
            [message for slot in slots for message in self._of(slot)],
        )

    def _summed(self, slots: tuple[int, ...]) -> Any:
        """Return the sum of what some slots give."""
        if self._pieces > 1:
            return self._joined(slots)
        wanted = self._sum(slots)
        total = self._totals.get(slots) or self._combine(*wanted)
        self._judge(slots, wanted.messages[0], total.largest, total.sizes)
        return trees.unflatten(wanted.messages[0].form, total.segments)

    @property
    def _pieces(self) -> int:
        return max((code.pieces for code in self._codes), default=1)

    def _joined(self, slots: tuple[int, ...]) -> Any:
        """Return the sum of what some slots give, from the sums of its pieces."""
        messages = [message for slot in slots for message in self._of(slot)]
        totals = [
            self._combine(np.concatenate([self.weights[slot].matrix[i] for slot in slots]), messages)
            for i in range(self._pieces)
        ]
        largest = tuple(max(found) for found in zip(*(total.largest for total in totals), strict=True))
        self._judge(slots, messages[0], largest, np.maximum.reduce([total.sizes for total in totals]))
        return joined(messages[0].form, [total.segments for total in totals])

    def _judge(
        self, slots: tuple[int, ...], first: Message, largest: tuple[float, ...], of_segments: FloatArray
    ) -> None:
        """Note the error of a sum, from its largest number and those of its messages, by segment."""
        for i, (size, sizes) in enumerate(zip(largest, of_segments, strict=True)):
            if not isfinite(size) and any(map(self._mixes, slots)):
                raise NotFinite(_NOT_FINITE)
            epsilon, adding = precisions(first, i)
            error = self._error(slots, sizes, epsilon, adding)
            self.relative_to_result = max(self.relative_to_result, relative_to(error, size, epsilon))

    def _mixes(self, slot: int) -> bool:
        """Return whether the sum of a slot takes some part with both signs: then inf - inf may come of an inf."""
        if not self._codes:
            return False
        weights = self.weights[slot]
        rows = self._codes[slot % len(self._codes)].matrix[weights.rows]
        return any(np.iscomplexobj(rows) or bool((line[:, None] * rows < 0).any()) for line in weights.matrix)

    def _error(self, slots: tuple[int, ...], sizes: FloatArray, epsilon: float, adding: float) -> float:
        """Return the error to expect of the sum of some slots, from the largest number of every message."""
        error, at = 0.0, 0
        for weights in (self.weights[slot] for slot in slots):
            terms = weights.terms(sizes[at : at + len(weights.rows)])
            error += weights.relative_to_terms(epsilon, adding) * terms
            at += len(weights.rows)
        return error


def precisions(message: Message, segment: int) -> tuple[float, float]:
    """Return the precision of the numbers of a message, and that in which they are added up."""
    if is_narrow(message.form):
        return EPSILON, float(np.finfo(np.float32).eps)
    adding = float(np.finfo(trees.layout(message.form).segments[segment].dtype).eps)
    return adding, adding
