"""Pictures. Matplotlib is imported only when one is drawn, and no window is ever opened."""

from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from echelon.arrays import FloatArray
from echelon.files import whole
from echelon.stream.timeline import LATE, PURGED, USEFUL, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# of the palette of Okabe and Ito, which those can tell apart who see no red or no green
JOBS = "#0072B2", "#56B4E9"  # blue and sky blue: useful work, by turns
BEHIND, LOST, INK, CUT = "#E69F00", "#D55E00", "#000000", "#8C8C8C"
PALETTE = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"

_LONGEST = 24  # letters of a name beside a picture
_HIGHEST = 100.0  # inches of a picture; workers without end would need more than a file can hold
_IDLE = 0.1  # share of their time that workers may wait before it is said
_ALONE = 0.6  # share of all waiting from which one worker is named for it
_NUMBERED = 12  # jobs that are told apart by numbers
_NEAR = 0.02  # share of a picture's width that a number needs


def figure(rows: int = 1, *, width: float = 7.0, height: float = 3.6) -> "tuple[Figure, list[Axes]]":
    """Return an empty figure with `rows` panels, one above the other."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width, height * rows), layout="constrained")
    axes = drawn.subplots(rows, 1, squeeze=False)[:, 0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_prop_cycle(color=PALETTE)
    return drawn, list(axes)


def save(drawn: "Figure", path: str | PathLike[str]) -> None:
    """Write a figure as PNG."""
    from matplotlib import rc_context

    with whole(path) as beside, rc_context({"hatch.linewidth": 0.5}):
        drawn.savefig(beside, dpi=150, format="png", metadata={"Software": None})


def timelines(panels: Mapping[str, Timeline], names: Sequence[str], *, width: float = 8.0) -> "Figure":
    """Return who is busy when, one panel per title over one axis of time, with one legend for all.

    Useful work is blue, in two shades that take turns from job to job; a panel's title ends with what is seen in it.
    """
    lanes = min(_HIGHEST / len(panels), 1.1 + 0.32 * len(names))
    drawn, axes = figure(len(panels), width=width, height=lanes)
    for axis, (title, seen) in zip(axes, panels.items(), strict=True):
        _draw_timeline(axis, seen, names)
        axis.set_title(f"{title}: {said(seen, names)}", loc="left", fontsize=10, fontweight="bold", pad=16)
        axis.sharex(axes[0])
    limits = [axis.dataLim.intervalx for axis in axes]
    low, high = min(low for low, _ in limits), max(high for _, high in limits)
    axes[0].set_xlim(low - 0.01 * (high - low), high + 0.01 * (high - low))
    for axis in axes[:-1]:
        axis.tick_params(labelbottom=False)
    axes[-1].set_xlabel("time (s)")
    legend(drawn, {work for seen in panels.values() for work in seen.work.tolist()} | {
        "lost" for seen in panels.values() if seen.losses
    })  # fmt: skip
    return drawn


def said(seen: Timeline, names: Sequence[str]) -> str:
    """Return what is to be seen: whom the others wait for, if for anybody."""
    waits = seen.waits.tolist()
    if seen.idle < _IDLE:
        return f"no worker waits for long ({seen.idle:.0%} of the time)"
    longest = max(range(len(waits)), key=waits.__getitem__)
    if waits[longest] >= _ALONE * sum(waits):
        return f"all wait for {_label(names[longest])} ({seen.idle:.0%} of the workers' time)"
    return f"workers wait for one another ({seen.idle:.0%} of their time)"


def _draw_timeline(axis: "Axes", seen: Timeline, names: Sequence[str]) -> None:
    """Draw one row per worker, ends of rounds and losses; above them when jobs arrive and leave."""
    top = len(names) - 0.35
    for place in range(len(names)):
        for work, job in sorted(set(zip(seen.work.tolist(), (seen.job % 2).tolist(), strict=True))):
            mine = (seen.worker == place) & (seen.work == work) & (seen.job % 2 == job)
            spans = list(zip(seen.start[mine].tolist(), (seen.stop - seen.start)[mine].tolist(), strict=True))
            axis.broken_barh(spans, (len(names) - 1 - place - 0.36, 0.72), **_style(work, job))
    axis.vlines(seen.ends, -0.5, top, colors=INK, linewidth=0.6, alpha=0.6, zorder=3)
    for time, place in seen.losses:
        axis.plot(time, len(names) - 1 - place, marker="X", color=LOST, markeredgecolor="white", markersize=9, zorder=4)
    for job, (arrival, left) in enumerate(zip(seen.arrivals.tolist(), seen.departures.tolist(), strict=True)):
        colour = JOBS[job % 2]
        axis.plot(arrival, top + 0.25, marker="v", color=colour, clip_on=False, markersize=7)
        axis.plot(left, top + 0.25, marker="o", color=colour, clip_on=False, markersize=5, markerfacecolor="white")
    if len(seen.arrivals) <= _NUMBERED:
        told = [(time, label, (0, 9)) for time, label in _numbers(seen.arrivals.tolist(), float(np.ptp(seen.ends)))]
        told += [(left, str(job + 1), (7, 0)) for job, left in enumerate(seen.departures.tolist())]
        for time, label, at in told:  # above the one, beside the other
            axis.annotate(
                label, (time, top + 0.25), at, textcoords="offset points", ha="center", va="center", fontsize=8,
                color=INK, annotation_clip=False,
            )  # fmt: skip
    axis.set_yticks(range(len(names)), [_label(name) for name in names[::-1]])
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.set_ylim(-0.6, top + 0.3)


def _numbers(arrivals: Sequence[float], lasted: float) -> list[tuple[float, str]]:
    """Return where to write which jobs arrive; those that come nearly together have one label."""
    labels: list[tuple[float, int, int]] = []
    for job, arrival in enumerate(arrivals, start=1):
        if labels and arrival - labels[-1][0] < _NEAR * lasted:
            labels[-1] = *labels[-1][:2], job
        else:
            labels.append((arrival, job, job))
    return [(arrival, str(first) if first == last else f"{first}–{last}") for arrival, first, last in labels]


def _style(work: int, job: int = 0) -> dict[str, Any]:
    """Return how work of one kind looks, alone and among the other kinds, also without colours."""
    if work == PURGED:
        return {"facecolor": "white", "edgecolor": CUT, "hatch": "//////", "linewidth": 0.4}
    return {"facecolor": JOBS[job] if work == USEFUL else BEHIND, "edgecolor": "white", "linewidth": 0.3}


def legend(drawn: "Figure", seen: Collection[int | str], *, jobs: bool = True) -> None:
    """Explain what is seen in a figure, below it: kinds of work, and "lost" for workers; ends of rounds, always."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    words = {USEFUL: "useful work", LATE: "late: others had sent enough", PURGED: "purged before it was done"}
    shown: list[Any] = [Patch(label=word, **_style(work)) for work, word in words.items() if work in seen]
    shown.append(Line2D([], [], color=INK, linewidth=0.9, alpha=0.6, label="a round ends"))
    if jobs:
        shown.append(Line2D([], [], color=JOBS[0], marker="v", linestyle="", label="a job arrives"))
        left = Line2D(
            [], [], color=JOBS[0], marker="o", markerfacecolor="white", linestyle="", label="and is delivered"
        )
        shown.append(left)
    if "lost" in seen:
        shown.append(
            Line2D([], [], color=LOST, marker="X", markeredgecolor="white", linestyle="", label="a worker dies")
        )
    drawn.legend(handles=shown, loc="outside lower center", ncols=min(len(shown), 4), frameon=False, fontsize=8)


def _label(name: str) -> str:
    """Return a name that leaves room for the picture, and is not taken for a formula."""
    shown = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return "".join(letter if letter.isprintable() else "�" for letter in shown).replace("$", r"\$")


def delays(ended: Mapping[str, tuple[Sequence[int], Sequence[float]]], mean: float | None) -> "Figure":
    """Return the delays of jobs, shape (jobs,) each, by outcome over their places in the order of arrival from 1."""
    from matplotlib.ticker import MaxNLocator

    drawn, (axis,) = figure()
    for (outcome, (numbers, values)), marker, colour in zip(
        ended.items(), "ovX", (JOBS[0], LOST, BEHIND), strict=False
    ):
        if not numbers:
            continue
        axis.plot(numbers, values, marker, markersize=5, color=colour, label=outcome)
    if mean is not None:
        axis.axhline(mean, color=INK, linewidth=0.9, alpha=0.6, label="mean of those done")
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("job, in order of arrival")
    axis.set_ylabel("delay (s)")
    seconds = "" if mean is None else f": {mean:.3g} s in the mean"
    axis.set_title(f"from arrival to delivery{seconds}", loc="left", fontsize=10, fontweight="bold")
    axis.legend(frameon=False, fontsize=8)
    return drawn


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
