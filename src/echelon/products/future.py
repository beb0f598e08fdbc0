"""What callers hold of a product: a future that tells who waits for it."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Protocol

from echelon.arrays import NumberArray
from echelon.codes import ErrorEstimate


class Waits(Protocol):
    """Who wants to know what threads wait for."""

    def needs(self, future: "ProductFuture | None") -> None:
        """Take note of what this thread can't go on without."""


class ProductFuture(Future[NumberArray]):
    """The result of a product, as soon as it is there; it can't be cancelled.

    received: whether results enough are there, decoded or not.
    error_estimate: how far decoding may have brought the product off; None until it is there.
    pass_time: lets the stream's time pass until something is so, and returns what is left of a limit.
    """

    def __init__(self, waits: Waits, pass_time: Callable[[Callable[[], bool], float | None], float | None]) -> None:
        super().__init__()
        self.received = False
        self.error_estimate: ErrorEstimate | None = None
        self.set_running_or_notify_cancel()
        self._waits, self._pass_time = waits, pass_time

    def result(self, timeout: float | None = None) -> NumberArray:
        """Return the product, after waiting for it; raise `JobFailed` where its computation failed."""
        with self._needed():
            return super().result(self._pass_time(self.done, timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return why the product failed, or None, after waiting for it."""
        with self._needed():
            return super().exception(self._pass_time(self.done, timeout))

    @contextmanager
    def _needed(self) -> Iterator[None]:
        if self.done():
            yield
            return
        self._waits.needs(self)
        try:
            yield
        finally:
            self._waits.needs(None)
