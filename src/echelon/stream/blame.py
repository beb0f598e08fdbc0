"""Workers that sent wrong results: named, and replaced if they do so again."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping

from echelon.clusters import Cluster, Message
from echelon.errors import ClusterError
from echelon.stream.observer import Observer, Observers

log = logging.getLogger("echelon.stream")

ROUNDS = 3  # with wrong results, after which a worker is replaced


class Blame:
    """Counts the rounds in which each worker sent something wrong; `places` of the living ones change under it."""

    def __init__(
        self, cluster: Cluster, places: Mapping[int, int], observers: Observers, now: Callable[[], float]
    ) -> None:
        self._cluster, self._places, self._observers, self._now = cluster, places, observers, now
        self._rounds: Counter[int] = Counter()
        self._last: dict[int, int] = {}  # the last round that was counted
        self._gone: dict[int, int] = {}  # places of workers lost in this round

    def place(self, message: Message) -> int | None:
        """Return from which place a message of this round came."""
        return self._places.get(message.worker, self._gone.get(message.worker))

    def name(self, message: Message) -> None:
        """Say that a message is wrong, and let a successor take the place of a worker that is often named."""
        worker, place = message.worker, self.place(message)
        log.warning(
            "worker %d (place %s) sent a wrong result for row %d of slot %d in round %d; it is not used",
            worker, place, message.row, message.slot, message.round,
        )  # fmt: skip
        self._observers.tell(
            Observer.wrong_result, self._now(), worker, place, message.round, message.slot, message.row
        )
        if self._last.get(worker) != message.round:
            self._last[worker] = message.round
            self._rounds[worker] += 1
            if self._rounds[worker] == ROUNDS and worker in self._places:
                self._replace(worker, self._places[worker])

    def _replace(self, worker: int, place: int) -> None:
        log.warning("worker %d (place %d) sent wrong results in %d rounds; it is replaced", worker, place, ROUNDS)
        try:
            self._cluster.kill(worker, f"sent wrong results in {ROUNDS} rounds")
        except ClusterError as error:
            log.warning("worker %d (place %d) stays, and its results are checked on: %s", worker, place, error)

    def lost(self, worker: int, place: int) -> None:
        """Note that a worker is gone; what it sent in this round may still be found wrong."""
        self._gone[worker] = place

    def end_round(self) -> None:
        """Forget the workers that are gone: their numbers are never used again."""
        for worker in self._gone:
            self._rounds.pop(worker, None)
            self._last.pop(worker, None)
        self._gone.clear()
