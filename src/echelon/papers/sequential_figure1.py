"""Fig. 1 of the paper on sequential products: the time of every scheme against the probability of stragglers.

Exact but for DIP with a deadline, which is simulated: parameters are chosen on some draws and scored on others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from echelon import plots, theory
from echelon.arrays import FloatArray, IntArray
from echelon.papers.claims import BEYOND, Claim, verdict, write_csv
from echelon.schemes import Sequential, diagonal_interleaved
from echelon.simulation import simulate_chain

DELTAS = np.arange(1, 11) / 20
SCREEN = (10, 100)  # runs at each delta, and products of a run, by which parameters are chosen
SCORE = (10, 1000)  # and by which those chosen are scored, on fresh draws
SIGMAS = 4.0  # of a simulated mean against the exact one: one in 16,000 would fall outside


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of Fig. 1. results: values of beta = xy tried for DIP, the largest of which is P W."""

    letter: str
    slowdown: float
    workers: int
    window: int
    results: tuple[int, ...]

    @property
    def title(self) -> str:
        """What the panel shows."""
        return f"Fig. 1 ({self.letter}): alpha = {self.slowdown:g}, P = {self.workers}, T = W - 1 = {self.window - 1}"

    @property
    def pairs(self) -> int:
        """Workers times rounds of a window, P W."""
        return self.workers * self.window

    def polynomial(self, stragglers: int, delta: float) -> float:
        """Return R_poly; S = 0 is the plain way."""
        return theory.polynomial_time(
            slowdown=self.slowdown, stragglers=stragglers, workers=self.workers, probability=delta
        )

    def dip(self, results: int, delta: float) -> float:
        """Return R_DIP for T = infinity."""
        return theory.dip_time(slowdown=self.slowdown, results=results, workers=self.workers, probability=delta)

    def idip(self, formula: Callable[..., float], count: int, delta: float) -> float:
        """Return R_IDIP by one of the formulas."""
        return formula(
            slowdown=self.slowdown, count=count, window=self.window, workers=self.workers, probability=delta
        )  # fmt: skip


PANELS = (
    Panel("a", 5.0, 4, 4, (4, 6, 8, 12, 14, 15, 16)),
    Panel("b", 10.0, 6, 5, (6, 12, 18, 24, 27, 30)),
)


def paces(panel: Panel, runs: int, rounds: int, rng: np.random.Generator) -> FloatArray:
    """Return times of a product at every delta, shape (deltas * runs, rounds, workers), from the same draws."""
    drawn = rng.random((runs, rounds, panel.workers))
    slow = drawn < DELTAS[:, None, None, None]
    return np.where(slow, panel.slowdown, 1.0).reshape(-1, rounds, panel.workers)


def steady_rounds(scheme: Sequential, times: FloatArray, products: int) -> FloatArray:
    """Return the mean length of a round once the window is full, by delta and run: a round begins a product."""
    seen = simulate_chain(scheme, products=products, paces=times).durations[:, 2 * scheme.delay : products]
    means: FloatArray = seen.mean(axis=1).reshape(len(DELTAS), -1)
    return means


