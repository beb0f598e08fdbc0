"""One run that is shown to readers: its board belongs to one thread, readers take what that thread has put out."""

import json
import math
import time
from collections.abc import Callable
from threading import Condition, Lock
from typing import Any

from echelon.errors import ArgumentError
from echelon.page.board import Board
from echelon.page.drawn import drawn_round
from echelon.page.ring import Ring
from echelon.stream.record import Record
from echelon.stream.what_if import what_if

EVERY_S = 0.25  # between two states
WAIT_S = 0.1  # between two looks at what happened
_SNAPSHOT_S = 10.0  # how long one who asks for a replay waits for the rounds


class Showing:
    """What readers see. `put` is called by the thread that has the board, the other methods by any.

    With nobody reading, nothing is drawn up: the board alone goes on.

    title: of the page. metrics: returns the metrics of the run, where it has any.
    """

    def __init__(self, title: str, metrics: Callable[[], str] | None = None) -> None:
        self.title, self.metrics = title, metrics
        self.rounds = Ring()
        self.over = False
        self._state: tuple[int, str] = (0, "")  # how many there were, and the last
        self._board: Board | None = None
        self._shown = -1  # the last round of the board that is in the ring
        self._next_s = 0.0
        self._readers, self._lock = 0, Lock()
        self._changed = Condition()
        self._wanted = False  # whether one who asks for a replay waits for the rounds
        self._snapshot: Record | None = None
        self._replaying = Lock()
        self._replayed: dict[str, Any] | None = None

    # the thread that has the board

    def put(self, board: Board, state: Callable[[], dict[str, Any]], *, over: bool = False) -> None:
        """Put out what is new, if somebody reads; at most every quarter of a second, and at the end."""
        if self._wanted:
            self._snapshot, self._wanted = board.snapshot(), False
        now = time.monotonic()
        if not over and (not self._readers or now < self._next_s):
            return
        self._next_s = now + EVERY_S
        if board is not self._board:
            self._board, self._shown = board, -1
        names = board.record.job_names
        for number, seen, tasks in list(board.drawn):
            if number > self._shown:
                self._shown = number
                drawn = drawn_round(number, seen, tasks, names.get(seen.job, f"job {seen.job}"))
                self.rounds.add(as_json(drawn))
        told = state()
        if self._replayed is not None:
            told["what_if"] = self._replayed
        text = as_json(told)
        with self._changed:
            if over or text != self._state[1]:
                self._state = (self._state[0] + 1, text)
            self.over = over
            self._changed.notify_all()

    # readers

    def join(self) -> None:
        """Count a reader."""
        with self._lock:
            self._readers += 1

    def leave(self) -> None:
        """Forget a reader."""
        with self._lock:
            self._readers -= 1

    def state(self, after: int, wait_s: float) -> tuple[int, str]:
        """Return the last state and its number, when there is one after the one that is given, or time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._state[0] > after or self.over, wait_s)
            return self._state

    def replay(self) -> dict[str, Any]:
        """Return what other strategies would have taken in the last rounds; computed by the thread that asks.

        Raises `ArgumentError` where there is nothing to replay.
        """
        with self._replaying:
            self._snapshot, self._wanted = None, True
            until = time.monotonic() + _SNAPSHOT_S
            while self._snapshot is None and not self.over and time.monotonic() < until:
                time.sleep(WAIT_S)
            snapshot = self._snapshot
            if snapshot is None:
                raise ArgumentError("the stream is over, or too busy to be asked now; 'echelon report' has it all")
            self._replayed = what_if(snapshot).as_dict()
            return self._replayed


def as_json(value: Any) -> str:
    """Return a value as JSON; numbers that are not finite are null."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), separators=(",", ":"), allow_nan=False)


def finite(value: Any) -> Any:
    """Return a value that JSON can hold: numbers that are not finite are None."""
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
