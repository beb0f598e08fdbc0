"""Rounds that end by policies: a training on recorded workers, loss against time; and live, beside the prediction.

    python -m bench.policies --picture docs/policies.png

Softmax regression on scikit-learn's digits by gradients of mini-batches. In virtual time 256 workers take what Lambda
workers took (`examples/lambda`), round by round; live, eight processes take the times of a law.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import echelon as ec
from bench.emulated import SLOW, cluster, equal
from bench.results import markdown_table
from echelon.codes import balanced, fractional_repetition, graph, uncoded
from echelon.delays import task_laws
from echelon.endings import Deadline, Policy, Quorum, Residual
from echelon.files import read_profile
from echelon.schemes import CodedPlan, coded_rows
from echelon.simulation import simulate_rounds
from echelon.stream import read_record

ROOT = Path(__file__).parents[1]
LAMBDA = ROOT / "examples" / "lambda" / "cnn.toml"
SEEDS = range(1, 6)
RATE, DECAY = 2.0, 0.995  # of the steps
ROUNDS, LIVE_ROUNDS = 120, 100
REACHED = 0.93  # of the test samples
WORKERS, PARTS, PART_S = 8, 8, 0.04  # live
WANTED_POINTS, WANTED_OFF = 0.5, 0.05
CLASSES = 10


@dataclass(frozen=True)
class Digits:
    """Training samples in chunks, with one column for the constant term, and test samples."""

    chunks: list[tuple[np.ndarray, np.ndarray]]
    inputs: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True)
class State:
    """Weights, and the accuracy and loss on test samples after each step."""

    weights: np.ndarray
    accuracy: tuple[float, ...] = ()
    loss: tuple[float, ...] = ()


def digits(seed: int, chunks: int) -> Digits:
    """Return the data, shuffled by a seed."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(seed).permutation(len(data.data))
    inputs = np.column_stack([data.data[order] / 16, np.ones(len(order))])
    targets = data.target[order]
    cut = len(order) * 4 // 5
    parts = zip(np.array_split(inputs[:cut], chunks), np.array_split(targets[:cut], chunks), strict=True)
    return Digits(list(parts), inputs[cut:], targets[cut:])


