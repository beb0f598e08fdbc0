"""What drives a stream: a thread of its own; or, in virtual time, any thread that waits for something."""

import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread, get_ident

from echelon.clusters import Cluster
from echelon.errors import ClusterError
from echelon.stream.driver import Driver

log = logging.getLogger("echelon.stream")

_ITSELF = (
    "a job's own code can't wait for the stream that runs it, which waits for this code; take the result outside of it"
)


class Turning:
    """Turns a driver until it is stopped, then closes its cluster.

    In virtual time, time passes while a thread waits, and stands still while the program does anything else: so what a
    run does depends on its seed alone.

    broke: called with the error that ended the driver.
    """

    def __init__(self, driver: Driver, cluster: Cluster, broke: Callable[[BaseException], None]) -> None:
        self._driver, self._cluster, self._broke = driver, cluster, broke
        self._lock, self._turner, self._turns = Lock(), 0, 0
        self._over = False
        self._thread = None if cluster.virtual else Thread(target=self._run, name="echelon-stream", daemon=True)
        if self._thread is not None:
            self._thread.start()

    @property
    def mine(self) -> bool:
        """Whether the calling thread is the one that drives just now."""
        return get_ident() == self._turner

    def _run(self) -> None:
        self._turner = get_ident()
        with suppress(BaseException):  # those that wait for results were told, and there are no others
            self._guarded(self._driver.run)
        self._turner = 0
        self._end()

    def _guarded(self, drive: Callable[..., None], *arguments: float | None) -> None:
        try:
            drive(*arguments)
        except BaseException as error:
            self._driver.stopped = True
            self._broke(error)
            log.exception("the stream broke down")
            if not isinstance(error, Exception):
                raise

    def pass_time(self, until: Callable[[], bool], timeout_s: float | None) -> float | None:
        """In virtual time, let time pass until a condition holds, at most this long; elsewhere do nothing.

        Returns what is left of the limit for a wait in real time. The thread that drives can't wait for itself.
        """
        if self.mine and not until():
            raise ClusterError(_ITSELF)
        if self._thread is not None:
            return timeout_s
        end = None if timeout_s is None else self._driver.now() + timeout_s
        while not self._over:
            turns = self._turns
            if until():
                break
            left = None if end is None else end - self._driver.now()
            if left is not None and left < 0:
                break
            with self._lock:
                if turns == self._turns or not until():  # it may hold since another thread had its turn
                    self._turns += 1
                    self._turner = get_ident()
                    try:
                        self._guarded(self._driver.turn, left)
                    finally:
                        self._turner = 0
            if self._driver.stopped:
                self._end()
            elif left == 0.0:
                break
        return 0.0

    def _end(self) -> None:
        self._over = True
        self._cluster.close()

    def join(self) -> None:
        """Wait until the driver, which was told to stop, has."""
        if self._thread is None:
            self.pass_time(lambda: False, None)
        else:
            self._thread.join()
