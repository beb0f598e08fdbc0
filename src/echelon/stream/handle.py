"""What a caller holds for a submitted job, and what is delivered."""

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

from echelon.codes import ErrorEstimate
from echelon.errors import JobFailed
from echelon.html import facts
from echelon.reprs import field_repr, short_repr

log = logging.getLogger("echelon.stream")

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
    residual: how far the sums that it was given are from exact ones at most, |alpha - 1| / |1|; 0 unless its rounds may
        end before (`endings.Policy`).
    left_out: how many rounds ended without rows of a worker, by its place; of this run, where a journal was resumed.
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
    residual: float = 0.0
    left_out: Mapping[int, int] = field(default_factory=dict)

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        said: dict[str, object] = {
            "delay (s)": self.delay,
            "iterations": self.iterations,
            "messages": self.messages,
            "bytes": self.nbytes,
            "error relative to terms": self.error_estimate.relative_to_terms,
            "error relative to result": self.error_estimate.relative_to_result,
            "result" if self.error is None else "failed": field_repr(self.result) if self.error is None else self.error,
        }
        return facts(f"job {self.number}: {self.name}", said)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is: iterations done, of how many (None where only a condition ends it)."""

    iteration: int
    iterations: int | None


class Handle(Future[Any]):
    """A job in the stream, as a `concurrent.futures.Future`, with its number, its name and its progress.

    So `concurrent.futures.wait`, `as_completed`, callbacks and `asyncio.wrap_future` take it; and it can be awaited.
    A wait that is given up does not stop the job; but who cancels an `asyncio.wrap_future` cancels the job, too.
    Callbacks are called by the thread that drives the stream, or by the one that cancels: return soon, and wait for
    nothing of the same stream. What they raise is logged.

    In virtual time `result`, `exception`, `delivery`, an await, `wait` and `as_completed` let time pass, and their
    limits are in virtual seconds (`as_completed` counts them by a real clock). `asyncio.wrap_future` does not: await
    the handle itself.

    cancel: drops the job of a number, unless it has ended; returns whether it did.
    took: called with what leaves by this handle, result or failure, just before it does.
    """

    def __init__(
        self,
        number: int,
        name: str,
        iterations: int | None,
        cancel: Callable[[int], bool],
        pass_time: PassTime,
        iteration: int,
        took: Callable[[Delivery], Delivery],
    ) -> None:
        super().__init__()
        self.number, self.name, self.iteration = number, name, iteration
        self._iterations, self._cancel, self._pass_time, self._took = iterations, cancel, pass_time, took
        self._waiters: list[Any] = _Waiters(pass_time)  # in place of the list of the base class
        self._delivery: Delivery | None = None

    def result(self, timeout: float | None = None) -> Any:
        """Return the job's last state, after waiting for it; raise `JobFailed` where there is none.

        timeout: seconds of the stream's time after which `TimeoutError` is raised; the job goes on.
        """
        delivery = self.delivery(timeout)
        if delivery.error is not None:
            raise delivery.error
        return delivery.result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return why the job failed, or None, after waiting for its end; raise if it was cancelled."""
        error = self._ended(timeout)
        if error is not None and self._delivery is not None:
            self._took(self._delivery)
        return error

    def delivery(self, timeout: float | None = None) -> Delivery:
        """Return the delivery, after waiting for it; raise if the job was cancelled."""
        error = self._ended(timeout)
        if self._delivery is None:  # the stream broke down before the job ended
            assert error is not None
            raise error
        return self._took(self._delivery)

    def _ended(self, timeout: float | None) -> BaseException | None:
        """Wait for the end; return the error that the job, or the stream, ended with."""
        left = self._pass_time(self.done, timeout)
        try:
            return super().exception(left)
        except CancelledError:
            raise CancelledError(f"{self.name} was cancelled") from None

    def running(self) -> bool:
        """Return whether the job has not ended; whether its turn has come is in `progress`."""
        return not self.done()

    def cancel(self) -> bool:
        """Drop the job, queued or running; return whether it is cancelled: one that has ended stays as it is."""
        if self._cancel(self.number):
            self.drop()
        return self.cancelled()

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Have a function called with this handle when the job ends; at once if it has."""
        super().add_done_callback(partial(_call, fn))

    @property
    def progress(self) -> Progress:
        """How far the job is."""
        return Progress(self.iteration, self._iterations)

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.done():  # in virtual time something has to wait
            yield from asyncio.to_thread(self._pass_time, self.done, None).__await__()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def note() -> None:
            if not ended.done():  # else its waiter was cancelled
                ended.set_result(None)

        def tell(_: Future[Any]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(note)

        self.add_done_callback(tell)
        yield from ended.__await__()  # a waiter that stops does not stop the job
        return self.result()

    # for the stream

    def finish(self, delivery: Delivery) -> None:
        """End with a result, or a failure."""
        self._delivery = delivery
        if delivery.error is None:
            self.set_result(delivery.result)
        else:
            self.set_exception(delivery.error)

    def drop(self) -> None:
        """End as cancelled; once."""
        super().cancel()
        self.set_running_or_notify_cancel()  # tells those that wait for one of several

    def _where(self) -> str:
        return "cancelled" if self.cancelled() else "ended" if self.done() else f"iteration {self.iteration}"

    def __repr__(self) -> str:
        return f"<job {self.number} {field_repr(self.name)}: {self._where()}>"

    def _repr_html_(self) -> str:
        if self._delivery is not None:
            return self._delivery._repr_html_()
        said = {"state": self._where(), "iterations": self._iterations}
        return facts(f"job {self.number}: {self.name}", said)


def _call(fn: Callable[[Future[Any]], object], handle: Future[Any]) -> None:
    try:
        fn(handle)
    except (Exception, SystemExit):  # it is called by the thread that drives the stream, which must go on
        log.exception("a callback of %r raised", handle)


class _Waiters(list[Any]):
    """Those that wait for one of several futures (`wait`, `as_completed`): time passes while they do."""

    def __init__(self, pass_time: PassTime) -> None:
        super().__init__()
        self._pass_time = pass_time

    def append(self, waiter: Any) -> None:
        """Let a waiter wait by the stream's time: `concurrent.futures` gives it an event, and waits for that."""
        if not isinstance(waiter.event, _TurningEvent):
            waiter.event = _TurningEvent(self._pass_time)
        super().append(waiter)


class _TurningEvent(Event):
    """An event during whose wait a stream's time passes."""

    def __init__(self, pass_time: PassTime) -> None:
        super().__init__()
        self._pass_time = pass_time

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, at most this long."""
        return super().wait(self._pass_time(self.is_set, timeout))
