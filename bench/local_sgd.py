"""Local SGD with a quorum beside a gradient of all workers in every step: a slow network, heavy tails.

In virtual time, so that seconds are exact and the same everywhere: computing, journeys, bytes and stragglers as the
profile says, while the arithmetic is done. One part is a mini-batch of 32 samples, forward and back, for both. Whoever
is first at a test loss is found afterwards.
"""

from collections.abc import Callable
from functools import partial
from statistics import mean
from typing import Any, NamedTuple, TypeVar

import numpy as np

import echelon as ec
from bench.emulated import RARELY
from bench.results import markdown_table

WORKERS, PART = 8, 32  # samples of a part
STEP_S, SPREAD = 0.01, 2.0  # mean of a part; its deviation, in means: Pareto's law, of shape 2.1
LINK_S, BANDWIDTH = 0.05, 1e6  # of a journey; bytes a second, of each link
HIDDEN = 64
TUNED, SEEDS = (101, 102, 103), range(1, 6)
STEPS, ROUNDS, LOCAL = 150, 60, 20  # of synchronous training; of local training, with so many steps each
MOMENTUM = 0.9  # of the optimiser, in both
RATES = (0.1, 0.2, 0.4, 0.8)
LOCAL_RATES = (0.1, 0.2, 0.4)
BATCHES = (WORKERS * PART, 4 * WORKERS * PART)
OUTER = ((0.7, 0.9), (1.0, 0.5), (1.0, 0.0))  # rate and momentum of the outer step; DiLoCo's first
SHARE = 0.75
WANTED = 0.6  # of the time of synchronous training
AWAITED = {"all awaited": {"redundancy": 1.0}, "by default": {}, "redundancy 8/7": {"redundancy": 8 / 7}}
LIVE_STEPS, LIVE_ROUNDS = 40, 10

Curve = list[tuple[float, float]]  # seconds, and test loss after so many


class Local(NamedTuple):
    """A setting of local SGD."""

    rate: float
    outer: tuple[float, float]


class Synchronous(NamedTuple):
    """A setting of synchronous training."""

    rate: float
    batch: int


Setting = TypeVar("Setting", Local, Synchronous)


def report() -> str:
    import torch  # not at the top: it loads slowly

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _report()
    finally:
        torch.set_num_threads(threads)


def _report() -> str:
    every = [Synchronous(rate, batch) for rate in RATES for batch in BATCHES]
    plain = _best(every, lambda setting, seed: _synchronous(setting, seed, **AWAITED["all awaited"]))
    local = _best([Local(rate, outer) for rate in LOCAL_RATES for outer in OUTER], _local)
    seconds = {name: _synchronous(plain, TUNED[0], **how)[-1][0] / STEPS for name, how in AWAITED.items()}
    quickest = min(seconds, key=lambda name: seconds[name])
    rows, ratios = [], []
    for seed in SEEDS:
        curve = _synchronous(plain, seed, **AWAITED["all awaited"])
        wanted = _end(curve)
        times = [
            _reached(curve, wanted),
            _reached(_synchronous(plain, seed, **AWAITED[quickest]), wanted * 1.001),  # decoding rounds
            _reached(_local(local, seed, share=1.0), wanted),
            _reached(_local(local, seed), wanted),
        ]
        ratios.append((times[3] / times[0], times[3] / times[1]))
        rows.append([str(seed), f"{wanted:.4f}", *map(_shown, times), *(f"{r:.2f}" for r in ratios[-1])])
    first, second = (mean(some) for some in zip(*ratios, strict=True))
    rows.append(["mean", "", "", "", "", "", f"{first:.2f}", f"{second:.2f}"])
    head = ["seed", "test loss", "all awaited (s)", f"{quickest} (s)", "local, all awaited (s)",
            f"local, quorum of {SHARE * WORKERS:g} (s)", "ratio to all awaited", f"ratio to {quickest}"]  # fmt: skip
    tried = ", ".join(map(str, RATES)), ", ".join(map(str, LOCAL_RATES)), " and ".join(map(str, BATCHES))
    outer = ", ".join(f"({rate:g}, {momentum:g})" for rate, momentum in OUTER)
    per_step = ", ".join(f"{1e3 * value:.0f} ms {name}" for name, value in seconds.items())
    return (
        f"scikit-learn's digits, a perceptron with {HIDDEN} hidden units; {WORKERS} workers, {1e3 * STEP_S:g} ms for "
        f"{PART} samples on average, by Pareto's law with a deviation of {SPREAD:g} times that; {1e3 * LINK_S:g} ms "
        f"and {BANDWIDTH / 1e6:g} MB/s to the master for each message, and from it for the weights. Virtual seconds "
        f"until the test loss is first what synchronous training has after {STEPS} steps (the mean over the last "
        f"{STEPS // 10}). Both use SGD with momentum {MOMENTUM:g}, tuned on three other seeds by the test loss at the "
        f"end of runs, of {STEPS} steps and {ROUNDS} rounds, about as long: rates {tried[0]} and batches of {tried[2]} "
        f"for synchronous training (chosen: {plain.rate:g}, {plain.batch}); rates {tried[1]} and outer steps (rate, "
        f"momentum) {outer} for local SGD with {LOCAL} steps a round (chosen: {local.rate:g}, {local.outer}). A step "
        f"of synchronous training takes {per_step}. Wanted: a ratio of {WANTED:g} at most.\n\n"
        f"{markdown_table(head, rows)}\n\n{_live(plain, local)}"
    )