def scores(weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Return the probabilities of the classes."""
    raw = inputs @ weights
    raw = np.exp(raw - raw.max(axis=1, keepdims=True))
    return raw / raw.sum(axis=1, keepdims=True)


def gradient(state: np.ndarray, chunk: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the gradient of the loss on a chunk, summed over its samples."""
    inputs, targets = chunk
    return inputs.T @ (scores(state, inputs) - np.eye(CLASSES)[targets])


class Training(ec.SumJob):
    """A training whose state keeps what it showed on test samples."""

    def __init__(self, data: Digits, rounds: int, **settings: Any) -> None:
        first = State(np.zeros((data.inputs.shape[1], CLASSES)))
        super().__init__(
            partial=gradient, update=self.moved, state=first, chunks=data.chunks, iterations=rounds, **settings
        )
        self._data, self._samples = data, sum(len(targets) for _, targets in data.chunks)

    def request(self, state: State) -> np.ndarray:
        """Return the weights alone."""
        return state.weights

    def moved(self, state: State, total: np.ndarray) -> State:
        """Return the state after a step."""
        rate = RATE * DECAY ** len(state.loss)
        weights = state.weights - rate * total / self._samples
        found = scores(weights, self._data.inputs)
        right = float((found.argmax(axis=1) == self._data.targets).mean())
        loss = -float(np.log(found[np.arange(len(found)), self._data.targets] + 1e-12).mean())
        return State(weights, (*state.accuracy, right), (*state.loss, loss))


# in virtual time, on recorded workers


@dataclass(frozen=True)
class Way:
    """A code and a policy."""

    code: Callable[[], ec.codes.Code]
    policy: Policy | None
    unbiased: bool = True


WAYS = {
    "uncoded, exact": Way(lambda: uncoded(parts=256), None),
    "repetition, 8 copies apart, exact": Way(lambda: fractional_repetition(rows=256, load=8, apart=True), None),
    "graph, 4 copies, exact": Way(lambda: graph(parts=128, load=4, rng=_rng()), None),
    "graph, 4 copies, residual 0.1": Way(lambda: graph(parts=128, load=4, rng=_rng()), Residual(0.1)),
    "uncoded, deadline learnt": Way(lambda: uncoded(parts=256), Deadline("auto")),
    "uncoded, quorum of 95 %": Way(lambda: uncoded(parts=256), Quorum(0.95)),
    "uncoded, 95 %, the rest dropped": Way(lambda: uncoded(parts=256), Quorum(0.95), unbiased=False),
}


def _rng() -> np.random.Generator:
    return np.random.default_rng(1)


@cache
def profile(parts: int) -> ec.Profile:
    """Return the recorded workers for data in so many parts: a part of twice the data takes twice as long on top."""
    from echelon.files import read_times

    known = read_profile(LAMBDA)
    table = read_times(LAMBDA.with_name("lambda.npz"), "cnn")
    return ec.Profile(known.workload, table.profiled(parts=parts))


@dataclass(frozen=True)
class Run:
    """What a training showed: when each step was taken, test accuracy and loss after it, and its residuals."""

    times: list[float]
    accuracy: tuple[float, ...]
    loss: tuple[float, ...]
    residuals: list[float]
    rounds: list[float]

    def reached(self, share: float) -> float:
        """Return when so many test samples were right."""
        return next((at for at, right in zip(self.times, self.accuracy, strict=True) if right >= share), np.inf)


def trained(stream: ec.Stream, path: Path, data: Digits, rounds: int, **settings: Any) -> Run:
    """Train on a stream with this record."""
    with stream:
        done = stream.submit(Training(data, rounds, **settings)).delivery()
    assert done.error is None, done.error
    seen = read_record(path).rounds
    return Run(
        [one.end for one in seen], done.result.accuracy, done.result.loss, [one.residual for one in seen],
        [one.end - one.start for one in seen[1:]],
    )  # fmt: skip


@cache
def virtual(name: str, seed: int) -> Run:
    """Train on the recorded workers; which recorded round is the first follows from the seed."""
    way = WAYS[name]
    code = way.code()
    plan = coded_rows(code, [1] * code.rows)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "record"
        stream = ec.Stream("virtual", emulate=profile(code.parts), seed=seed, record=path, progress=False)
        unbiased = way.unbiased and way.policy is not None
        data = digits(seed, code.parts)
        return trained(stream, path, data, ROUNDS, plan=plan, ending=way.policy, unbiased=unbiased)


def recorded() -> str:
    """Return the table of trainings on recorded workers."""
    rows = []
    for name in WAYS:
        runs = [virtual(name, seed) for seed in SEEDS]
        rows.append(
            [
                name,
                f"{mean(run.times[-1] for run in runs):.1f}",
                f"{mean(map(mean, (run.residuals for run in runs))):.3f}",
                f"{100 * mean(run.accuracy[-1] for run in runs):.2f}",
                f"{mean(run.loss[-1] for run in runs):.4f}",
                f"{mean(run.reached(REACHED) for run in runs):.1f}",
            ]
        )
    head = ["code and ending", "seconds", "mean residual", "test accuracy (%)", "test loss", f"s to {REACHED:.0%}"]
    return (
        f"Softmax regression on digits, {ROUNDS} steps on 256 recorded workers (`examples/lambda`, cnn) in virtual "
        f"time; means of {len(SEEDS)} seeds, which shuffle the samples and choose the first recorded round. Codes over "
        "128 parts have twice the data in each.\n\n" + markdown_table(head, rows)
    )


def picture(path: Path) -> None:
    """Draw test loss against time."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.0, 4.2), layout="constrained")
    colours = ["#000000", "#0072B2", "#56B4E9", "#009E73", "#D55E00", "#E69F00", "#CC79A7"]
    for name, colour in zip(WAYS, colours, strict=True):
        run = virtual(name, SEEDS[0])
        axes.plot(run.times, run.loss, color=colour, label=name, linestyle="-" if "exact" in name else "--")
    axes.set_xlabel("seconds")
    axes.set_ylabel("loss on test samples")
    axes.set_yscale("log")
    axes.set_title("Digits on 256 recorded workers: loss against time", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


# live


ENDINGS: dict[str, Policy | None] = {
    "exact": None,
    "residual 0.01": Residual(0.01),
    "residual 0.4": Residual(0.4),
    "deadline": Deadline(2.0 * PART_S * 2),
    "deadline, with 75 % at least": Deadline(1.5 * PART_S * 2) & Quorum(0.75),
}


def live_plan() -> CodedPlan:
    """Return the plan of the live runs: each worker sends the sum of two chunks, each chunk has two copies."""
    return coded_rows(balanced(rows=WORKERS, parts=PARTS, load=2, rng=_rng()), [1] * WORKERS)


def live() -> str:
    """Return the table of live trainings."""
    law = equal(WORKERS, "straggler", 0.9, link=0.02, **SLOW)
    emulated = cluster(PARTS, law).scaled(PART_S)
    laws = task_laws(emulated)
    links = [worker.link for worker in emulated.workers]
    exact: dict[int, float] = {}
    rows = []
    for name, policy in ENDINGS.items():
        plan = live_plan() if policy is None else live_plan().ended(policy)
        predicted = simulate_rounds(plan, laws, links=links, rounds=20_000).mean
        runs = []
        for seed in SEEDS:
            with TemporaryDirectory() as folder:
                path = Path(folder) / "record"
                stream = ec.Stream(
                    "processes", emulate=emulated, seed=seed, record=path, patience_s=1e9, progress=False
                )
                data = digits(seed, PARTS)
                runs.append(
                    trained(
                        stream, path, data, LIVE_ROUNDS, plan=live_plan(), ending=policy, unbiased=policy is not None
                    )
                )
        exact = exact or {seed: run.accuracy[-1] for seed, run in zip(SEEDS, runs, strict=True)}
        points = [100 * (run.accuracy[-1] - exact[seed]) for seed, run in zip(SEEDS, runs, strict=True)]
        taken = [seconds for run in runs for seconds in run.rounds]
        error = float(np.std(taken) / len(taken) ** 0.5)
        rows.append(
            [
                name,
                f"{1e3 * mean(taken):.1f} ± {1e3 * error:.1f}",
                f"{1e3 * predicted:.1f}",
                f"{100 * (mean(taken) / predicted - 1):+.1f} %",
                f"{mean(map(mean, (run.residuals for run in runs))):.3f}",
                f"{100 * mean(run.accuracy[-1] for run in runs):.2f}",
                " ".join(f"{value:+.2f}" for value in points),
            ]
        )
    head = ["ending", "a round (ms)", "predicted (ms)", "off by", "mean residual", "accuracy (%)", "points off exact"]
    return (
        f"Live: {WORKERS} processes, two chunks each and two copies of each chunk; a chunk takes {1e3 * PART_S:g} ms, "
        "five times as long in one of ten rounds; nothing is given out twice. "
        f"{LIVE_ROUNDS} steps, {len(SEEDS)} seeds; predicted by `simulate_rounds`; ± is one standard error. Wanted: "
        f"{WANTED_POINTS:g} points and {WANTED_OFF:.0%} at most."
        "\n\n" + markdown_table(head, rows)
    )


def report() -> str:
    return recorded() + "\n\n" + live()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.policies", description=__doc__)
    parser.add_argument("--picture", type=Path, help="draw test loss against time, instead of measuring")
    given = parser.parse_args()
    if given.picture is None:
        print(report())
    else:
        picture(given.picture)


if __name__ == "__main__":
    main()
