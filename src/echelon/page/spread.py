"""How long rounds and jobs took, as a histogram, with the law that the plan has by what is known of the workers."""

from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from echelon.arrays import FloatArray
from echelon.errors import EchelonError
from echelon.page.seats import Speed
from echelon.plan import Plan, Slot, Task
from echelon.prediction import plan_law
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.stream.record import RecordedRound
from echelon.theory.tabulated import TabulatedCdf

KEPT = 2000  # the last values, of which the histogram is made
BARS = 30
_LAST = 0.99  # the last bar holds what is beyond this quantile, too


class Spread:
    """The last values of something, with the count and the mean of all."""

    def __init__(self) -> None:
        self.count, self._sum = 0, 0.0
        self._last: deque[float] = deque(maxlen=KEPT)

    def add(self, value: float) -> None:
        """Add a value."""
        self.count += 1
        self._sum += value
        self._last.append(value)

    def clear(self) -> None:
        """Forget the last values, since others will follow another law."""
        self._last.clear()

    @property
    def lately(self) -> float | None:
        """The mean of the last values."""
        return float(np.mean(self._last)) if self._last else None

    def shown(self, law: TabulatedCdf | None = None, says: str = "") -> dict[str, Any] | None:
        """Return the histogram of the last values, and how many of them a law has in each bar; None without values."""
        if not self._last:
            return None
        values = np.array(self._last)
        p50, p95, beyond = np.quantile(values, [0.5, 0.95, _LAST])
        first, last = float(values.min()), float(beyond)
        if last <= first:
            first, last = 0.9 * first, 1.1 * first or 1.0
        edges = np.linspace(first, last, BARS + 1)
        counts, _ = np.histogram(np.clip(values, first, last), edges)
        return {
            "edges": edges.tolist(),
            "counts": counts.tolist(),
            "law": None if law is None else _expected(law, edges, len(values)),
            "says": says,
            "mean": self._sum / self.count,
            "p50": float(p50),
            "p95": float(p95),
            "count": self.count,
        }


def _expected(law: TabulatedCdf, edges: FloatArray, count: int) -> list[float]:
    """Return how many of some values a law has in each bar; the first and the last hold what is beyond them."""
    below = law.cdf(edges)
    below[0], below[-1] = 0.0, 1.0
    expected: list[float] = (count * np.diff(below)).tolist()
    return expected


def round_law(
    seen: RecordedRound, speeds: Sequence[Speed | None], names: Sequence[str]
) -> tuple[TabulatedCdf | None, str]:
    """Return the exact law of rounds with the plan of this one, and what it is; or None, and why there is none."""
    if seen.came or seen.left_out or seen.residual:
        return None, "No law is drawn: the last round ended early, or a part of it was there before it began."
    places = [place for place, lane in seen.lanes.items() if lane]
    known = [speed for place in places if (speed := speeds[place]) is not None]
    if len(known) < len(places):
        return None, "No law is drawn yet: some workers have finished too little."
    lanes = [
        [
            Task(slot=slot, row=row, cost=cost)
            for (slot, row), cost in zip(seen.rows[place], seen.lanes[place], strict=True)
        ]
        for place in places
    ]
    rows = [0] * len(seen.needed)
    for task in chain.from_iterable(lanes):
        rows[task.slot] = max(rows[task.slot], task.row + 1)
    try:
        plan = Plan([Slot(rows=held, threshold=least) for held, least in zip(rows, seen.needed, strict=True)], lanes)
        workload = Workload(critical=sum(seen.needed), redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0))
        workers = [
            Worker(names[place], mean=speed.mean, std=speed.std, link=speed.link)
            for place, speed in zip(places, known, strict=True)
        ]
        law = plan_law(plan, Profile(workload, workers))
    except EchelonError as error:
        return None, f"No law is drawn: {error}"
    says = f"Line: the exact law of {sum(seen.needed)} of {plan.tasks} rows, shared out as in the last round, by "
    return law, says + "the means and deviations of the last rounds."