def _best(settings: list[Setting], run: Callable[[Setting, int], Curve]) -> Setting:
    """Return the setting whose runs end with the lowest test loss, as a mean over seeds that serve for nothing else."""
    found = {setting: mean(_end(run(setting, seed)) for seed in TUNED) for setting in settings}
    return min(found, key=lambda setting: found[setting])


def _shown(seconds: float) -> str:
    return "never" if seconds == float("inf") else f"{seconds:.2f}"


def _end(curve: Curve) -> float:
    """Return the test loss at the end of a run: the mean of its last tenth, since it goes up and down."""
    return mean(loss for _, loss in curve[-(len(curve) // 10) :])


def _reached(curve: Curve, wanted: float) -> float:
    return next((seconds for seconds, loss in curve if loss <= wanted), float("inf"))


def _profile(*, bandwidth: float = BANDWIDTH) -> ec.Profile:
    job = ec.Workload(critical=WORKERS, redundancy=1.0, iterations=1, arrivals=RARELY)
    workers = [ec.Worker(f"w{p}", mean=STEP_S, std=SPREAD * STEP_S, link=LINK_S, law="pareto") for p in range(WORKERS)]
    return ec.Profile(job, workers, costs=ec.Costs(bandwidth=bandwidth))


class _Task:
    """A model to train, data, and its test loss."""

    def __init__(self, seed: int) -> None:
        import torch
        from sklearn.datasets import load_digits
        from torch import nn

        digits = load_digits()
        order = np.random.default_rng(seed).permutation(len(digits.data))
        inputs, targets = (digits.data / 16).astype(np.float32)[order], digits.target[order]
        cut = len(order) * 4 // 5
        self.data = inputs[:cut], targets[:cut]
        self._test = torch.tensor(inputs[cut:]), torch.tensor(targets[cut:])
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
        self.loss = nn.CrossEntropyLoss()

    def tested(self) -> float:
        import torch

        with torch.no_grad():
            return float(self.loss(self.model(self._test[0]), self._test[1]))


def _synchronous(setting: Synchronous, seed: int, **options: Any) -> Curve:
    with ec.Stream("virtual", emulate=_profile(), seed=seed, progress=False, **options) as stream:
        return _steps(stream, setting, seed, STEPS)


def _steps(stream: ec.Stream, setting: Synchronous, seed: int, count: int) -> Curve:
    import torch

    from echelon.torch import CodedGradient

    task, curve = _Task(seed), []
    optimizer = torch.optim.SGD(task.model.parameters(), lr=setting.rate, momentum=MOMENTUM)
    chunks = setting.batch // PART
    with CodedGradient(
        task.model, task.loss, task.data, stream=stream, batch_size=setting.batch, chunks=chunks, seed=seed
    ) as coded:
        for _ in range(count):
            optimizer.zero_grad()
            coded.backward()
            optimizer.step()
            curve.append((stream.now(), task.tested()))
    return curve


def _local(setting: Local, seed: int, *, share: float = SHARE) -> Curve:
    with ec.Stream("virtual", emulate=_profile(), seed=seed, progress=False) as stream:
        return _rounds(stream, setting, seed, ROUNDS, share=share)


def _rounds(stream: ec.Stream, setting: Local, seed: int, count: int, *, share: float = SHARE) -> Curve:
    import torch

    from echelon.torch import LocalSGD

    task, curve = _Task(seed), []
    rate, momentum = setting.outer
    with LocalSGD(
        task.model, task.loss, task.data, stream=stream, steps=LOCAL, batch_size=PART, seed=seed, quorum=share,
        optimizer=partial(torch.optim.SGD, lr=setting.rate, momentum=MOMENTUM), outer_lr=rate, outer_momentum=momentum,
    ) as local:  # fmt: skip
        for _ in range(count):
            local.round()
            curve.append((stream.now(), task.tested()))
    return curve


def _live(plain: Synchronous, local: Local) -> str:
    """Run a few steps and rounds on processes that take the times of the profile, beside virtual time."""
    free = _profile(bandwidth=1e12)  # bytes take what they take on this machine
    rows = []
    for name, run, count in (
        ("steps, all awaited", partial(_steps, setting=plain), LIVE_STEPS),
        ("rounds of local steps, with a quorum", partial(_rounds, setting=local), LIVE_ROUNDS),
    ):
        seconds = []
        for where in ("processes", "virtual"):
            with ec.Stream(where, emulate=free, seed=TUNED[0], progress=False, redundancy=1.0) as stream:
                curve = run(stream, seed=TUNED[0], count=count)
            seconds.append(curve[-1][0] - curve[0][0])  # workers load torch in the first
        rows.append([f"{count - 1} {name}", *(f"{value:.2f}" for value in seconds)])
    said = "Once on worker processes that take the times of the same laws, without the bandwidth:\n\n"
    return said + markdown_table(["", "live (s)", "virtual (s)"], rows)
