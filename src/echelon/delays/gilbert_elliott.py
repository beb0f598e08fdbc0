"""Bursts of slowness by the Gilbert-Elliott chain, for workers that are slow for a while and then recover."""

from dataclasses import dataclass

from echelon.delays.fritchman import Fritchman
from echelon.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class GilbertElliott(Fritchman):
    """Fritchman's chain with one bad state: good turns bad with `enter`, bad turns good with `leave`.

    >>> from echelon.delays import Exponential
    >>> GilbertElliott(base=Exponential(rate=1.0), enter=0.1, leave=0.4, slowdown=6.0).mean
    2.0
    """

    states: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.states != 1:
            raise ArgumentError(f"states: {self.states} is not allowed; a Gilbert-Elliott chain has 1 bad state")
