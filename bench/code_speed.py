"""Speed of decoding: weights, combination, encoding, each next to the bare operation that bounds it."""

import numpy as np

from bench.results import markdown_table
from bench.timing import best_of
from echelon.codes import Code, Decoder, combine, mds, reed_solomon

MESSAGES, LENGTH = 50, 10**7


def report() -> str:
    return "\n\n".join([_weights(), _combination(), _encoding()])


def _weights() -> str:
    rows = []
    for n, s, wanted in ((1100, 100, "≥ 20 × lstsq"), (55, 5, "≤ 60 µs")):
        # real rows of a random subspace with the all-one vector: as hard as any gradient code of this size
        rng = np.random.default_rng(1)
        matrix = rng.standard_normal((n, n - s)) / np.sqrt(n - s)
        code = Code(matrix=matrix, target=np.ones((1, n - s)), threshold=n - s, counting=True)
        decoder = Decoder(code)
        patterns = [np.setdiff1d(np.arange(n), rng.choice(n, s, replace=False)) for _ in range(40)]
        left = iter(patterns * 100)

        def fresh(decoder=decoder, left=left):
            decoder._known.clear()
            decoder.weights(next(left))

        received = patterns[0]
        took = best_of(
            {
                "ours": fresh,
                "lstsq": lambda matrix=matrix, received=received, size=n - s: np.linalg.lstsq(
                    matrix[received].T, np.ones(size), rcond=None
                ),
                "seen before": lambda decoder=decoder, received=received: decoder.weights(received),
            },
            repeats=5 if n > 1000 else 200,
        )
        rows.append(
            [
                f"n = {n}, s = {s}",
                f"{took['ours'] * 1e6:,.0f} µs",
                f"{took['seen before'] * 1e6:,.0f} µs",
                f"{took['lstsq'] * 1e6:,.0f} µs",
                f"{took['lstsq'] / took['ours']:.0f}",
                wanted,
            ]
        )
    return markdown_table(
        ["weights for a pattern", "ours", "seen before", "numpy lstsq", "lstsq / ours", "wanted"], rows
    )


def _combination() -> str:
    rng = np.random.default_rng(1)
    table = np.empty((MESSAGES, LENGTH))
    for row in table:
        row[:] = rng.standard_normal(LENGTH)
    messages = list(table)
    weights = rng.standard_normal((1, MESSAGES))
    out = np.empty((1, LENGTH))
    took = best_of(
        {"ours": lambda: combine(weights, messages, out), "read": lambda: np.sum(table)},
        repeats=3,
    )
    rows = [
        [
            f"{MESSAGES} messages of {LENGTH:,} float64",
            f"{took['ours'] * 1e3:,.0f} ms",
            f"{took['read'] * 1e3:,.0f} ms",
            f"{took['ours'] / took['read']:.2f}",
            "≤ 1.3",
        ]
    ]
    table = markdown_table(["combination", "ours", "numpy.sum of the same", "ratio", "wanted"], rows)
    return f"{table}\n\nThe combination goes through BLAS, which may use several cores; the sum uses one."


def _encoding() -> str:
    code = mds(parts=100, rows=120, rng=np.random.default_rng(1))
    blocks = np.random.default_rng(1).standard_normal((100, 200, 1000))
    parity = np.ascontiguousarray(code.matrix[100:])
    flat = blocks.reshape(100, -1)
    took = best_of({"ours": lambda: code.encode(blocks), "product": lambda: parity @ flat}, repeats=7)
    gradient = reed_solomon((np.arange(40)[None, :] - np.arange(40)[:, None]) % 40 < 10)
    small = best_of({"ours": lambda: Decoder(gradient)}, repeats=5)
    rows = [
        [
            "100 + 20 blocks of 200 by 1000",
            f"{took['ours'] * 1e3:,.1f} ms",
            f"{took['product'] * 1e3:,.1f} ms",
            f"{took['ours'] / took['product']:.2f}",
            "≤ 1.5",
        ]
    ]
    return "\n\n".join(
        [
            markdown_table(["encoding", "ours", "the plain product it needs", "ratio", "wanted"], rows),
            f"Taking a (40, 10) gradient code apart once: {small['ours'] * 1e3:.1f} ms.",
        ]
    )
