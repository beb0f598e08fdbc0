"""Workers in virtual time: the user's functions are computed, their times are drawn; a hundred machines on one.

Everything that happens is an entry of one heap, ordered by time and then by when it was entered, so that a run is the
same on every machine. Time passes only during `poll`. Faults come from a seed of their own (`faults`).
"""

from collections import deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from heapq import heappop, heappush
from math import nextafter
from threading import Event
from typing import Any

import numpy as np

from echelon import checks, ports
from echelon.arrays import NumberArray
from echelon.cause import Cause
from echelon.clusters import seat, shipping
from echelon.clusters.base import Doing, Down, Message, Report, Sum, Trouble, Unread, Up
from echelon.clusters.faults import (
    Crash,
    Endless,
    Faults,
    Hang,
    Incident,
    MasterCrash,
    MasterKilled,
    Partition,
    Raise,
    Slowdown,
)
from echelon.clusters.inside import Inside
from echelon.clusters.pace import Pace, paces
from echelon.clusters.places import Places
from echelon.clusters.shelf import Shelf
from echelon.clusters.staying import Staying
from echelon.clusters.virtual_worker import VirtualWorker
from echelon.delays import Deterministic
from echelon.errors import ArgumentError, ClusterError
from echelon.plan import Task
from echelon.profile import Costs, Profile
from echelon.seeds import place_generator


