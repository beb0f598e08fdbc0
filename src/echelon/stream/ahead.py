"""The job after the one in service, done ahead by idle workers."""

import logging
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from echelon.clusters import AheadRequest, AheadState, Cluster, Message, Work, new_key
from echelon.clusters.faults import MasterKilled
from echelon.clusters.narrow import is_narrow, widened
from echelon.plan import AHEAD
from echelon.stream.observer import Running

log = logging.getLogger("echelon.stream")


@dataclass(frozen=True, slots=True)
class Taken:
    """What was begun of a job: its first request, the messages that came, and whether workers had to load its work."""

    request: Any
    messages: dict[tuple[int, int], Message]
    loading: bool


class Ahead:
    """What the workers have of the next job, and what came back of it before its turn.

    What it needs travels when the first worker is idle. Errors are left to its own turn: it is then not begun ahead.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.running: Running | None = None
        self.messages: dict[tuple[int, int], Message] = {}
        self._cluster = cluster
        self._clear()

    def _clear(self) -> None:
        self.running, self.messages = None, {}
        self._request: Any = None
        self._key = 0  # of the loaded request
        self._forms: dict[int, bytes] = {}
        self._loaded = self._loading = self._failed = False

    def adopt(self, running: Running, served: Running) -> bool:
        """Choose the job that is begun next, while another is served; return whether it can be."""
        if self.running is not running:
            self.drop()
            self.running, self._key = running, new_key()
            self._failed = not running.job.ahead or _same(running.state, served.state)
            if not self._failed:
                try:
                    # a copy: its parts may be used for another request before the job's turn
                    self._request = deepcopy(running.job.request(running.state))
                except (MasterKilled, KeyboardInterrupt):
                    raise
                except BaseException:
                    self._give_up()
        return not self._failed

    def _give_up(self) -> None:
        self._failed = True
        name = "the next job" if self.running is None else self.running.name
        log.debug("%s is not begun ahead", name, exc_info=True)

    def with_ahead(self, state: Any) -> AheadState:
        """Return a round's state with what idle workers need for this job."""
        assert self.running is not None
        return AheadState(state, self.running.store.key, self._key)

    def load(self) -> bool:
        """Send the workers what the first round needs, unless they have it; return whether they do."""
        if self._loaded or self._failed or self.running is None:
            return self._loaded
        store = self.running.store
        try:
            if not store.loaded:
                self._cluster.load(store.key, work_of(self.running))
                store.loaded = self._loading = True
            self._cluster.load(self._key, AheadRequest(self._request))
            self._loaded = True
        except (MasterKilled, KeyboardInterrupt):
            raise
        except BaseException:
            self._give_up()
        return self._loaded

    def receive(self, message: Message) -> bool:
        """Keep a message; return False for a useless one, which differs in form from those before."""
        if self.running is None:
            self._cluster.release(message)
            return False
        slot = message.slot - AHEAD
        form = self._forms.setdefault(slot if self.running.job.by_slot else 0, message.form)
        if message.form != form or (slot, message.row) in self.messages:
            self._cluster.release(message)
            return message.form == form
        self.messages[slot, message.row] = widely(self._cluster, message)
        return True

    def take(self, running: Running) -> Taken | None:
        """Hand over what there is of a job whose turn has come; None if it was not begun."""
        if self.running is not running or self._failed:
            return None
        found = Taken(self._request, self.messages, self._loading)
        self.messages = {}
        self.drop()
        return found

    def drop(self) -> None:
        """Forget the job."""
        for message in self.messages.values():
            self._cluster.release(message)
        if self._loaded:
            self._cluster.unload(self._key)
        self._clear()


def _same(state: Any, other: Any) -> bool:
    """Return whether two states are one object that a job may change; an immutable one needs no copy."""
    return state is other and deepcopy(state) is not state


def work_of(running: Running) -> Work:
    """Return what workers are to compute for a job, and whether its rows are only ever added up."""
    work = running.job.work(running.codes)
    if running.job.added:
        # pieces of a sum are several sums of the same rows, which the master forms
        whole = all(code.pieces == 1 for code in running.codes)
        work.added = whole and running.verify is None  # type: ignore[attr-defined]
    return work


def widely(cluster: Cluster, message: Message) -> Message:
    """Return a message, one of narrow numbers in wide ones: done while others still compute."""
    if not is_narrow(message.form) or message.elsewhere:
        return message
    wide = message._replace(segments=widened(message.segments), token=None)
    cluster.release(message)
    return wide
