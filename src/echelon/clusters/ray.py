"""Workers as actors of Ray, on this machine or on many: when one machine is not enough.

An actor takes orders in calls without replies, and its messages come through one lasting streaming generator, which one
thread per worker reads on the driver. Work and large states lie in Ray's object store, once; so do large rows that are
only added up, in slices, which the actors add (see `ray_plane`). An actor that dies is replaced, at the same place and
under a new number; what it occupies is reserved for its successor.
"""

import contextlib
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import Any

import numpy as np

from echelon import checks, trees
from echelon.clusters import blas_threads, frames, proc, ray_session, seat, shipping
from echelon.clusters.adding import Adding
from echelon.clusters.base import Doing, Down, Message, RealTime, Report, Sum, Trouble, Up
from echelon.clusters.pace import paces
from echelon.clusters.places import Places
from echelon.clusters.ray_actor import RayActor, actor_class
from echelon.clusters.ray_adder import Held, Summed
from echelon.clusters.ray_plane import Plane
from echelon.clusters.ray_worker import LANE, LENGTH, LOAD, OVER, STOP, UNLOAD, Shipped, unship
from echelon.errors import ClusterError
from echelon.plan import Task, stopped_as
from echelon.profile import Profile

try:
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
except ModuleNotFoundError as missing:
    raise ClusterError("cluster='ray' needs Ray: pip install 'echelon-compute[ray]'") from missing

log = logging.getLogger("echelon.clusters")

_INLINE = 64 * 1024  # bytes of a state that goes with every lane; larger ones lie in the object store
_ITEMS = 20_000  # items that a generator yields before another replaces it
_GRACE_S = 10.0  # time for readers to end, all together


@dataclass(frozen=True, slots=True)
class _Gone:
    """A reader's report of a dead actor."""

    reason: str


