"""The page of a stream: an observer that notes what happens, and a thread of its own that shows it."""

import logging
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from echelon.errors import ArgumentError, JobFailed
from echelon.master.actions import Outcome
from echelon.page.board import Board
from echelon.page.metrics import Metrics
from echelon.page.server import PageServer
from echelon.page.showing import WAIT_S, Showing
from echelon.stream.observer import Arrival, Observer, RoundSeen, Running
from echelon.stream.record import Entries

log = logging.getLogger("echelon.page")

BEHIND = 30_000  # things that happened and wait to be shown; beyond that they are counted as lost
_SLICE = 8  # of which the thread takes in a row, before it lets others run
_LAST_S = 5.0  # how long the end of a stream waits for the page
_ROOM_S = 0.001  # between two looks whether the page has caught up


@dataclass(frozen=True, slots=True)
class Around:
    """What a page knows of its stream beside what happens: its clock, and what a round should take."""

    now: Callable[[], float]
    expected: Callable[[], float | None]
    virtual: bool
    cluster: str
    split: str
    redundancy: float | None


class _ToBoard(Entries):
    """Gives the entries that a record would have to a board."""

    def __init__(self, board: Board, around: Around, names: Sequence[str]) -> None:
        self._board = board
        super().__init__(len(names), around.split, around.redundancy, names)

    def write(self, entry: dict[str, Any]) -> None:
        """Take in an entry."""
        self._board.take(entry)


class LivePage(Observer):
    """Shows a stream to whoever opens its address.

    The thread that drives only notes what happened. Another thread, which gives way to it after every few of these
    notes, makes entries of a record of them, and keeps the board; readers have threads of their own.

    url: the address, with its token.
    """

    def __init__(self, where: tuple[str, int], names: Sequence[str], around: Around) -> None:
        self._around, self._happened = around, deque[tuple[Callable[..., None], tuple[Any, ...]]]()
        self._open: RoundSeen | None = None
        self._lost = 0
        self._names = names
        self._board, self._metrics = Board(), Metrics(names)
        self._entries = _ToBoard(self._board, around, names)
        self._showing = Showing(f"a stream on {around.cluster}", self._metrics.text)
        self._server = PageServer(self._showing, *where)
        self.url = self._server.url
        self._closed = Event()
        self._thread = Thread(target=self._run, name="echelon-page", daemon=True)
        self._thread.start()
        print(f"echelon: the page of this stream is {self.url}", file=sys.stderr, flush=True)

    # what happens, as the driving thread tells it

    def _note(self, hook: Callable[..., None], *values: Any) -> None:
        if len(self._happened) < BEHIND or self._caught_up():
            self._happened.append((hook, values))
        else:
            self._lost += 1

    def _caught_up(self) -> bool:
        """Return whether there is room again; in virtual time, where waiting changes nothing, wait for it."""
        while self._around.virtual and self._thread.is_alive() and len(self._happened) >= BEHIND:
            time.sleep(_ROOM_S)
        return len(self._happened) < BEHIND

    def submitted(self, time_s: float, running: Running) -> None:
        """Note a job."""
        self._note(Observer.submitted, time_s, running)

    def worker_up(self, time_s: float, worker: int, place: int) -> None:
        """Note a worker."""
        self._note(Observer.worker_up, time_s, worker, place)

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        """Note a loss."""
        self._note(Observer.worker_down, time_s, worker, place, reason)

    def opened(self, seen: RoundSeen) -> None:
        """Note a round, whose messages can be seen as they come."""
        self._open = seen
        self._note(Observer.opened, seen)

    def received(self, arrival: Arrival) -> None:
        """Note a message."""
        self._note(Observer.received, arrival)

    def round_over(self, seen: RoundSeen) -> None:
        """Note the end of a round."""
        if self._open is seen:
            self._open = None
        self._note(Observer.round_over, seen)

    def wrong_result(self, time_s: float, worker: int, place: int | None, round: int, slot: int, row: int) -> None:
        """Note a wrong result."""
        self._note(Observer.wrong_result, time_s, worker, place, round, slot, row)

    def starved(self, time_s: float, job: int) -> None:
        """Note that no worker was left."""
        self._note(Observer.starved, time_s, job)

    def delivered(self, time_s: float, running: Running, outcome: Outcome, error: JobFailed | None) -> None:
        """Note the end of a job."""
        self._open = None
        self._note(Observer.delivered, time_s, running, outcome, error)

    def close(self) -> None:
        """Show the last state, and stop listening."""
        self._closed.set()
        self._thread.join(_LAST_S)
        self._server.close()

    # what is shown, by the page's own thread

    def _run(self) -> None:
        try:
            while not self._closed.wait(WAIT_S):
                self._take_in()
                self._showing.put(self._board, self._state)
            self._take_in()
            self._showing.put(self._board, self._last_state, over=True)
        except Exception:
            log.exception("the page ends here; the stream goes on")
            self._showing.over = True

    def _take_in(self) -> None:
        happened = self._happened
        for count in range(len(happened)):
            hook, values = happened.popleft()
            for observer in (self._entries, self._metrics):
                try:
                    getattr(observer, hook.__name__)(*values)
                except ArgumentError:
                    # where notes were lost, others can't be meant as they stand
                    if not self._lost:
                        raise
            if count % _SLICE == 0:
                time.sleep(0)  # the driver may be waiting for the interpreter

    def _state(self) -> dict[str, Any]:
        around = self._around
        return self._board.state(
            title=self._showing.title,
            clock=around.now(),
            running=not around.virtual,
            cluster=around.cluster,
            now=self._now(),
            lost=self._lost,
        )

    def _last_state(self) -> dict[str, Any]:
        around = self._around
        return self._board.state(
            title=self._showing.title, clock=around.now(), cluster=around.cluster, over=True, lost=self._lost
        )  # fmt: skip

    def _now(self) -> dict[str, Any] | None:
        """Return the open round: what came of it, and who is still to send something."""
        seen = self._open
        if seen is None:
            return None
        places = self._entries.places
        came = {(message.slot, message.row) for message in list(seen.messages)}
        by_slot = Counter(slot for slot, _ in came)
        missing = [
            places[worker]
            for worker, lane in zip(seen.workers, seen.lanes(), strict=True)
            if worker in places and not came.issuperset((task.slot, task.row) for task in lane)
        ]
        needed = [slot.threshold for slot in seen.plan.slots]
        return {
            "job": seen.job,
            "name": self._board.record.job_names.get(seen.job, f"job {seen.job}"),
            "iteration": seen.iteration,
            "iterations": self._board.record.iterations.get(seen.job),
            "start": seen.start,
            "needed": sum(needed),
            "came": seen.came + sum(min(by_slot[slot], least) for slot, least in enumerate(needed)),
            "missing": sorted(missing),
            "expected_s": self._around.expected(),
        }
