"""The end of a round: what was chosen is added up where it lies, and the job takes its step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from echelon.cause import caught
from echelon.clusters import Added, Cluster, Message, Vanished
from echelon.clusters.faults import MasterKilled
from echelon.codes import ErrorEstimate
from echelon.errors import JournalError, NotFinite
from echelon.jobs import Collected
from echelon.master import events
from echelon.stream.kept import Store
from echelon.stream.observer import Observer, Observers, RoundSeen, Running
from echelon.stream.plainly import without_code
from echelon.stream.planning import Planning
from echelon.stream.round_messages import RoundMessages
from echelon.stream.unkept import Unkept

FATAL = JournalError, MasterKilled  # end the stream, whoever's code they pass through


@dataclass(frozen=True, slots=True)
class _Adding:
    """A round whose rows are being added up elsewhere: sums over `slots` each."""

    running: Running
    seen: RoundSeen
    collected: Collected
    slots: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Calls:
    """What of a driver is called from here.

    now: its time. tell: tells the master an event. order: has the driving thread do something; from any thread.
    unload: lets the workers forget a job's work that nobody needs.
    """

    now: Callable[[], float]
    tell: Callable[[events.Event], None]
    order: Callable[[Callable[[], None]], None]
    unload: Callable[[Store], None]


class Stepping:
    """Lets jobs take their steps; each call returns what to tell the master, None if that comes later.

    over: rounds after which a job has taken its step, in their order; whoever takes them in empties it.
    """

    def __init__(
        self,
        cluster: Cluster,
        rows: RoundMessages,
        planning: Planning,
        observers: Observers,
        unkept: Unkept,
        driver: Calls,
    ) -> None:
        self.over: list[tuple[RoundSeen, Store]] = []
        self._cluster, self._rows, self._planning = cluster, rows, planning
        self._observers, self._unkept, self._driver = observers, unkept, driver
        self._adding: _Adding | None = None

    def begin(self, running: Running, seen: RoundSeen) -> events.Event | None:
        """Have what was chosen in a round added up, where it lies elsewhere, and let its job take its step."""
        collected = self._rows.collected(seen)
        if running.job.added and collected.unread():
            return self._again(seen.round)
        if not running.job.added or not collected.elsewhere():
            return self._advance(running, seen, collected)
        wanted = collected.wanted(by_slot=running.job.by_slot)
        self._adding = _Adding(running, seen, collected, tuple(wanted))
        self._cluster.add(seen.round, tuple(wanted.values()))
        return None

    def added(self, report: Added) -> events.Event | None:
        """Go on with what was added up elsewhere."""
        adding = self._adding
        if adding is None or report.round != adding.seen.round:
            return None
        self._adding = None
        adding.collected.use(dict(zip(adding.slots, report.totals, strict=True)))
        return self._advance(adding.running, adding.seen, adding.collected)

    def unread(self) -> events.Event | None:
        """Begin again where something that is being added up can't be read any more."""
        if self._adding is None or not self._adding.collected.unread():
            return None
        round, self._adding = self._adding.seen.round, None
        return self._again(round)

    def drop(self) -> None:
        """Forget what is being added up: its job has ended."""
        self._adding = None

    def not_ctrl_c(self, error: BaseException) -> None:
        """Raise Ctrl-C, which comes out of a job's code in virtual time only, where the user's thread drives."""
        if isinstance(error, KeyboardInterrupt) and self._cluster.virtual:
            raise error

    def _again(self, round: int) -> events.Event:
        """Do an iteration once more, with the rows that can still be read."""
        self._rows.again()
        return events.Unread(self._driver.now(), round)

    def _advance(self, running: Running, seen: RoundSeen, collected: Collected) -> events.Event | None:
        """Let the job take its step; if it does not know yet whether that was the last, it will say so."""
        store, round, now = running.store, seen.round, self._driver.now
        vanished: Sequence[Message] = ()
        try:
            running.state, finished = running.job.advance(
                running.state, running.iteration + 1, collected, partial(self._decided, round)
            )
            _count(running, seen, collected)
            kept = self._unkept.keep(
                running.number,
                partial(self._observers.tell, Observer.stepped, running, seen, bool(finished)),
                partial(self._kept, seen, store, finished),
            )
        except FATAL:
            raise
        except Vanished as error:
            vanished = error.messages
        except NotFinite as error:
            if not without_code(running):
                return events.Failed(now(), round, caught(error))
            self._driver.unload(store)
            return events.Updated(now(), round, False)  # the same iteration once more
        except BaseException as error:  # code that exits fails its job, not the stream
            self.not_ctrl_c(error)
            return events.Failed(now(), round, caught(error))
        finally:
            if not vanished:
                self._rows.drop(collected.messages)
        if vanished:
            for message in vanished:
                self._rows.lose(message)
            return self._again(round)
        self._planning.observe(running, seen)
        if not kept:
            return None  # the master waits for it, and opens no other round
        self.over.append((seen, store))
        return None if finished is None else events.Updated(now(), round, finished)

    def _kept(self, seen: RoundSeen, store: Store, finished: bool | None) -> None:
        """Go on after a step that the journal took late."""
        self.over.append((seen, store))
        if finished is not None:
            self._driver.tell(events.Updated(self._driver.now(), seen.round, finished))

    def _decided(self, round: int, finished: bool) -> None:
        driver = self._driver
        driver.order(lambda: driver.tell(events.Updated(driver.now(), round, finished)))


def _count(running: Running, seen: RoundSeen, collected: Collected) -> None:
    """Count what a round took and how near its result came, where its job has taken its step."""
    running.iteration += 1
    running.messages += seen.received
    running.nbytes += seen.nbytes
    result = ErrorEstimate(relative_to_result=collected.relative_to_result)
    seen.error_estimate = seen.error_estimate.worst(result)
    running.error_estimate = running.error_estimate.worst(seen.error_estimate)
    running.residual = max(running.residual, seen.residual)
    for place in seen.without:
        running.left_out[place] = running.left_out.get(place, 0) + 1
