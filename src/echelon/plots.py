"""Pictures. Matplotlib is imported only when one is drawn, and no window is ever opened."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from echelon.arrays import FloatArray
from echelon.files import whole
from echelon.stream.recorded import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONGEST = 24  # letters of a name beside a picture


def figure(rows: int = 1, *, width: float = 7.0, height: float = 3.6) -> "tuple[Figure, list[Axes]]":
    """Return an empty figure with `rows` panels, one above the other."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width, height * rows), layout="constrained")
    axes = drawn.subplots(rows, 1, squeeze=False)[:, 0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return drawn, list(axes)


def save(drawn: "Figure", path: str | PathLike[str]) -> None:
    """Write a figure as PNG."""
    with whole(path) as beside:
        drawn.savefig(beside, dpi=150, format="png")


def draw_timeline(axis: "Axes", seen: Timeline, names: Sequence[str], title: str) -> None:
    """Draw which worker is busy when: one row per worker, one colour per job, a tick above each arrival."""
    from matplotlib import colormaps

    colours = colormaps["tab10"].colors  # type: ignore[attr-defined]
    for p in range(len(names)):
        for j in range(len(seen.arrivals)):
            mine = (seen.worker == p) & (seen.job == j)
            spans = np.column_stack([seen.start[mine], (seen.stop - seen.start)[mine]])
            axis.broken_barh(
                [(start, width) for start, width in spans],
                (len(names) - 1 - p - 0.35, 0.7),
                facecolors=colours[j % len(colours)],
                edgecolor="white",
                linewidth=0.2,
            )
    for j, (arrival, left) in enumerate(zip(seen.arrivals, seen.departures, strict=True)):
        colour = colours[j % len(colours)]
        axis.plot(arrival, len(names) - 0.1, marker="v", color=colour, clip_on=False, markersize=7)
        axis.plot(left, len(names) - 0.45, marker="x", color=colour, clip_on=False, markersize=6)
    axis.set_yticks(range(len(names)), [_label(name) for name in names[::-1]])
    axis.set_ylim(-0.6, len(names) + 0.1)
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xlabel("time (s); ▾ a job arrives, × it is delivered")


def _label(name: str) -> str:
    """Return a name that leaves room for the picture, and is not taken for a formula."""
    shown = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return "".join(letter if letter.isprintable() else "�" for letter in shown).replace("$", r"\$")


def share_time(axes: "Sequence[Axes]") -> None:
    """Give timelines one scale, so that they can be compared by eye."""
    limits = [axis.get_xlim() for axis in axes]
    for axis in axes:
        axis.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))


def draw_curves(
    axis: "Axes", x: FloatArray, curves: Mapping[str, tuple[FloatArray, Mapping[str, Any]]], xlabel: str, ylabel: str
) -> None:
    """Draw named curves over one axis; infinite values are left out."""
    for name, (y, style) in curves.items():
        axis.plot(x, np.where(np.isfinite(y), y, np.nan), label=name, **style)
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    if len(curves) > 1:
        axis.legend(frameon=False, fontsize=8)
