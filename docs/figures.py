"""Draw the pictures of the documentation again: `python docs/figures.py`. The same numbers give the same files."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import echelon as ec
from echelon import plots
from echelon.arrays import FloatArray
from echelon.jobs import HollowJob
from echelon.papers.stream_workers import example2
from echelon.seeds import generators
from echelon.stream import read_record
from echelon.stream.timeline import Timeline, record_timeline

HERE = Path(__file__).parent
DONE, CUT, END = plots.JOBS[0], "white", plots.INK
JOBS, STEPS = 4, 10  # of the stream that is shown


def lane(axis: Axes, at: float, start: float, link: float, times: FloatArray, end: float, last: float = np.inf) -> None:
    """Draw the tasks of one worker in a round that ends at `end`, up to `last`; what `end` cuts short is hatched."""
    stops = start + link + np.cumsum(times)
    for begin, stop in zip(stops - times, stops, strict=True):
        if begin >= last:
            break
        done = stop <= end + 1e-9
        axis.barh(
            at,
            min(stop, last) - begin,
            left=begin,
            height=0.7,
            facecolor=DONE if done else CUT,
            hatch=None if done else "//////",
            edgecolor="white" if done else plots.CUT,
            linewidth=0.4,
        )
    axis.barh(at, link, left=start, height=0.12, color="#555555")


def round_end(start: float, links: Sequence[float], times: Sequence[FloatArray], needed: int) -> float:
    """Return when so many results are there."""
    arrivals = [start + link + np.cumsum(some) for link, some in zip(links, times, strict=True)]
    return float(np.sort(np.concatenate(arrivals))[needed - 1])


def tidy(axis: Axes, names: Sequence[str], xlabel: str) -> None:
    """Name the lanes from above, and leave out what says nothing."""
    axis.set_yticks(range(len(names)), list(names))
    axis.invert_yaxis()
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel(xlabel)


def rounds() -> Figure:
    """Three rounds of three workers: enough results end a round, and the rest is purged."""
    figure = Figure(figsize=(7.5, 2.5), layout="constrained")
    axis = figure.subplots()
    rng = np.random.default_rng(6)
    counts, means, links, needed = (8, 7, 5), (0.10, 0.12, 0.17), (0.03, 0.04, 0.05), 16
    start = 0.0
    for number in range(3):
        times = [mean * (0.5 + 0.5 * rng.exponential(size=count)) for mean, count in zip(means, counts, strict=True)]
        end = round_end(start, links, times, needed)
        for p, (link, some) in enumerate(zip(links, times, strict=True)):
            lane(axis, p, start, link, some, end, last=end)
        axis.axvline(end, color=END, linewidth=1.2)
        axis.text(end, -0.62, f"round {number + 1} is over", ha="right", va="bottom", fontsize=8, color=END)
        start = end + 0.04
    axis.set_xlim(0, start)
    tidy(axis, ("worker 1", "worker 2", "worker 3"), "time")
    axis.set_xticks([])
    plots.legend(figure, {plots.USEFUL, plots.PURGED}, jobs=False)
    return figure


def lanes() -> Figure:
    """One round of Example 2 in mean times, by an equal split and by Theorem 2."""
    profile = ec.read_profile(HERE.parent / "examples" / "example2.toml")
    figure = Figure(figsize=(8.0, 2.9), layout="constrained")
    for axis, rule, title in zip(
        figure.subplots(1, 2, sharex=True), ("uniform", "theorem2"), ("equal split", "Theorem 2"), strict=True
    ):
        counts = ec.split_rows(profile, rule).counts
        links = profile.speeds.link.tolist()
        times = [np.full(count, mean) for count, mean in zip(counts, profile.speeds.mean, strict=True)]
        end = round_end(0.0, links, times, profile.workload.critical)
        for p, (link, some) in enumerate(zip(links, times, strict=True)):
            lane(axis, p, 0.0, link, some, end)
        axis.axvline(end, color=END, linewidth=1.2)
        axis.set_title(f"{title}: over after {end:.2f} s", loc="left", fontsize=10)
        tidy(axis, [f"{name}: {count}" for name, count in zip(profile.names, counts, strict=True)], "seconds")
    plots.legend(figure, {plots.USEFUL, plots.PURGED}, jobs=False)
    return figure


def window() -> Figure:
    """Which product mini-tasks belong to, round by round, where a product has four rounds to come back."""
    figure = Figure(figsize=(7.5, 2.4), layout="constrained")
    axis = figure.subplots()
    delay, workers, shown = 3, 4, 6
    for t in range(shown):
        for p in range(workers):
            for place, product in enumerate(range(t, t - delay - 1, -1)):  # newest first
                if product >= 0:
                    left = t + 0.05 + 0.9 * place / (delay + 1)
                    axis.barh(
                        p, 0.9 / (delay + 1), left=left, height=0.7, color=plots.PALETTE[product], edgecolor="white"
                    )
                    middle = left + 0.45 / (delay + 1)
                    axis.text(middle, p, str(product + 1), ha="center", va="center", fontsize=8, color="white")
        axis.text(t + 0.5, -0.75, f"round {t + 1}", ha="center", va="bottom", fontsize=9)
    axis.set_xlim(0, shown)
    tidy(axis, [f"worker {p + 1}" for p in range(workers)], "")
    axis.spines["bottom"].set_visible(False)
    axis.set_xticks([])
    return figure


def stream() -> Figure:
    """Four jobs on the workers of Example 2, by equal shares and by Theorem 2, in virtual time."""
    paper = example2()
    rate = paper.workload.arrivals.rate * paper.workload.iterations / STEPS
    profile = paper.with_workload(iterations=STEPS, arrivals=ec.Arrivals.poisson(rate))
    chance, _ = generators(1)  # as `echelon demo` draws its arrivals
    gaps = chance.exponential(profile.workload.arrivals.mean, JOBS)
    panels: dict[str, Timeline] = {}
    for rule, title in (("uniform", "equal shares"), ("theorem2", "shares by Theorem 2")):
        counts = ec.split_rows(profile, rule).counts
        code = ec.codes.mds(parts=profile.workload.critical, rows=int(counts.sum()), rng=np.random.default_rng(1))
        plan = ec.schemes.coded_rows(code, counts)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "run"
            with ec.Stream(
                "virtual", emulate=profile, seed=1, adapt=False, patience_s=1e6, record=path, progress=False
            ) as stream:  # patient, so that nothing but the shares differs
                for gap in gaps.tolist():
                    stream.sleep(gap)
                    stream.submit(HollowJob(plan, iterations=STEPS))
            seen = record_timeline(read_record(path), most_rounds=JOBS * STEPS, horizon=np.inf)
        panels[title] = seen.since(float(seen.arrivals[0]))
    return plots.timelines(panels, profile.names)


PICTURES = {"round.svg": rounds, "background/lanes.svg": lanes, "background/window.svg": window}


def main() -> None:
    """Write all pictures, without dates and random names in them."""
    with matplotlib.rc_context({"svg.hashsalt": "echelon", "svg.fonttype": "none", "hatch.linewidth": 0.5}):
        for name, draw in PICTURES.items():
            draw().savefig(HERE / name, metadata={"Date": None})
        plots.save(stream(), HERE / "timeline.png")


if __name__ == "__main__":
    main()
