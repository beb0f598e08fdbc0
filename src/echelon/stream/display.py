"""What a stream is doing, live: a table on a terminal, elsewhere nothing (see the log lines under ``echelon``)."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from echelon.stream.driver import Driver
from echelon.stream.handle import Handle
from echelon.stream.observer import Observer, RoundSeen

if TYPE_CHECKING:
    from rich.console import Group

_REFRESH = 4  # times per second


def wanted(progress: bool | None) -> bool:
    """Return whether to show a display: if asked for, or if standard error is a terminal."""
    return sys.stderr.isatty() if progress is None else progress


class Display(Observer):
    """Jobs, queue, iteration times and every worker's state."""

    def __init__(self, driver: Driver, outstanding: Callable[[], list[Handle]]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._driver, self._outstanding = driver, outstanding
        self._rounds = 0
        self._mean = 0.0
        self._last: RoundSeen | None = None
        self._down: dict[int, int] = {}
        self._live = Live(
            console=Console(stderr=True), refresh_per_second=_REFRESH, get_renderable=self._render, transient=True
        )
        self._live.start()

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        """Count a loss."""
        self._down[place] = self._down.get(place, 0) + 1

    def round_over(self, seen: RoundSeen) -> None:
        """Note a round."""
        self._rounds += 1
        share = max(0.1, 1 / self._rounds)
        self._mean += share * (seen.end - seen.start - self._mean)
        self._last = seen

    def close(self) -> None:
        """Remove the display."""
        self._live.stop()

    def _render(self) -> "Group":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        jobs = self._outstanding()
        table = Table(box=None, pad_edge=False)
        for column in ("worker", "state", "rows", "results", "ms per part", "losses"):
            table.add_column(column, justify="left" if column == "state" else "right")
        places = dict(sorted((place, worker) for worker, place in list(self._driver.places.items())))
        seen = self._last
        means = self._driver.pacing.means
        for place in range(len(means)):
            worker = places.get(place)
            lane, done = 0, 0
            if seen is not None and worker in seen.workers:
                lane = len(seen.plan.lanes[seen.workers.index(worker)])
                done = sum(1 for message in seen.messages if message.worker == worker)
            known = self._driver.pacing.known
            table.add_row(
                str(place + 1),
                "gone" if worker is None else "at work" if jobs else "idle",
                str(lane),
                str(done),
                f"{means[place] * 1e3:.3g}" if known else "?",
                str(self._down.get(place, 0)),
            )
        head = f"{len(jobs)} jobs in the stream, {self._rounds} rounds"
        if jobs:
            now = jobs[0].progress
            head += f"; {jobs[0].name}"
            if now.iterations != 1:  # else it is over before one could read it
                head += f": iteration {now.iteration}" + ("" if now.iterations is None else f" of {now.iterations}")
        if seen is not None:
            slot = seen.plan.slots[0]
            head += f"; {self._mean * 1e3:.3g} ms per round, any {slot.threshold} of {slot.rows} rows"
            expected = self._driver.pacing.expected
            if expected is not None:
                head += f", {expected * 1e3:.3g} ms expected"
        return Group(Text(head), table)
