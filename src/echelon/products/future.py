"""What callers hold for a product: a future that tells which thread waits for it."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Protocol

from echelon.arrays import NumberArray
from echelon.codes import ErrorEstimate


class Waits(Protocol):
    """Told what threads wait for."""

    def needs(self, future: "ProductFuture | None") -> None:
        """Note which result this thread waits for."""


class ProductFuture(Future[NumberArray]):
    """The result of a product, as soon as it is there; it can't be cancelled.

    received: whether enough results are there, decoded or not.
    error_estimate: by how much decoding may have put the product off; None until it is there.
    pass_time: lets the stream's time pass until a condition holds, and returns what is left of a limit.
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
