"""What a round gave: its messages, and the weights that recover its slots from them."""

from typing import Any

import numpy as np

from echelon import trees
from echelon.arrays import NumberArray
from echelon.clusters import Message
from echelon.codes import Weights, combine


class Collected:
    """Messages of a round, by slot and row, and weights of the slots that are recovered."""

    def __init__(self, messages: dict[tuple[int, int], Message], weights: dict[int, Weights]) -> None:
        self.messages, self.weights = messages, weights

    def take(self) -> dict[tuple[int, int], Message]:
        """Return the messages, whose memory the caller gives back from here on."""
        taken, self.messages = self.messages, {}
        return taken

    def total(self) -> Any:
        """Return the sum over all slots, in one pass over their messages."""
        row = np.concatenate([weights.matrix[0] for weights in self.weights.values()])[None]
        return _summed(row, [message for slot in self.weights for message in self._of(slot)])

    def by_slot(self) -> list[Any]:
        """Return what each slot gives, in their order."""
        return [_summed(self.weights[slot].matrix, self._of(slot)) for slot in sorted(self.weights)]

    def stacked(self) -> Any:
        """Return all values that the only slot gives, along a first axis."""
        ((slot, weights),) = self.weights.items()
        messages = self._of(slot)
        columns = range(len(messages[0].segments))
        return trees.unflatten(
            messages[0].form, [weights.combine([message.segments[i] for message in messages]) for i in columns]
        )

    def _of(self, slot: int) -> list[Message]:
        """Return the messages of a slot, in the order of its weights."""
        return [self.messages[slot, row] for row in self.weights[slot].rows.tolist()]


def _summed(row: NumberArray, messages: list[Message]) -> Any:
    """Return one weighted sum of messages."""
    sums: list[NumberArray] = [
        combine(row, [message.segments[i] for message in messages])[0] for i in range(len(messages[0].segments))
    ]
    return trees.unflatten(messages[0].form, sums)
