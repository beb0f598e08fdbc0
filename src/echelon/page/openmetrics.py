"""The text form of OpenMetrics 1.0, which Prometheus and its relatives read."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple


class Metric(NamedTuple):
    """What is known of a metric before it has a value.

    kind: "counter", "gauge" or "histogram". unit: "" where it is a plain number; a name ends with its unit.
    labels: the names of its labels.
    """

    kind: str
    unit: str
    labels: tuple[str, ...]
    help: str


class Histogram:
    """How many values are at most each of some bounds, and the sum of all.

    >>> seen = Histogram([1.0, 10.0])
    >>> for value in (0.5, 1.0, 7.0, 99.0):
    ...     seen.add(value)
    >>> seen.counts, seen.sum
    ([2, 1, 1], 107.5)
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


Samples = Iterable[tuple[tuple[str, ...], float]] | Histogram  # values of the labels, and what was measured


def exposition(metrics: Mapping[str, Metric], samples: Mapping[str, Samples]) -> str:
    """Return the text of all metrics, in their order.

    >>> known = {"jobs_ended": Metric("counter", "", ("outcome",), "Jobs that ended.")}
    >>> print(exposition(known, {"jobs_ended": [(("done",), 3)]}), end="")
    # TYPE jobs_ended counter
    # HELP jobs_ended Jobs that ended.
    jobs_ended_total{outcome="done"} 3
    # EOF
    """
    lines = []
    for name, metric in metrics.items():
        lines.append(f"# TYPE {name} {metric.kind}")
        if metric.unit:
            lines.append(f"# UNIT {name} {metric.unit}")
        lines.append(f"# HELP {name} {metric.help}")
        lines += _lines(name, metric, samples[name])
    return "\n".join([*lines, "# EOF", ""])


def _lines(name: str, metric: Metric, samples: Samples) -> list[str]:
    if isinstance(samples, Histogram):
        cumulated = list(accumulate(samples.counts))
        bounds = [*samples.bounds, math.inf]
        return [
            *(f'{name}_bucket{{le="{number(bound)}"}} {n}' for bound, n in zip(bounds, cumulated, strict=True)),
            f"{name}_count {cumulated[-1]}",
            f"{name}_sum {number(samples.sum)}",
        ]
    suffix = "_total" if metric.kind == "counter" else ""
    return [f"{name}{suffix}{_labelled(metric.labels, values)} {number(value)}" for values, value in samples]


def _labelled(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(pairs)}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def number(value: float) -> str:
    """Return a number as OpenMetrics spells it.

    >>> number(3), number(0.25), number(math.inf), number(math.nan)
    ('3', '0.25', '+Inf', 'NaN')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value if isinstance(value, int) else float(value))
