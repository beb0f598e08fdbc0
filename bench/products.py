"""Chains of products: what coding costs the master, how near live rounds are to the ideal, what coding gains."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import echelon as ec
from bench.results import markdown_table
from echelon.clusters.shipping import Packed
from echelon.codes import Decoder
from echelon.codes.products import assemble_product
from echelon.delays import Delay, Deterministic, Straggler
from echelon.products.factors import coded_pair
from echelon.schemes import (
    Sequential,
    Window,
    diagonal_interleaved,
    improved_diagonal_interleaved,
    polynomial_products,
    uncoded_products,
)
from echelon.stragglers import Arbitrary
from echelon.stream import read_record

WORKERS, SIZE, REPEATS = 4, 4096, 5
BASE_S, SLOW_SHARE, SLOWDOWN = 0.2, 0.3, 5.0
TOLERANCE = 0.1
PRODUCTS = 200
SHAPE = (120, 100, 90)  # factors small enough for real work to hide in emulated times


def report() -> str:
    return "\n\n".join([_coding(), _gains(), _rounds()])


# what coding costs the master


def _coding() -> str:
    scheme = diagonal_interleaved(WORKERS, x=2, y=3, delay=3)
    code, rng = scheme.code, np.random.default_rng(1)
    first, second = (rng.standard_normal((SIZE, SIZE), dtype=np.float32) for _ in range(2))
    height, width = -(-SIZE // 2), -(-SIZE // 3)
    messages = [rng.standard_normal((height, width), dtype=np.float32) for _ in range(code.threshold)]
    plain, coded = list(range(code.systematic)), list(range(code.systematic, code.systematic + code.threshold))
    decoder = Decoder(code)
    few = [*plain[:4], *coded[:2]]

    def decode(rows: list[int]) -> Callable[[], object]:
        weights = decoder.weights(rows)
        return lambda: assemble_product(code, weights, messages, (SIZE, SIZE))

    works: dict[str, Callable[[], object]] = {
        "product": lambda: first @ second,
        "encode": lambda: coded_pair(code, coded[0], first, second),
        "decode plain": decode(plain),
        "decode few": decode(few),
        "decode coded": decode(coded),
        "send": lambda: (Packed(first), Packed(second)),
    }
    taken = _interleaved(works)
    given = _coded_rows(scheme)
    rows = []
    for name, count, decoding in (
        ("no straggler", given[0], "decode plain"),
        (f"slow in {100 * SLOW_SHARE:g} % of rounds, mean", given[1], "decode few"),
        ("nothing but coded results", float(code.threshold), "decode coded"),
    ):
        cost = count * taken["encode"] + taken[decoding]
        rows.append(
            [
                name,
                f"{count:.1f}",
                f"{1e3 * count * taken['encode']:.0f}",
                f"{1e3 * taken[decoding]:.0f}",
                f"{100 * cost / taken['product']:.0f} %",
            ]
        )
    columns = ["stragglers", "coded rows a product", "encoding (ms)", "decoding (ms)", "of a product's time"]
    return (
        f"A product of {SIZE}³ in float32 by one process takes {1e3 * taken['product']:.0f} ms; x = 2, y = 3, delay 3, "
        f"{WORKERS} workers; median of {REPEATS}, taken in turns. Sending both factors, which is one copy each, takes "
        f"{1e3 * taken['send']:.0f} ms. Wanted: encoding and decoding of all that a product needs in at most 20 % of "
        "its time.\n\n" + markdown_table(columns, rows)
    )


def _interleaved(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median time of each work; they take turns, so that noise affects all alike."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(REPEATS):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def _coded_rows(scheme: Sequential, products: int = 2000) -> tuple[float, float]:
    """Return how many coded rows a product gets, without stragglers and with them."""
    found = []
    for share in (0.0, SLOW_SHARE):
        rng, window, count = np.random.default_rng(1), Window(scheme), 0
        for product in range(products):
            plan = window.open(product)
            assert plan is not None
            count += sum(task.row >= scheme.code.systematic for lane in plan.lanes for task in lane)
            slow = rng.random(scheme.workers) < share
            came = [(t.slot, t.row) for lane, late in zip(plan.lanes, slow, strict=True) if not late for t in lane]
            # the round waits for the due product
            assert plan.ending is not None
            due = [(t.slot, t.row) for lane in plan.lanes for t in lane if t.slot in plan.ending.due]
            came += [at for at in due if at not in came]
            counts = np.bincount([slot for slot, _ in came], minlength=len(plan.slots))
            window.close(came, [s for s, slot in enumerate(plan.slots) if counts[s] >= slot.threshold])
        found.append(count / products)
    return found[0], found[1]


# live


def _gains() -> str:
    law = Straggler(base=Deterministic(time=BASE_S), probability=SLOW_SHARE, slowdown=SLOWDOWN)
    schemes = {
        "polynomial code (2 of 4)": polynomial_products(WORKERS, x=2, y=1),
        "uncoded": uncoded_products(WORKERS),
        "DIP (x y = 6, T = 3)": diagonal_interleaved(WORKERS, x=2, y=3, delay=3, tolerance=TOLERANCE),
        "IDIP (N = 10, W = 4)": improved_diagonal_interleaved(
            WORKERS, Arbitrary(count=10, window=4), tolerance=TOLERANCE
        ),
    }
    measured = {name: _live(scheme, law, "straggler", PRODUCTS) for name, scheme in schemes.items()}
    base = next(iter(schemes))
    rows = []
    for name, (taken, ideal, error) in measured.items():
        ratio, wanted = taken.sum() / measured[base][0].sum(), ideal.sum() / measured[base][1].sum()
        rows.append(
            [
                name,
                f"{1e3 * taken.sum() / PRODUCTS:.1f}",
                f"{1e3 * ideal.sum() / PRODUCTS:.1f}",
                f"{100 * (taken.sum() / ideal.sum() - 1):+.1f} %",
                f"{ratio:.3f}",
                f"{wanted:.3f}",
                f"{100 * (ratio / wanted - 1):+.1f} %",
                f"{error:.1e}",
            ]
        )
    columns = ["scheme", "a product (ms)", "predicted (ms)", "off by", "ratio", "predicted", "off by", "error"]
    return (
        f"{WORKERS} emulated processes, a whole product takes a worker {1e3 * BASE_S:g} ms, {SLOWDOWN:g} times as long "
        f"in {100 * SLOW_SHARE:g} % of the rounds; {PRODUCTS} products in float64, mu = {TOLERANCE:g}. Predicted: the "
        "simulator on the paces that the workers drew; the first round, in which they import, is left out. Wanted: "
        "ratios within 10 % and products right to 1e-8.\n\n" + markdown_table(columns, rows)
    )


def _rounds() -> str:
    law = Deterministic(time=BASE_S)
    rows = []
    for name, scheme in (
        ("polynomial code (2 of 4)", polynomial_products(WORKERS, x=2, y=1)),
        ("DIP (x y = 6, T = 3)", diagonal_interleaved(WORKERS, x=2, y=3, delay=3, tolerance=TOLERANCE)),
    ):
        taken, ideal, _ = _live(scheme, law, "deterministic", 100)
        more = 1e3 * (taken - ideal)
        rows.append([name, f"{1e3 * ideal.mean():.1f}", f"{np.median(more):.2f}", f"{more.mean():.2f}"])
    columns = ["scheme", "ideal round (ms)", "more, median (ms)", "more, mean (ms)"]
    return (
        "The same workers without stragglers: how much longer a round takes, from one start to the next, than the "
        "ideal one. Wanted: at most 5 ms.\n\n" + markdown_table(columns, rows)
    )


def _live(scheme: Sequential, law: Delay, name: str, products: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return how long rounds took, start to start, how long they ideally take, and the largest error."""
    rng = np.random.default_rng(1)
    rows, inner, columns = SHAPE
    fixed = rng.standard_normal((rows, inner))
    others = [rng.standard_normal((inner, columns)) for _ in range(products)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with ec.MatmulStream("processes", scheme, emulate=_profile(law, name), record=path, seed=1) as stream:
            kept = stream.keep(fixed)
            found = list(stream.products((kept, other) for other in others))
        rounds = read_record(path).rounds
    error = max(float(np.abs(got - fixed @ other).max()) for got, other in zip(found, others, strict=True))
    starts = np.array([seen.start for seen in rounds] + [rounds[-1].end])
    ideal = ec.simulation.simulate_chain(scheme, law, products=products, seed=1).durations[0, : len(rounds)]
    return np.diff(starts)[1:], ideal[1:], error


def _profile(law: Delay, name: str) -> ec.Profile:
    parameters = {"probability": SLOW_SHARE, "slowdown": SLOWDOWN} if name == "straggler" else {}
    worker = {"mean": law.mean, "std": law.std, "law": name, "parameters": parameters}
    job = ec.Workload(critical=1, redundancy=1.0, iterations=1, arrivals=ec.Arrivals.poisson(1e-3))
    return ec.Profile(job, [ec.Worker(f"w{place}", **worker) for place in range(WORKERS)])


if __name__ == "__main__":
    print(report())
