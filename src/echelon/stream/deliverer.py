"""What a driver tells of, passed on to its stream and to the log."""

import logging
from collections.abc import Callable

from echelon.master import Outcome
from echelon.stream.observer import Observer, RoundSeen, Running

log = logging.getLogger("echelon.stream")


class Deliverer(Observer):
    """Tells a stream of steps and ends of jobs, and that a worker came."""

    def __init__(
        self,
        stepped: Callable[[Running, bool], None],
        ended: Callable[[Running, Outcome, str], None],
        came: Callable[[], None],
    ) -> None:
        self._stepped, self._ended, self._came = stepped, ended, came
        self._starved = -1

    def stepped(self, running: Running, finished: bool) -> None:
        """A job has a new state."""
        self._stepped(running, finished)

    def delivered(self, time_s: float, running: Running, outcome: Outcome, error: str) -> None:
        """A job ended."""
        self._ended(running, outcome, error)

    def worker_up(self, time_s: float, worker: int, place: int) -> None:
        """A worker joined."""
        log.info("worker %d (place %d) is there", worker, place)
        self._came()

    def starved(self, job: int) -> None:
        """No worker is left for a job."""
        # once a job: workers that come and go all the time would fill the log
        if job != self._starved:
            self._starved = job
            log.warning("no worker is left for job %d; it goes on when one joins", job)

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        """A worker was lost."""
        log.info("worker %d (place %d) is lost: %s", worker, place, reason)

    def round_over(self, seen: RoundSeen) -> None:
        """A round was recovered and its job took a step."""
        log.debug("job %d, iteration %d: %.4f s", seen.job, seen.iteration, seen.end - seen.start)