class VirtualCluster(Inside):
    """Workers that take the times a profile's laws draw, in virtual seconds, and compute what they are asked for.

    workers: how many, where nothing is emulated: then every part takes one second.
    emulate: the profile whose laws, links and costs (message, bandwidth, round, port, plane) say what everything takes.
    paces: how each worker's times are drawn, instead of a profile; then `costs` may be given as well.
    stay_bytes: size from which rows that are only added up stay with their worker; by default as the plane has it.
    faults: what goes wrong, for tests. With faults, the memory of a message is overwritten when it is given back.

    >>> cluster = VirtualCluster(2)
    >>> cluster.poll(None), cluster.poll(None)
    ([Up(worker=0, place=0)], [Up(worker=1, place=1)])
    >>> cluster.poll(5.0), cluster.now()
    ([], 5.0)
    """

    virtual, fixed = True, False
    stuck_s = 10.0  # real seconds after which a cluster in which nothing more can happen says so

    def __init__(
        self,
        workers: int | None = None,
        *,
        emulate: Profile | None = None,
        seed: int = 1,
        paces: Sequence[Pace] | None = None,
        faults: Faults | None = None,
        costs: Costs | None = None,
        stay_bytes: float | None = None,
    ) -> None:
        super().__init__()
        if paces is not None and (workers is not None or emulate is not None):
            raise ArgumentError("workers, emulate: not allowed together with paces, which set both")
        if emulate is not None and costs is not None:
            raise ArgumentError("costs: not allowed together with emulate, whose costs they are")
        self._paces = _paces(workers, emulate, seed) if paces is None else list(paces)
        given = Costs() if costs is None else checks.instance("costs", costs, Costs)
        self._costs = given if emulate is None else emulate.costs
        stays = ports.stay_bytes(self._costs) if stay_bytes is None else stay_bytes
        self.stay_bytes = stays if stays == float("inf") else checks.number("stay_bytes", stays, least=0)
        self._faults = None if faults is None else checks.instance("faults", faults, Faults)
        self.workers = len(self._paces)
        self.names = seat.names(self.workers, emulate)
        self.lent: dict[int, list[NumberArray]] = {}  # memory of messages not given back yet
        self.time = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._entered = self._sent = 0
        self._reports: list[Report] = []
        self._bell = Event()
        self._staying = Staying(self)
        self._port_free = 0.0  # when the master's port has passed all that came to it
        self._places = Places(self.workers)
        self._at: list[VirtualWorker | None] = [None] * self.workers  # the worker at each place
        self._numbers: dict[int, VirtualWorker] = {}
        self._start = 0.0  # of the round whose state was broadcast
        self._open = self._purged = 0  # the last round that has tasks, and the last that was purged
        self._killed: deque[tuple[int, str]] = deque()  # from any thread
        self.endless: set[tuple[int, int, int]] = set()  # rows that never return
        self._doom: int | None = None  # calls until the master dies
        for place in range(self.workers):
            self._spawn(place)
        for incident in faults.incidents if faults else ():
            self.at(incident.time, partial(self._befall, incident))

    # time

    def now(self) -> float:
        """Return the virtual time in seconds."""
        self._called()
        return self.time

    def at(self, time: float, happen: Callable[[], None]) -> None:
        """Have something happen at a time."""
        self._entered += 1
        heappush(self._heap, (max(time, self.time), self._entered, happen))

    def _called(self) -> None:
        """Count a call, and kill the master when its calls are used up."""
        if self._doom is not None:
            self._doom -= 1
            if self._doom < 0:
                self._doom = None
                raise MasterKilled

    def poll(self, timeout_s: float | None) -> list[Report]:
        """Return what happens next within this time, if anything."""
        self._called()
        end = float("inf") if timeout_s is None else self.time + timeout_s
        if timeout_s:
            end = max(end, nextafter(self.time, end + 1))  # time passes, however short it is
        while self._killed:
            number, reason = self._killed.popleft()
            known = self._numbers.get(number)
            if known is not None:
                self.die(known, reason)
        while not self._reports and not self._bell.is_set():
            if self._heap and self._heap[0][0] <= end:
                self.time, _, happen = heappop(self._heap)
                happen()
            elif timeout_s is not None:
                self.time = end
                break
            elif not self._bell.wait(self.stuck_s):
                raise ClusterError(
                    f"nothing more can happen after {self.time:g} virtual seconds: no worker is left or on its way"
                )
        if self._bell.is_set():
            self._bell.clear()
        reports, self._reports = self._reports, []
        return reports

    def wake(self) -> None:
        """End a `poll` that waits; from any thread."""
        self._bell.set()

    # work, states, lanes

    def broadcast(self, round: int, key: int, state: Any) -> None:
        """Set what the parts of a round are computed from."""
        self._called()
        assert self._open <= self._purged, f"round {self._open} was not purged before round {round} began"
        super().broadcast(round, key, state)
        self._start = self.time + self._costs.round
        if min(self._costs.bandwidth, self._costs.port) != float("inf"):
            pickled, beside = shipping.pack(state)
            nbytes = len(pickled) + sum(buffer.nbytes for buffer in beside)
            self._start += ports.state_s(self._costs, nbytes, len(self._numbers))

    def assign(self, worker: int, round: int, tasks: Sequence[Task]) -> None:
        """Append tasks to a worker's lane."""
        self._called()
        self._open = round
        known = self._numbers.get(worker)
        if known is not None:
            order = round, max(self.time, self._start), self._state[1], self._brought(round), tuple(tasks)
            self.carry(known, partial(known.order, order))

    def purge(self, round: int) -> None:
        """End a round."""
        self._called()
        self._purged = round
        self._port_free = self.time  # what waits there is not sent
        for worker in self._numbers.values():
            self.carry(worker, partial(worker.end_round, round))

    def stop(self, round: int, slot: int) -> None:
        """End a slot of a round."""
        self._called()
        for worker in self._numbers.values():
            self.carry(worker, partial(worker.end_slot, round, slot))

    def carry(self, worker: VirtualWorker, arrive: Callable[[], None]) -> None:
        """Pass something between the master and a worker, in either direction, if faults allow it."""
        if worker.cut:
            return
        for added in self._faults.copies() if self._faults else (0.0,):
            if added:
                self.at(self.time + added, arrive)
            else:
                arrive()

    # messages

    def sending_s(self, segments: list[NumberArray], *, stays: bool) -> float:
        """Return how long a worker takes to send a message, or word of it."""
        nbytes = 0 if stays else sum(segment.nbytes for segment in segments)
        return float(ports.sending_s(self._costs, nbytes))

    def send(self, worker: VirtualWorker, message: Message, *, stays: bool) -> None:
        """Deliver the message of a row, or word of it, once or as often as faults have it, and wrong if they do."""
        if self._faults is not None:
            message = message._replace(segments=self._faults.sent(worker.place, message.segments))
        if stays:
            self.carry(worker, partial(self._announce, worker, message))
        elif self._costs.port == float("inf"):
            self.carry(worker, partial(self._arrive, message))
        else:
            self.carry(worker, partial(self._queue, message))

    def _queue(self, message: Message) -> None:
        """Let a message pass the master's port, after those that came before it."""
        took = sum(segment.nbytes for segment in message.segments) / self._costs.port
        self._port_free = max(self.time, self._port_free) + took
        self.at(self._port_free, partial(self._pass_port, message))

    def _pass_port(self, message: Message) -> None:
        if message.round > self._purged:
            self._arrive(message)

    def _arrive(self, message: Message) -> None:
        self._reports.append(self._lend(message))

    def _announce(self, worker: VirtualWorker, message: Message) -> None:
        announced = self._lend(message)._replace(segments=[])
        self._reports.append(announced)
        self._staying.announced(worker, announced)

    def _lend(self, message: Message) -> Message:
        """Return a message as it arrives, in memory that must be given back."""
        segments = message.segments
        if self._faults is not None:
            segments = [segment.copy() for segment in segments]
        self._sent += 1
        self.lent[self._sent] = segments
        return message._replace(segments=segments, token=self._sent)

    def report(self, worker: VirtualWorker, cause: Cause) -> None:
        """Deliver the report of a task that raised."""
        self.carry(worker, partial(self._reports.append, Trouble(worker.number, worker.round, cause)))

    def release(self, message: Message) -> None:
        """Take back the memory of a message, unless it was lost with its worker."""
        self._called()
        if message.token is not None and not self._staying.released(message.token):
            self.take_back(message)

    def take_back(self, message: Message) -> None:
        """Take back the memory of a message."""
        segments = self.lent.pop(message.token, None)
        assert segments is not None, f"the memory of {message} is given back twice"
        if self._faults is not None:
            for segment in segments:
                segment.fill(np.nan if segment.dtype.kind in "fc" else 0)

    def add(self, round: int, sums: Sequence[Sum]) -> None:
        """Have the workers that responded add up messages, of which some lie with them."""
        self._called()
        self._staying.add(round, sums, self._costs)

    def tell(self, report: Report) -> None:
        """Report something."""
        self._reports.append(report)

    def known(self, worker: VirtualWorker, number: int) -> bool:
        """Return whether a worker is up under this number, as far as the master was told."""
        return self._numbers.get(number) is worker

    # workers come and go

    def _spawn(self, place: int) -> None:
        self._at[place] = worker = VirtualWorker(self, self._places.next_number(), place, deepcopy(self._paces[place]))
        faults = self._faults
        if faults is not None and faults.hit(faults.stillborn):
            self.at(self.time + faults.lasting(faults.start), partial(self._lose, worker, "died before it was up"))
        else:
            self.at(self.time + (faults.lasting(faults.start) if faults else 0.0), partial(self._greet, worker))

    def _greet(self, worker: VirtualWorker) -> None:
        self._numbers[worker.number] = worker
        worker.up = True
        self._places.came_up(worker.place)
        self._reports.append(Up(worker.number, worker.place))

    def _lose(self, worker: VirtualWorker, reason: str, at: tuple[int, int, int] | None = None) -> None:
        """Report a death to the master, and fill the place again after its back-off."""
        self._tell_loss(worker, reason, at)
        self._places.died(worker.number, worker.place, up=worker.up, now=self.time, reason=reason)
        self._refill_later()

    def _refill_later(self) -> None:
        due = self._places.next_due()
        if due is not None:
            self.at(due, self._refill)

    def _refill(self) -> None:
        for place in self._places.due(self.time):
            self._spawn(place)
        self._refill_later()  # other places may be due later

    def _tell_loss(self, worker: VirtualWorker, reason: str, at: tuple[int, int, int] | None = None) -> None:
        if self._numbers.pop(worker.number, None) is not None:
            unread = self._staying.lost(worker)
            first = self._faults is not None and bool(unread) and self._faults.hit(0.5)
            self._reports += [Unread(unread)] if first else []
            self._reports.append(Down(worker.number, worker.place, reason, at))
            self._reports += [Unread(unread)] if unread and not first else []

    def die(self, worker: VirtualWorker, reason: str = "killed") -> None:
        """Kill a worker now."""
        if worker.alive:
            self._lose(worker, reason, worker.die())

    def doing(self) -> list[Doing]:
        """Return what each worker is at that is up and within reach."""
        self._called()
        return [
            Doing(worker.number, worker.at_row, None if worker.task is None else worker.began, worker.stopped_by_system)
            for worker in self._numbers.values()
            if worker.alive and not worker.cut
        ]

    def kill(self, worker: int, reason: str = "killed") -> None:
        """End a worker; from any thread."""
        self._killed.append((worker, reason))
        self.wake()

    def loading(self, worker: VirtualWorker) -> bool:
        """Return whether a worker dies while it loads a job's work."""
        if self._faults is None or not self._faults.hit(self._faults.loading):
            return False
        self.die(worker)
        return True

    def close(self) -> None:
        """End everything; a second call does nothing."""
        self._heap, self._reports, self._numbers, self._shelf, self.lent = [], [], {}, Shelf(), {}
        self._staying = Staying(self)

    # incidents

    def _befall(self, incident: Incident) -> None:
        if isinstance(incident, MasterCrash):
            self._doom = incident.calls
            return
        worker = self._at[incident.place]
        if worker is None or not worker.alive or not worker.up:
            return
        later = partial(self.at, self.time + getattr(incident, "length", 0.0))
        match incident:
            case Slowdown(factor=factor):
                worker.slow = factor
                later(partial(setattr, worker, "slow", 1.0))
            case Hang(length=length, stopped=stopped) if not worker.hung and (stopped or worker.task is not None):
                worker.hung, worker.stopped_by_system = True, stopped
                if length != float("inf"):
                    later(worker.go_on)
            case Endless() if worker.at_row is not None:
                self.endless.add(worker.at_row)
                for other in self._numbers.values():
                    other.get_stuck()
            case Raise() if worker.task is not None and not worker.hung:
                self.report(worker, Cause("raised on purpose"))
                worker.forget()
            case Crash(notice=notice, restart=restart):
                at = worker.die()
                self.at(self.time + notice, partial(self._tell_loss, worker, "killed", at))
                self.at(self.time + notice + restart, partial(self._spawn, worker.place))
            case Partition(reported=reported) if not worker.cut:
                worker.cut = True
                if reported:
                    self._tell_loss(worker, "cut off")
                later(partial(self._heal, worker, reported))

    def _heal(self, worker: VirtualWorker, reported: bool) -> None:
        worker.cut = False
        if reported and worker.alive:
            worker.number = self._places.next_number()
            self._greet(worker)


def _paces(workers: int | None, emulate: Profile | None, seed: int) -> list[Pace]:
    if emulate is None:  # how many there are must not depend on the machine
        count, second = checks.whole("workers", workers, least=1, most=10**4), Deterministic(time=1.0)
        return [Pace(second, 0.0, place_generator(seed, place)) for place in range(count)]
    return [pace for pace in paces(workers, emulate, seed) if pace is not None]
