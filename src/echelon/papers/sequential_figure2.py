"""Fig. 2 of the paper on sequential products: cumulative times, losses and loads of the runs of section 5.

Losses are those of smaller networks, trained here; the times at which they are reached are those of the full size.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from echelon import plots
from echelon.papers.claims import Claim, verdict, write_csv
from echelon.papers.sequential_training import PRODUCTS, RATES, images, networks, plain, train
from echelon.simulation import ChainResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALL, SMALL_BATCH = (784, 64, 64, 10), 128
PICTURES, TESTS = 20_000, 500


def spread_of(result: ChainResult) -> float:
    """Return the coefficient of variation of what a worker is given in a round."""
    return float(result.loads.std() / result.loads.mean())


def figure2(
    folder: Path, seed: int, seen: dict[str, dict[str, ChainResult]], dip: str, idip: str, bursty_idip: str
) -> list[Claim]:
    """Draw times and loads by round, and when the losses of the first network are reached.

    seen: results by model and name. dip, idip: the names of the schemes shown; bursty_idip: of IDIP under the Fritchman
    model.
    """
    iterations = seen["i.i.d."]["polynomial"].finished.shape[1] // (PRODUCTS * len(RATES))
    data = images(PICTURES, TESTS, seed)
    (network,) = networks(SMALL, seed, rates=RATES[:1])
    plain(train(network, data, SMALL_BATCH, iterations))
    shown = {
        "i.i.d.": {name: name for name in ("uncoded", "polynomial", dip, idip)},
        "Fritchman": {name: name for name in ("uncoded", "polynomial", dip)} | {idip: bursty_idip},
    }
    drawn, axes = plots.figure(6, height=2.6)
    rows: list[list[object]] = []
    losses: list[list[object]] = []
    for panels, (model, names) in zip((axes[:3], axes[3:]), shown.items(), strict=True):
        for label, name in names.items():
            result = seen[model][name]
            clock = result.durations[0].cumsum()
            # the first network's last product of each iteration, and the round in which it was there
            last = np.arange(1, iterations + 1) * PRODUCTS * len(RATES) - len(RATES)
            reached = clock[last + result.finished[0, last]]
            style: dict[str, Any] = {"linewidth": 1, "linestyle": "--" if label.startswith("IDIP") else "-"}
            panels[0].plot(clock, **style, label=label)
            panels[1].plot(reached, network.losses, **style, label=label)
            panels[2].plot(result.loads[0, :200], **style, label=label)
            rows += [
                [model, label, t + 1, clock[t], result.loads[0, t]]
                for t in [*range(min(200, len(clock))), *range(249, len(clock), 250)]
            ]
            losses += [[model, label, i + 1, reached[i], network.losses[i]] for i in range(0, iterations, 5)]
        _finish(panels, model, data.name)
    plots.save(drawn, folder / "figure2.png")
    write_csv(folder / "figure2_rounds.csv", ["model", "scheme", "round", "time", "load"], rows)
    write_csv(folder / "figure2_losses.csv", ["model", "scheme", "iteration", "time", "test_loss"], losses)
    return _claims(
        seen,
        dip,
        f"{data.name}: test loss {network.losses[0]:.2f} to {network.losses[-1]:.2f} in {iterations} iterations",
    )


def _finish(panels: "list[Axes]", model: str, source: str) -> None:
    letters = "abc" if model == "i.i.d." else "def"
    small = "-".join(map(str, SMALL))
    titles = ("cumulative time", f"test loss of network 1 ({small}, {source})", "load of a worker, first 200 rounds")
    labels = (("round", "time"), ("time", "test loss"), ("round", "load"))
    for axis, letter, title, (x, y) in zip(panels, letters, titles, labels, strict=True):
        axis.set_title(f"Fig. 2 ({letter}), {model}: {title}", loc="left", fontsize=10)
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        axis.legend(frameon=False, fontsize=8)


def _claims(seen: dict[str, dict[str, ChainResult]], dip: str, data: str) -> list[Claim]:
    results = seen["Fritchman"]
    spreads = {name: spread_of(result) for name, result in results.items()}
    others = [value for name, value in spreads.items() if not name.startswith("DIP")]
    return [
        Claim(
            "Fig. 2 (f)",
            "loads vary for all schemes, and more for DIP",
            "picture",
            f"coefficient of variation {spreads[dip]:.3f} for DIP, {min(others):.3f} to {max(others):.3f} "
            "for the others",
            verdict(spreads[dip] > max(others)),
            "Fritchman model, mu = 0.25, the paper's waiting rule, all rounds, of the work that a worker is given; "
            f"products of an iteration alone vary by {spreads['polynomial']:.3f}, and a window of four evens them out",
        ),
        Claim(
            "Fig. 2 (b), (e)",
            "every test loss is reached sooner by DIP and IDIP than by the polynomial code",
            "picture",
            data,
            verdict(
                all(
                    result.mean < seen[m]["polynomial"].mean
                    for m in seen
                    for n, result in seen[m].items()
                    if "DIP" in n
                )
            ),
            "by both waiting rules; products are exact, so that all schemes share one curve of losses; trained with "
            f"layers {'-'.join(map(str, SMALL))} and batches of {SMALL_BATCH}, at the times of the full size",
        ),
    ]
