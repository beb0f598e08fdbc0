"""Deliveries that wait to be taken, in order of arrival; each is handed over once, to whoever claims it first."""

import logging
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any, Final

from echelon.errors import JobFailed
from echelon.stream.handle import Delivery
from echelon.stream.journal import Entry, Journal

log = logging.getLogger("echelon.stream")

HELD = 1000  # results that wait in memory; with a journal, those beyond wait there alone
IN_JOURNAL: Final[Any] = object()  # stands for a result that is read when it is taken


def delivery_of(entry: Entry) -> Delivery:
    """Return the delivery of a job that has ended, as the journal has it; its result is read when it is taken."""
    aside = f"{entry.name} is set aside: {entry.reason}; 'echelon journal FILE' retries, exports and drops it"
    error = {"failed": JobFailed(entry.reason), "set aside": JobFailed(aside)}.get(entry.status)
    result = IN_JOURNAL if error is None else None
    return Delivery(
        entry.name, entry.number, result, error, 0.0, entry.iteration, entry.error, residual=entry.residual
    )  # fmt: skip


class Ready:
    """The deliveries of a stream that nobody took yet. Its owner's lock guards all but `whole` and `opened`."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        self._waiting: dict[int, Delivery] = {}  # by number
        self._claimed: dict[int, Delivery] = {}  # being handed over
        self._order: list[int] = []  # a heap of the numbers of both, and of some that are gone
        self._warned = False

    def __bool__(self) -> bool:
        return bool(self._waiting or self._claimed)

    @property
    def claimed(self) -> bool:
        """Whether some are being handed over, and may come back."""
        return bool(self._claimed)

    def add(self, delivery: Delivery) -> None:
        """Put a delivery among those that wait."""
        if len(self._waiting) >= HELD:
            if self._journal is not None and delivery.error is None:
                delivery = replace(delivery, result=IN_JOURNAL)
            elif not self._warned:
                self._warned = True
                log.warning(
                    "%d results wait in memory for somebody to take them: iterate over deliveries(), or submit jobs "
                    "with deliver=False", len(self._waiting),
                )  # fmt: skip
        self._waiting[delivery.number] = delivery
        heappush(self._order, delivery.number)

    def first(self) -> int | None:
        """Return the number of the first, which may be claimed."""
        while self._order and self._order[0] not in self._waiting and self._order[0] not in self._claimed:
            heappop(self._order)
        return self._order[0] if self._order else None

    def claim(self, number: int) -> Delivery | None:
        """Return a delivery that the caller hands over now; None if it is not there, or another does."""
        delivery = self._waiting.pop(number, None)
        if delivery is not None:
            self._claimed[number] = delivery
        return delivery

    def settle(self, number: int, *, taken: bool) -> None:
        """End a claim: the delivery is gone, or waits again."""
        delivery = self._claimed.pop(number)
        if not taken:
            self._waiting[number] = delivery

    def whole(self, delivery: Delivery) -> Delivery:
        """Return a delivery with its result, wherever that is; `JournalError` where it can't be read."""
        if delivery.result is not IN_JOURNAL:
            return delivery
        with self.opened() as journal:
            return replace(delivery, result=journal.result(delivery.number))

    def opened(self) -> AbstractContextManager[Journal]:
        """Give the journal, opened for the moment if its stream was closed."""
        assert self._journal is not None
        if self._journal.closed:
            return closing(Journal(self._journal.path, timeout_s=0.0))
        return nullcontext(self._journal)
