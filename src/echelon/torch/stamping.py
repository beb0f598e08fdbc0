"""Marks on a rank's own clock: when its forward pass began, its buckets were ready, and the reduce was over."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from time import perf_counter
from typing import Any, Protocol

import torch

Row = tuple[float, float, float, float]  # as the columns of stamps, see `echelon.torch.scores`
MISSING: Row = (nan, nan, nan, nan)
CLOSED: Row = (inf, inf, inf, inf)  # of a rank that has stopped stamping


class Clock(Protocol):
    """Marks of now, and the seconds between two of them.

    lag: how many steps to let pass before marks are read, so that reading them never waits.
    """

    lag: int

    def mark(self) -> Any:
        """Return a mark of now."""

    def seconds(self, start: Any, stop: Any) -> float:
        """Return the seconds from one mark to another."""


class HostClock:
    """The clock of the host: right where the host computes, or waits for what it has queued.

    >>> clock = HostClock()
    >>> clock.seconds(1.0, 3.5)
    2.5
    """

    lag = 0

    def mark(self) -> float:
        """Return the time in seconds."""
        return perf_counter()

    def seconds(self, start: float, stop: float) -> float:
        """Return the difference."""
        return stop - start


class DeviceClock:
    """Events in the queue of a device, which runs behind the host.

    An event is read two steps later: the device has passed it by then, or has two steps of work queued, so that it
    does not run dry while the host waits.

    record: returns an event that takes the time, recorded on the stream that is current.
    """

    lag = 2

    def __init__(self, record: Callable[[], Any]) -> None:
        self._record = record

    def mark(self) -> Any:
        """Return an event that was recorded."""
        return self._record()

    def seconds(self, start: Any, stop: Any) -> float:
        """Return how much later the device came to the second event."""
        start.synchronize()
        stop.synchronize()
        return float(start.elapsed_time(stop)) / 1e3  # it is in milliseconds


def clock_of(device: torch.device) -> Clock:
    """Return the clock of a rank whose model is on this device."""
    if device.type == "cuda":
        event = partial(torch.cuda.Event, enable_timing=True)
        # of the model's device, which need not be the current one
        return DeviceClock(lambda: torch.cuda.current_stream(device).record_event(event()))
    return HostClock()


@dataclass(slots=True)
class Step:
    """The marks of one step of one rank, None where there are none; and whether it has stopped stamping."""

    begun: Any = None
    first: Any = None
    last: Any = None
    reduced: Any = None
    closed: bool = False

    def row(self, before: "Step", clock: Clock) -> Row:
        """Return the times of this step since the end of the one before; nan where a mark is missing, inf once closed.

        >>> Step(2.5, 3.0, 4.0, 4.5).row(Step(0.0, 0.5, 1.0, 2.0), HostClock())
        (0.5, 1.0, 2.0, 2.5)
        """
        if self.closed:
            return CLOSED
        marks = (self.begun, self.first, self.last, self.reduced)
        if before.reduced is None or any(mark is None for mark in marks):
            return MISSING
        begun, first, last, reduced = (clock.seconds(before.reduced, mark) for mark in marks)
        return begun, first, last, reduced
