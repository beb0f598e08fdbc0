"""Measured errors of decoding: real numbers through every family, over many patterns of losses."""

from collections.abc import Callable, Iterator

import numpy as np

from bench.results import markdown_table
from echelon.codes import Code, Decoder, Weights, cyclic, khatri_rao, mds, reed_solomon
from echelon.errors import ArgumentError, NotDecodable

SIZES = [(11, 1), (31, 3), (40, 9), (67, 3), (100, 10), (100, 20), (256, 13)]
RANDOM_PATTERNS = 1000
WIDTH = 32  # numbers in a message
ANY_NOISE = 1e12


def report() -> str:
    families: dict[str, Callable[[int, int], Code]] = {
        "MDS, chosen": lambda n, s: mds(parts=n - s, rows=n, rng=np.random.default_rng(1)),
        "MDS, random parity": lambda n, s: mds(parts=n - s, rows=n, rng=np.random.default_rng(1), parity="random"),
        "MDS, circle": lambda n, s: mds(parts=n - s, rows=n, rng=np.random.default_rng(1), parity="circle"),
        "gradient, roots of unity": lambda n, s: reed_solomon(_arcs(n, s + 1)),
        "gradient, real twin": lambda n, s: reed_solomon(_arcs(n, s + 1), real=True),
        "gradient, cyclic random": lambda n, s: cyclic(rows=n, load=s + 1, rng=np.random.default_rng(1)),
    }
    rows = []
    for name, make in families.items():
        for n, s in SIZES:
            try:
                rows.append([name, f"({n}, {s})", *_errors(make(n, s))])
            except (ArgumentError, NotDecodable) as error:
                rows.append([name, f"({n}, {s})", "refused: " + str(error).split(":")[0], "", "", ""])
    product = khatri_rao(x=8, y=12, rows=120, rng=np.random.default_rng(1))
    waits = [0]
    errors = _errors(product, limit=product.limit, waits=waits)
    rows.append(["products, separable random, 96 parts", "(120, 24)", *errors])
    rows.append(["the same, never waiting for a row", "(120, 24)", *_errors(product)])
    columns = ["code", "(n, s)", "float64 median", "float64 worst", "float32 median", "float32 worst"]
    return "\n\n".join(
        [
            f"Largest error of {WIDTH} numbers, relative to the largest of them, over {RANDOM_PATTERNS} random "
            "patterns of s losses out of n rows and all patterns of s consecutive ones.",
            markdown_table(columns, rows),
            f"Separable random rows, where noise would be amplified more than {product.limit:g} times, wait for one "
            f"more row: {waits[0]} rows in {RANDOM_PATTERNS + product.rows} patterns.",
        ]
    )


def _arcs(rows: int, load: int) -> np.ndarray:
    return (np.arange(rows)[None, :] - np.arange(rows)[:, None]) % rows < load


def _patterns(rows: int, lost: int) -> Iterator[np.ndarray]:
    draw = np.random.default_rng(2)
    for start in range(rows):
        yield (start + np.arange(lost)) % rows
    for _ in range(RANDOM_PATTERNS):
        yield draw.choice(rows, lost, replace=False)


def _errors(code: Code, *, limit: float = ANY_NOISE, waits: list[int] | None = None) -> list[str]:
    """Return the errors over all patterns; where the decoder refuses, a lost row arrives, counted in `waits`."""
    parts = np.random.default_rng(3).standard_normal((code.parts, WIDTH))
    truth = np.tensordot(code.target, parts, axes=1)
    wide = np.stack(code.encode(parts))
    narrow = wide.astype(np.complex64 if np.iscomplexobj(wide) else np.float32)
    decoder = Decoder(code, limit=limit)
    errors: dict[str, list[float]] = {"wide": [], "narrow": []}
    for gone in _patterns(code.rows, code.rows - code.threshold):
        weights, more = _weights(decoder, code.rows, gone)
        if waits is not None:
            waits[0] += more
        for name, messages in (("wide", wide), ("narrow", narrow)):
            got = weights.combine([messages[row] for row in weights.rows])
            errors[name].append(float(np.abs(got - truth).max() / np.abs(truth).max()))
    return [f"{measure(errors[name]):.1e}" for name in errors for measure in (np.median, np.max)]


def _weights(decoder: Decoder, rows: int, gone: np.ndarray) -> tuple[Weights, int]:
    """Return weights, and how many of the lost rows had to arrive for them."""
    more = 0
    while True:
        try:
            return decoder.weights(np.setdiff1d(np.arange(rows), gone[more:])), more
        except NotDecodable:
            if more == len(gone):
                raise
            more += 1
