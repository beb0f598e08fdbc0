"""Layers of networks as blocks: measured costs, the levels that suit them, and eight processes that train with them."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import echelon as ec
from bench.results import markdown_table
from echelon.blocks import LayerCosts, LayerLevels, optimise_layers
from echelon.stream import read_record

WORKERS = 8
SHIFT_S, RATE = 0.01, 20.0  # seconds that a chunk's whole gradient takes, and per second
LAW = ec.delays.ShiftedExponential(shift=SHIFT_S, rate=RATE)
ITERATIONS = 200
SAMPLES = 32  # per chunk; the emulated time must far exceed what two cores really need
STEP = 0.3


def report() -> str:
    import torch  # not at the top: it loads slowly

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as on the workers
    try:
        return _report()
    finally:
        torch.set_num_threads(threads)


def _report() -> str:
    networks = {"perceptron 64-256-256-10": _perceptron, "two convolutions, two dense": _convolutions}
    costs, live, said, alone = [], [], [], []
    for name, make in networks.items():
        measured = _layers(make).measure(_chunks()[0], repeats=200)
        found = optimise_layers(WORKERS, measured, LAW)
        costs.append([name, *_columns(measured)])
        said.append(f"- {name}: {found.why}.")
        live += _live(name, make, measured, found)
        apart = _apart(_plain(make, _whole(_chunks())), _plain(make, _chunks()))
        alone.append(f"{apart:.1e} ({name})")
    larger = []
    for name, make in {
        "perceptron 784-3000-3000-10, 128 samples": _wide_perceptron,
        "two convolutions, two dense, 224 samples": _convolutions,
        "VGG-like, six convolutions and two dense, 8 samples of 32x32": _vgg,
    }.items():
        measured = _layers(make).measure(_samples(make), repeats=5)
        found = optimise_layers(WORKERS, measured, LAW)
        costs.append([name, *_columns(measured)])
        larger.append([name, *_predicted(found)])
        said.append(f"- {name}: {found.why}.")
    columns = [
        "scheme",
        "levels",
        "measured (ms)",
        "predicted (ms)",
        "off by",
        "gain",
        "predicted",
        "gradient",
        "weights",
    ]
    return (
        "What passes over one chunk cost on one thread of this machine, in % of its whole gradient; layers in the "
        "order of back-propagation, weights beyond the delta.\n\n"
        + markdown_table(["network", "gradient (ms)", "forward", "deltas", "weights"], costs)
        + f"\n\nEight emulated processes, one pace a round of {1e3 * SHIFT_S:g} ms + Exp(mean {1e3 / RATE:g} ms) for "
        f"the whole gradient of a chunk; digits, {SAMPLES} samples a chunk, {ITERATIONS} iterations on the same paces, "
        "the first left out; ± is one standard error. Gain: over the best single block. Gradient: largest error of any "
        "iteration's gradient, against torch alone at the same weights; weights: how far they are in the end from "
        "those of one process that uses torch alone, chunk by chunk; both in float32, as shares of the largest entry. "
        "Wanted: within 7 % of the prediction, gradients to 1e-5.\n\n"
        + markdown_table(["network", *columns], live)
        + "\n\nRounding is amplified where a ReLU or a maximum turns from one side to the other. Torch in one process "
        "differs from itself, chunk by chunk against all samples at once, by "
        + "; ".join(alone)
        + "."
        + "\n\nLarger networks and chunks, predicted from measured costs, on the same workers.\n\n"
        + markdown_table(["network", "levels", "best (ms)", "single (ms)", "uncoded (ms)", "gain over single"], larger)
        + "\n\nWhat the search says:\n\n"
        + "\n".join(said)
    )


def _columns(costs: LayerCosts) -> list[str]:
    def shares(values: tuple[float, ...]) -> str:
        return " ".join(f"{100 * value / costs.total:.0f}" for value in values)

    return [f"{1e3 * costs.total:.2f}", shares((costs.forward,)), shares(costs.deltas), shares(costs.weights)]


def _predicted(found: LayerLevels) -> list[str]:
    times = [f"{1e3 * time:.1f}" for time in (found.expected, found.single, found.uncoded)]
    return [" ".join(map(str, found.levels)), *times, f"{100 * found.gain:.1f} %"]


def _live(name: str, make: Callable, costs: LayerCosts, found: LayerLevels) -> list[list[str]]:
    layers = costs.layers
    schemes = {
        "best levels": found.levels,
        "single block": (found.single_level,) * layers,
        "uncoded": (0,) * layers,
        # codes of levels 0 and N - 1 have no coefficients but 1, which leave nothing for decoding to round
        "levels in between": tuple(np.linspace(1, WORKERS - 2, layers).astype(int).tolist()),
    }
    pace, plain, rows = ec.delays.RoundPace(base=LAW), _plain(make, _chunks()), []
    seen, expected = {}, {}
    for scheme, levels in schemes.items():
        plan = ec.schemes.block_coordinate(WORKERS, levels=levels, tasks=costs.tasks(levels))
        expected[scheme] = ec.predict_rounds(plan, pace).mean
        seen[scheme], gradient, weights = _trained(make, plan)
        rows.append((scheme, levels, seen[scheme], gradient, _apart(weights, plain)))
    return [
        [
            name,
            scheme,
            " ".join(map(str, levels)),
            f"{1e3 * times.mean():.1f} ± {1e3 * times.std() / len(times) ** 0.5:.1f}",
            f"{1e3 * expected[scheme]:.1f}",
            f"{100 * (times.mean() / expected[scheme] - 1):+.1f} %",
            f"{100 * (1 - times.mean() / seen['single block'].mean()):+.1f} %",
            f"{100 * (1 - expected[scheme] / expected['single block']):+.1f} %",
            f"{gradient:.1e}",
            f"{weights:.1e}",
        ]
        for scheme, levels, times, gradient, weights in rows
    ]


def _trained(make: Callable, plan: ec.schemes.BlockPlan) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the times of all rounds, the largest error of a gradient, and the weights that training ends with."""
    recovered = []

    def update(state: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        recovered.append((state, gradient))
        return state - STEP / (WORKERS * SAMPLES) * gradient

    job = _layers(make).job(plan=plan, chunks=_chunks(), update=update, iterations=ITERATIONS)
    worker = {"mean": SHIFT_S + 1 / RATE, "std": 1 / RATE, "law": "round_pace"}
    stream_job = ec.Workload(critical=1, redundancy=1.0, iterations=ITERATIONS, arrivals=ec.Arrivals.poisson(1e-3))
    profile = ec.Profile(stream_job, [ec.Worker(f"w{p}", **worker) for p in range(WORKERS)])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with ec.Stream(emulate=profile, adapt=False, record=path) as stream:
            weights = stream.submit(job).result()
        rounds = read_record(path).rounds[1:]  # in the first one workers import what they need
    model, loss = _network(make)
    layers, errors = _by_layers(model, loss), []
    for state, gradient in recovered:
        layers.load(state)
        _backward(model, loss, _chunks())
        errors.append(_apart(gradient, _gradient(model)))
    return np.array([seen.end - seen.start for seen in rounds]), max(errors), weights


def _plain(make: Callable, chunks: list) -> np.ndarray:
    """Return the weights of one process that trains by torch alone, chunk by chunk."""
    import torch

    model, loss = _network(make)
    optimiser = torch.optim.SGD(model.parameters(), lr=STEP / (WORKERS * SAMPLES))
    for _ in range(ITERATIONS):
        _backward(model, loss, chunks)
        optimiser.step()
    return _by_layers(model, loss).state()


def _whole(chunks: list) -> list:
    return [tuple(np.concatenate(some) for some in zip(*chunks, strict=True))]


def _backward(model, loss, chunks: list) -> None:
    """Put the gradient summed over chunks into a model, by torch alone."""
    import torch

    model.zero_grad()
    for inputs, targets in chunks:
        loss(model(torch.from_numpy(inputs)), torch.from_numpy(targets)).backward()


def _gradient(model) -> np.ndarray:
    """Return the gradient in a model, the last layer first."""
    owners = [module for module in model if list(module.parameters())]
    return np.concatenate([weight.grad.numpy().ravel() for module in owners[::-1] for weight in module.parameters()])


def _apart(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def _network(make: Callable) -> tuple:
    import torch

    torch.manual_seed(1)
    return make(torch.nn), torch.nn.CrossEntropyLoss(reduction="sum")


def _layers(make: Callable):
    return _by_layers(*_network(make))


def _by_layers(model, loss):
    from echelon.torch import Layers

    return Layers(model, loss)


def _chunks() -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = (digits.data / 16.0).astype(np.float32)
    return [(pixels[i::WORKERS][:SAMPLES], digits.target[i::WORKERS][:SAMPLES]) for i in range(WORKERS)]


def _samples(make: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Return a chunk of noise for one of the larger networks: what passes cost does not depend on the data."""
    rng = np.random.default_rng(1)
    shape = {_wide_perceptron: (128, 784), _convolutions: (224, 64), _vgg: (8, 3, 32, 32)}[make]
    return rng.random(shape, dtype=np.float32), rng.integers(0, 10, shape[0])


def _perceptron(nn):
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def _convolutions(nn):
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def _wide_perceptron(nn):
    return nn.Sequential(nn.Linear(784, 3000), nn.ReLU(), nn.Linear(3000, 3000), nn.ReLU(), nn.Linear(3000, 10))


def _vgg(nn):
    modules, channels = [], 3
    for width in (32, 64, 128):
        for _ in range(2):
            modules += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        modules.append(nn.MaxPool2d(2))
    return nn.Sequential(*modules, nn.Flatten(), nn.Linear(2048, 512), nn.ReLU(), nn.Linear(512, 10))


if __name__ == "__main__":
    print(report())
