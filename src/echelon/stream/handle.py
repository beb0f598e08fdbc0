"""What a caller holds for a submitted job, and what is delivered."""

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any

from echelon.codes import ErrorEstimate
from echelon.errors import JobFailed

PassTime = Callable[[Callable[[], bool], float | None], float | None]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A job that has ended.

    name: the job's. number: its place in the order of arrival.
    result: its last state; None where it failed.
    error: why it failed, or None.
    delay: seconds from submission to delivery.
    iterations: how many it took in all.
    error_estimate: the largest error that decoding may have brought into an iteration, relative to the terms that were
        added up (`error_estimate.relative_to_terms`) and to what came out (`error_estimate.relative_to_result`).
    messages, nbytes: how many messages its rounds received up to their ends, repeated and useless ones included, and
        how large they were together; of this run, where a journal was resumed.
    """

    name: str
    number: int
    result: Any
    error: JobFailed | None
    delay: float
    iterations: int
    error_estimate: ErrorEstimate
    messages: int = 0
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is: iterations done, of how many (None where only a condition ends it)."""

    iteration: int
    iterations: int | None


class Handle:
    """A job in the stream, like a future: `result`, `exception`, `done`, `cancel`, `progress`; or await it."""

    def __init__(
        self,
        number: int,
        name: str,
        iterations: int | None,
        cancel: Callable[[int], None],
        pass_time: PassTime,
        iteration: int,
        took: Callable[[Delivery], Delivery],
    ) -> None:
        self.number, self.name, self.iteration = number, name, iteration
        self.future: Future[Delivery] = Future()
        self.future.set_running_or_notify_cancel()  # from here on only the stream can end it
        self._iterations, self._cancel, self._pass_time = iterations, cancel, pass_time
        self._took = took  # called with what leaves by this handle: a journal counts it as delivered

    def result(self, timeout_s: float | None = None) -> Any:
        """Return the job's last state, after waiting for it; raise `JobFailed` where there is none."""
        delivery = self.delivery(timeout_s)
        if delivery.error is not None:
            raise delivery.error
        return delivery.result

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """Return why the job failed, or None, after waiting for its end."""
        ended = self._ended(timeout_s)
        return None if ended.error is None else self._took(ended).error

    def delivery(self, timeout_s: float | None = None) -> Delivery:
        """Return the delivery, after waiting for it."""
        return self._took(self._ended(timeout_s))

    def _ended(self, timeout_s: float | None) -> Delivery:
        return self.future.result(self._pass_time(self.future.done, timeout_s))

    def done(self) -> bool:
        """Return whether the job has ended, one way or another."""
        return self.future.done()

    def cancelled(self) -> bool:
        """Return whether the job was cancelled."""
        return self.done() and isinstance(self.future.exception(), CancelledError)

    def cancel(self) -> None:
        """Ask for the job to be dropped, queued or running; a job that has ended stays as it is."""
        self._cancel(self.number)

    @property
    def progress(self) -> Progress:
        """How far the job is."""
        return Progress(self.iteration, self._iterations)

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.future.done():  # in virtual time something has to wait
            yield from asyncio.to_thread(self._pass_time, self.future.done, None).__await__()
        # shielded: a waiter that stops does not stop the job
        delivery = self._took((yield from asyncio.shield(asyncio.wrap_future(self.future)).__await__()))
        if delivery.error is not None:
            raise delivery.error
        return delivery.result

    def drop(self) -> None:
        """End the future of a job that was cancelled; for the stream."""
        self.future.set_exception(CancelledError(f"{self.name} was cancelled"))

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled() else "ended" if self.done() else f"iteration {self.iteration}"
        return f"<job {self.number} {self.name!r}: {state}>"