def finite_delay(panel: Panel, seed: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the time of DIP at every delta with its error, and beta and lambda that are best among those tried."""
    rng = np.random.default_rng(seed)
    delay = panel.window - 1
    tried = [(beta, spread) for beta in panel.results for spread in range(1, panel.workers + 1)]
    schemes = {each: diagonal_interleaved(panel.workers, x=1, y=each[0], delay=delay, spread=each[1]) for each in tried}
    runs, products = SCREEN
    times = paces(panel, runs, products + delay, rng)
    screened = np.array([steady_rounds(scheme, times, products).mean(axis=1) for scheme in schemes.values()])
    chosen = [tried[i] for i in screened.argmin(axis=0)]
    runs, products = SCORE
    times = paces(panel, runs, products + delay, rng)
    scored = {each: steady_rounds(schemes[each], times, products) for each in dict.fromkeys(chosen)}
    found = np.array([scored[each][i] for i, each in enumerate(chosen)])
    return found.mean(axis=1), found.std(axis=1, ddof=1) / runs**0.5, np.array(chosen)


def endless_limit(panel: Panel, delta: float) -> float:
    """Return what DIP with T = infinity comes down to as beta grows: a round's mean length over its mean results."""
    everybody = delta**panel.workers
    results = panel.workers * (1 - delta + everybody)
    return float((1 + (panel.slowdown - 1) * everybody) / results)


def curves(panel: Panel, seed: int) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Return the times of all schemes at every delta, by name, and the parameters at which they are least."""

    def least(time: Callable[[int, float], float], values: range) -> tuple[FloatArray, FloatArray]:
        times = np.array([[time(value, delta) for value in values] for delta in DELTAS.tolist()])
        return times.min(axis=1), np.array(values)[times.argmin(axis=1)].astype(float)

    counts = range(1, panel.pairs)
    found: dict[str, FloatArray] = {"uncoded": np.array([panel.polynomial(0, delta) for delta in DELTAS.tolist()])}
    at: dict[str, FloatArray] = {}
    found["polynomial"], at["S"] = least(panel.polynomial, range(1, panel.workers))
    for name, key, formula in (
        ("IDIP, printed bound", "N printed", theory.idip_time_bound),
        ("IDIP, exact", "N exact", theory.idip_time),
    ):
        found[name], at[key] = least(partial(panel.idip, formula), counts)
    found["DIP, T = inf"], at["beta inf"] = least(panel.dip, range(panel.workers, panel.pairs + 1))
    found["DIP, T = inf, beta = inf"] = np.array([endless_limit(panel, d) for d in DELTAS.tolist()])
    name = f"DIP, T = {panel.window - 1}, simulated"
    found[name], found["its error"], chosen = finite_delay(panel, seed)
    at["beta"], at["lambda"] = chosen.T.astype(float)
    return found, at


def figure1(folder: Path, seed: int) -> list[Claim]:
    """Compute the times of all schemes against delta, each at its best parameters."""
    drawn, axes = plots.figure(len(PANELS))
    claims: list[Claim] = []
    for axis, panel in zip(axes, PANELS, strict=True):
        found, at = curves(panel, seed)
        rows = zip(DELTAS, *found.values(), *at.values(), strict=True)
        write_csv(folder / f"figure1{panel.letter}.csv", ["delta", *found, *at], list(rows))
        styles = [{"color": "gray"}, {"marker": "s"}, {"linestyle": "--"}, {"marker": "^"}, {"marker": "o"}]
        styles += [{"linestyle": ":"}, {"marker": "x"}]
        shown = [name for name in found if name != "its error"]
        lines = {name: (found[name], {"markersize": 3, **style}) for name, style in zip(shown, styles, strict=True)}
        plots.draw_curves(axis, DELTAS, lines, "straggler probability delta", "time of a product")
        axis.set_title(panel.title, loc="left", fontsize=10)
        claims += _figure1_claims(panel, found, at)
    plots.save(drawn, folder / "figure1.png")
    return claims


def _figure1_claims(panel: Panel, found: dict[str, FloatArray], at: dict[str, FloatArray]) -> list[Claim]:
    endless, finite = found["DIP, T = inf"], found[f"DIP, T = {panel.window - 1}, simulated"]
    error, exact, printed = found["its error"], found["IDIP, exact"], found["IDIP, printed bound"]
    polynomial, middle = found["polynomial"], int(np.flatnonzero(np.isclose(DELTAS, 0.3))[0])
    where = f"Fig. 1 ({panel.letter})"
    apart = finite / endless - 1
    earlier = [f"{delta:g}" for delta in DELTAS[finite + SIGMAS * error < endless]]
    faster = f"delta = {', '.join(earlier)}" if earlier else "no delta"
    return [
        Claim(
            where,
            f"DIP outperforms the polynomial code and IDIP at every delta, P = {panel.workers}",
            "picture",
            f"at delta = 0.3: DIP {endless[middle]:.3f} (T = inf) and {finite[middle]:.3f} (T = {panel.window - 1}, "
            f"simulated), IDIP {exact[middle]:.3f}, polynomial {polynomial[middle]:.3f}, uncoded "
            f"{found['uncoded'][middle]:.3f}",
            verdict(bool((endless < exact).all() and (finite < exact).all() and (exact < polynomial).all())),
            f"each at its best parameters, for {len(DELTAS)} values of delta from {DELTAS[0]:g} to {DELTAS[-1]:g}; T = "
            f"inf keeps falling as beta = xy grows, so that beta is at most P W = {panel.pairs} here (its limit is "
            f"{found['DIP, T = inf, beta = inf'][middle]:.3f}); among lambda 1 to {panel.workers} the best is "
            f"{'1 everywhere' if (at['lambda'] == 1).all() else 'not always 1'}",
        ),
        Claim(
            where,
            "the curve of IDIP is an upper bound, minimised over N",
            "picture",
            f"printed {printed[middle]:.3f} at N = {at['N printed'][middle]:.0f}, exact {exact[middle]:.3f} at "
            f"N = {at['N exact'][middle]:.0f}, delta = 0.3",
            verdict(bool((printed >= exact).all())),
            f"at its own best N the printed bound is {(printed / exact - 1).min():.0%} to "
            f"{(printed / exact - 1).max():.0%} above the exact least time; for larger N it is no bound (below)",
        ),
        Claim(
            where,
            f"how T = {panel.window - 1} compares with T = inf",
            "not said",
            f"T = {panel.window - 1}: {apart.min():+.1%} to {apart.max():+.1%} of the time; less, beyond {SIGMAS:g} "
            f"standard errors, at {faster}",
            BEYOND,
            "a deadline may even help: what a straggler has finished counts here, and is dropped in the formula for "
            "T = inf; and mini-tasks of the due product go to whoever is free, as lambda = 1 gives all of them to all",
        ),
    ]
