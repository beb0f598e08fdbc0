"""Section 5 of the paper on sequential products, live: five small networks trained by real products of four processes.

The processes emulate independent stragglers; times are compared with a simulation of the very same draws. Losses are
compared with those of a training by NumPy alone.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from echelon import plots
from echelon.arrays import FloatArray
from echelon.delays import task_laws
from echelon.papers.claims import BEYOND, Claim, verdict, write_csv
from echelon.papers.sequential_table import SLOWDOWN, WORKERS, baselines, independent_schemes
from echelon.papers.sequential_training import RATES, Images, Network, images, in_turn, loads, networks, plain, train
from echelon.products import MatmulStream
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.schemes import Sequential
from echelon.simulation import simulate_chain
from echelon.stream import read_record

LAYERS, BATCH = (784, 256, 256, 10), 64
ITERATIONS = 3
BASE_S = 0.1  # that a product of mean load takes a worker that does not straggle
PROBABILITY = 0.3
TOLERANCE = 0.25
DOUBLE, SINGLE = 1e-8, 1e-4  # relative differences of losses that are allowed, in float64 and float32


def profile(base_s: float) -> Profile:
    """Return four workers with independent stragglers and otherwise constant times, for products of mean load."""
    mean = base_s * (1 + PROBABILITY * (SLOWDOWN - 1))
    second = base_s**2 * (1 + PROBABILITY * (SLOWDOWN**2 - 1))
    slow = {"probability": PROBABILITY, "slowdown": SLOWDOWN}
    std = (second - mean**2) ** 0.5
    job = Workload(critical=1, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0))
    workers = [Worker(f"w{p + 1}", mean=mean, std=std, law="straggler", parameters=slow) for p in range(WORKERS)]
    return Profile(job, workers)


def trained(
    scheme: Sequential,
    data: Images,
    *,
    cluster: str,
    iterations: int,
    seed: int,
    dtype: Any = np.float64,
    **options: Any,
) -> list[Network]:
    """Return the networks after a training by a stream of products."""
    made = networks(LAYERS, seed, dtype=dtype)
    trainings = [train(network, data, BATCH, iterations) for network in made]
    with MatmulStream(cluster, scheme, seed=seed, **options) as stream:
        for _ in stream.products(in_turn(trainings)):
            pass
    return made


def reference(data: Images, *, iterations: int, seed: int, dtype: Any = np.float64) -> list[Network]:
    """Return the networks after a training by NumPy alone."""
    made = networks(LAYERS, seed, dtype=dtype)
    for network in made:
        plain(train(network, data, BATCH, iterations))
    return made


def difference(ours: list[Network], plain_ones: list[Network]) -> float:
    """Return the largest relative difference of any loss of any network."""
    losses = np.array([network.losses for network in ours])
    return float(np.abs(losses / np.array([network.losses for network in plain_ones]) - 1).max())


def emulated(scheme: Sequential, data: Images, seed: int) -> tuple[FloatArray, FloatArray, list[Network]]:
    """Return how long each round took and should take by the same draws, and the networks that came out."""
    one = loads(LAYERS, BATCH)
    known = profile(BASE_S)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        made = trained(
            scheme,
            data,
            cluster="processes",
            iterations=ITERATIONS,
            seed=seed,
            emulate=known,
            unit=float(one.mean()),
            record=path,
        )
        rounds = read_record(path).rounds
    measured = np.array([each.end - each.start for each in rounds])
    costs = np.tile(np.repeat(one / one.mean(), len(RATES)), ITERATIONS)
    predicted = simulate_chain(scheme, task_laws(known), loads=costs, seed=seed).durations[0]
    return measured, predicted, made


def live(folder: Path, seed: int) -> list[Claim]:
    """Train by real products; compare times with predictions, and losses with those of NumPy."""
    data = images(ITERATIONS * BATCH, 500, seed)
    plain_ones = reference(data, iterations=ITERATIONS, seed=seed)
    schemes = {**baselines(), **independent_schemes(TOLERANCE, "due")}
    rows: list[list[object]] = []
    times: dict[str, tuple[float, float]] = {}
    over: list[FloatArray] = []
    drawn, axes = plots.figure(2, height=2.6)
    for name, scheme in schemes.items():
        measured, predicted, made = emulated(scheme, data, seed)
        # in the first round workers import what they need; at the end nothing may be left for a last one
        count = min(len(measured), len(predicted))
        measured, predicted = measured[1:count], predicted[1:count]
        times[name] = float(measured.sum()), float(predicted.sum())
        over.append(measured - predicted)
        rows.append([name, len(measured), *times[name], 1e3 * np.median(over[-1]), difference(made, plain_ones)])
        axes[0].plot(measured.cumsum(), linewidth=1, label=name)
        axes[0].plot(predicted.cumsum(), linewidth=1, linestyle=":", color="black")
        axes[1].plot(1e3 * over[-1], linewidth=0.8, label=name)
    axes[0].set_ylabel("seconds; dotted: predicted")
    axes[1].set_ylabel("ms above prediction")
    for axis in axes:
        axis.set_xlabel("round")
        axis.legend(frameon=False, fontsize=8)
    plots.save(drawn, folder / "live.png")
    columns = ["scheme", "rounds", "measured_s", "predicted_s", "median_ms_over", "loss_difference"]
    write_csv(folder / "live.csv", columns, rows)
    double = max(float(str(row[-1])) for row in rows)
    single = _single_precision(folder, seed, schemes)
    poly = times["polynomial"]
    told = [
        f"{name} {measured / poly[0]:.3f} ({predicted / poly[1]:.3f})"
        for name, (measured, predicted) in times.items()
        if name != "polynomial"
    ]
    off = {name: measured / predicted - 1 for name, (measured, predicted) in times.items()}
    late = np.concatenate(over)
    return [
        Claim(
            "Section 5, live",
            "ratios to the polynomial code where four processes multiply, mu = 0.25, our waiting rule",
            "uncoded 1.974, DIP 0.632, IDIP 0.757",
            ", ".join(told) + "; in brackets as predicted",
            BEYOND,
            f"{ITERATIONS} iterations of five networks {'-'.join(map(str, LAYERS))}, emulated stragglers, "
            f"{1e3 * BASE_S:g} ms for a product of mean load; so short a run has ratios of its own, which the "
            "simulation of the same draws tells",
        ),
        Claim(
            "Section 5, live",
            "measured times agree with the simulation",
            "not claimed",
            ", ".join(f"{name} {value:+.1%}" for name, value in off.items())
            + f"; {1e3 * np.median(late):.1f} ms a round in the median",
            BEYOND,
            "the same draws in both, the first round left out; what is over is messages, encoding and decoding, of "
            f"rounds that take {1e3 * poly[1] / max(1, len(over[1])):.0f} ms by the polynomial code on average",
        ),
        Claim(
            "Section 5",
            "coded training computes what plain training does",
            "implied",
            f"losses differ by {double:.0e} at most, in float64",
            verdict(double <= DOUBLE),
            f"relative, for all five networks, {len(schemes)} schemes and {ITERATIONS} iterations ({data.name}), with "
            f"emulated stragglers; allowed is {DOUBLE:g}",
        ),
        Claim(
            "Section 5",
            "coded training computes what plain training does, in float32",
            "not said",
            f"losses differ by {single:.0e} at most",
            verdict(single <= SINGLE),
            f"the same without stragglers; allowed is {SINGLE:g}. Which results come first differs from run to run, "
            "and with it the rounding; where a ReLU of some network then turns to its other side, its loss jumps. "
            "Plain training jumps alike where noise of a millionth is added to its products",
        ),
    ]


def _single_precision(folder: Path, seed: int, schemes: dict[str, Sequential]) -> float:
    """Return the largest relative difference of losses in float32, by threads that nothing slows down."""
    data = images(ITERATIONS * BATCH, 500, seed).astype(np.float32)
    plain_ones = reference(data, iterations=ITERATIONS, seed=seed, dtype=np.float32)
    found = {}
    for name, scheme in schemes.items():
        made = trained(scheme, data, cluster="threads", iterations=ITERATIONS, seed=seed, dtype=np.float32)
        found[name] = difference(made, plain_ones)
    write_csv(folder / "single_precision.csv", ["scheme", "loss_difference"], [list(row) for row in found.items()])
    return max(found.values())