class RayCluster(RealTime, Adding):
    """Workers as actors of Ray.

    workers: how many. Without it, one per processor of Ray, or as many as `resources` lists. With `emulate`, as many as
        the profile has, each taking the times that the profile's laws draw from `seed`.
    address: HOST:PORT of a Ray cluster, or "auto" for the one on this machine. Without it (and without RAY_ADDRESS),
        the Ray that the program has started already, or else one of our own, which only this machine can reach and
        which ends with the cluster.
    resources: what a worker occupies, as options of an actor: ``{"num_cpus": 1, "num_gpus": 0.5}``; a list of them,
        one per worker, where they differ; "node" for one worker per node, "cpu" for one per processor. By default one
        CPU, and none where workers are emulated.
    threads: how many a worker's linear algebra may use. start_s: how long resources may take to be free.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        address: str | None = None,
        resources: Any = None,
        emulate: Profile | None = None,
        seed: int = 1,
        threads: int = 1,
        start_s: float = 30.0,
    ) -> None:
        super().__init__()
        if workers is None and emulate is None and resources is None:
            resources = "cpu"
        count = workers if emulate is None else len(paces(workers, emulate, seed))
        wanted = ray_session.requests(resources, count, each=1.0 if emulate is None else 0.0)
        checks.number("start_s", start_s, above=0)
        self._environment = dict.fromkeys(blas_threads.NAMES, str(checks.whole("threads", threads, least=1, most=4096)))
        occupied = sum(request.get("num_cpus", 0.0) for request in wanted or [])
        self._closed = False
        self._inbox: Queue[tuple[RayActor, Any] | None] = Queue()
        self._handles: dict[int, RayActor] = {}
        self._works: dict[int, Any] = {}
        self._state: tuple[int, int, Shipped | None, list[Any]] = (0, 0, None, [])
        self._stopped: dict[int, int] = {}  # the round in which a slot was last recovered
        self._group: Any = None
        self._plane = Plane(self._rooms, self._up)
        self._session = ray_session.Session(address, occupied)
        try:
            self._here = ray.get_runtime_context().get_node_id()
            if wanted is None:
                wanted = ray_session.found(resources, count)
            self._requests, self._one_disk = wanted, self._session.alone
            self._paces = paces(len(wanted), emulate, seed)
            self.workers = len(wanted)
            self.names = seat.names(self.workers, emulate)
            self._places = Places(self.workers)
            self._group, self._bundles = ray_session.reserve(wanted, apart=resources == "node", wait_s=start_s)
            self._actor = actor_class()
            for place in range(self.workers):
                self._spawn(place)
        except BaseException:
            self.close()
            raise

    # workers come and go

    def _spawn(self, place: int) -> None:
        options: dict[str, Any] = dict(self._requests[place])
        if self._bundles[place] >= 0:
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=self._bundles[place]
            )
        path = [*filter(None, sys.path)]
        actor = self._actor.options(**options).remote(self._environment, path, self.workers, self._paces[place])
        handle = RayActor(self._places.next_number(), place, actor)
        self._handles[handle.number] = handle
        for key, reference in self._works.items():
            handle.tell(LOAD, key, references=[reference])
        handle.thread = Thread(target=self._read, args=(handle,), name=f"echelon-ray-{handle.number}", daemon=True)
        handle.thread.start()

    def _read(self, handle: RayActor) -> None:
        """Pass on what a worker yields, until it is dead; in a thread of its own."""
        try:
            while not handle.gone:
                for item in handle.read(handle.actor.messages.remote(_ITEMS)):
                    self._inbox.put((handle, item))
        except RayError as error:
            self._inbox.put((handle, _Gone(str(error).strip().split("\n")[0])))
        except Exception as error:
            self._inbox.put((handle, _Gone(f"its messages can't be read: {error!r}")))

    def _lose(self, handle: RayActor, reason: str) -> list[Report]:
        del self._handles[handle.number]
        handle.gone = True
        self._kill(handle)  # it may only be out of reach, or its thread dead
        self._places.died(handle.number, handle.place, up=handle.up, now=self.now(), reason=reason)
        if self._places.hopeless:
            raise ClusterError(f"no Ray worker could be started: {reason}")
        at = (handle.round, *handle.tasks[0]) if handle.tasks else None
        return [Down(handle.number, handle.place, reason, at)] if handle.up else []

    def _up(self) -> list[RayActor]:
        return [handle for handle in list(self._handles.values()) if handle.up]

    def pids(self) -> dict[int, int]:
        """Return the process of each worker that is up, by its number; on its own machine."""
        return {handle.number: handle.pid for handle in self._up()}

    def doing(self) -> list[Doing]:
        """Return the first row that each worker owes, since its message before; stopped if its process is, here."""
        found = []
        for handle in self._handles.values():
            if handle.up:
                at, since = ((handle.round, *handle.tasks[0]), handle.since) if handle.tasks else (None, None)
                found.append(Doing(handle.number, at, since, handle.node == self._here and proc.stopped(handle.pid)))
        return found

    # work, states, lanes

    def pack(self, value: Any) -> "_Packed":
        """Put a value into the object store."""
        return _Packed(self._put(self._ship(value)))

    def _ship(self, value: Any) -> tuple[bytes, list[memoryview]]:
        # where all share one disk, arrays in files travel as their names
        return shipping.pack(value, by_name=self._one_disk)

    def _put(self, shipped: tuple[bytes, list[memoryview]]) -> Any:
        pickled, beside = shipped
        return ray.put((pickled, [np.frombuffer(buffer, np.uint8) for buffer in beside]))

    def load(self, key: int, work: Any) -> None:
        """Put a job's work into the object store, where it is not there yet, and tell all workers."""
        packed = work if isinstance(work, _Packed) else self.pack(work)
        self._works[key] = packed.reference
        for handle in self._handles.values():
            handle.tell(LOAD, key, references=[packed.reference])

    def unload(self, key: int) -> None:
        """Forget a job's work; it leaves the store when the last worker has forgotten it."""
        del self._works[key]
        for handle in self._handles.values():
            handle.tell(UNLOAD, key)
        self._rooms.clear()

    def broadcast(self, round: int, key: int, state: Any) -> None:
        """Pack the state of a round: small ones go with the lanes, large ones lie in the object store."""
        pickled, beside = self._ship(state)
        if len(pickled) + sum(buffer.nbytes for buffer in beside) <= _INLINE:
            self._state = round, key, (pickled, [bytes(buffer) for buffer in beside]), []
        else:
            self._state = round, key, None, [self._put((pickled, beside))]

    def assign(self, worker: int, round: int, tasks: Sequence[Task]) -> None:
        """Send tasks, and with the first of a round its state."""
        handle = self._handles.get(worker)
        if handle is None:
            return  # it died
        of_state, key, shipped, references = self._state
        assert of_state == round, "broadcast before assign"
        wanted = [task for task in tasks if self._stopped.get(stopped_as(task.slot)) != round]
        listed = [(task.slot, task.row, task.cost) for task in wanted]
        if not listed:
            return
        if handle.round == round:
            handle.tell(LANE, round, key, listed, None)
        else:
            handle.round = round
            handle.tasks.clear()
            handle.tell(LANE, round, key, listed, shipped, references=references)
        if not handle.tasks:
            handle.since = self.now()
        handle.tasks.extend((slot, row) for slot, row, _ in listed)

    def purge(self, round: int) -> None:
        """End a round; workers that have sent everything need not be told."""
        for handle in self._handles.values():
            if handle.tasks and handle.round <= round:
                handle.tasks.clear()
                handle.cut = handle.round
                handle.tell(OVER, round)

    def stop(self, round: int, slot: int) -> None:
        """End a slot of a round."""
        self._stopped[slot] = round
        for handle in self._handles.values():
            left = deque(task for task in handle.tasks if stopped_as(task[0]) != slot)
            if handle.round == round and len(left) < len(handle.tasks):
                handle.tasks, handle.since = left, self.now()
                handle.tell(STOP, round, slot)

    # what happens

    def poll(self, timeout_s: float | None) -> list[Report]:
        """Return what happened, after waiting for it at most this long."""
        reports: list[Report] = []
        end = None if timeout_s is None else self.now() + timeout_s
        while True:
            now = self.now()
            for place in self._places.due(now):
                self._spawn(place)
            reports += self._plane.look(now)
            if reports:
                return reports
            try:
                found = self._inbox.get(timeout=self._places.wait(_sooner(end, self._plane.due), now))
                while found is not None:
                    self._report(*found, reports)
                    found = self._inbox.get_nowait()
                return reports  # woken
            except Empty:
                pass
            if reports or (end is not None and self.now() >= end):
                return reports

    def _report(self, handle: RayActor, item: Any, reports: list[Report]) -> None:
        if handle.gone:
            return
        if isinstance(item, _Gone):
            reports.extend(self._lose(handle, item.reason))
        elif isinstance(item, str):
            pid, handle.node, where = item.split(" ")
            handle.pid, handle.up = int(pid), True
            self._places.came_up(handle.place)
            log.info("worker %d (place %d) is process %s on %s", handle.number, handle.place, pid, where)
            reports.append(Up(handle.number, handle.place))
        elif isinstance(item, bytes):
            at = 0
            while at < len(item):
                (size,) = LENGTH.unpack_from(item, at)
                at += LENGTH.size
                reports.append(self._frame(handle, item[at : at + size]))
                at += size
        elif isinstance(item, Summed):
            self._plane.take(handle.number, item, self.now())
        else:
            head, segments = item
            reports.append(self._message(handle, head, segments))

    def _frame(self, handle: RayActor, frame: bytes) -> Report:
        if frame[0] == frames.RESULT:
            return self._message(handle, frame, None)
        handle.tasks.clear()
        return Trouble(handle.number, *frames.unpack_raised(frame))

    def _message(self, handle: RayActor, frame: bytes, segments: Any) -> Message:
        round, slot, row, seconds, form, _, at, sizes = frames.unpack_result(frame)
        if round == handle.round:
            handle.since = self.now()
            with contextlib.suppress(ValueError):  # purged or stopped
                handle.tasks.remove((slot, row))
        if isinstance(segments, Held):
            return Message(handle.number, round, slot, row, seconds, form, [], segments, sizes)
        held = trees.views(form, frame, at) if segments is None else segments
        return Message(handle.number, round, slot, row, seconds, form, held, None, sizes)

    def add(self, round: int, sums: Sequence[Sum]) -> None:
        """Have the workers add up rows that lie in the object store, each a slice."""
        self._plane.add(round, sums, self.now())

    def release(self, message: Message) -> None:
        """Forget where a row's slices lie; what lies in the object store goes with the last that leads there."""
        if isinstance(message.token, Held):
            message.token.release()

    def kill(self, worker: int, reason: str = "killed") -> None:
        """Kill a worker's process, also one that is stopped; what it may still send is dropped."""
        handle = self._handles.get(worker)
        if handle is not None and handle.up:
            self._inbox.put((handle, _Gone(reason)))  # first: Ray's own word of its end may come at once
            self._kill(handle)

    def _kill(self, handle: RayActor) -> None:
        if handle.node == self._here:  # by the kernel: Ray itself asks the process, which may be stopped
            with contextlib.suppress(ProcessLookupError):
                os.kill(handle.pid, signal.SIGKILL)
        with contextlib.suppress(RayError, ValueError):
            ray.kill(handle.actor, no_restart=True)

    def wake(self) -> None:
        """End a `poll` that waits; from any thread."""
        self._inbox.put(None)

    def close(self) -> None:
        """Stop all workers, and Ray if it was started for them; what was reserved is given back."""
        if self._closed:
            return
        self._closed = True
        with contextlib.ExitStack() as ends:  # all of it, also if Ctrl-C comes in the middle
            ends.callback(self._session.close)
            if self._group is not None:
                ends.callback(ray_session.give_back, self._group)
            for handle in self._handles.values():
                handle.gone = True
                self._kill(handle)
            end = self.now() + _GRACE_S
            for handle in self._handles.values():
                if handle.thread is not None:
                    handle.thread.join(max(0.0, end - self.now()))
            self._handles, self._works, self._state = {}, {}, (0, 0, None, [])
            self._plane.end()
            self._inbox = Queue()


def _sooner(moment: float | None, other: float | None) -> float | None:
    return min((one for one in (moment, other) if one is not None), default=None)


class _Packed:
    """A value in the object store, which can be loaded under any key; gone with its last owner."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    @property
    def value(self) -> Any:
        """The value, whose large arrays lie in the store."""
        return unship(ray.get(self.reference))
