"""Codes of every family, small and large, for tests that hold for all of them."""

import numpy as np

from echelon.codes import (
    CODES,
    Decoder,
    balanced,
    cyclic,
    fractional_repetition,
    graph,
    khatri_rao,
    lagrange,
    mds,
    polynomial,
    reed_solomon,
    short_messages,
    stochastic,
    subspace,
    uncoded,
)
from tests.docstrings import examples_of


def arcs(rows, load):
    return (np.arange(rows)[None, :] - np.arange(rows)[:, None]) % rows < load


def rng():
    return np.random.default_rng(5)


SMALL = {
    "balanced": [
        lambda: balanced(rows=8, parts=4, load=4, rng=rng()),
        lambda: balanced(rows=7, parts=5, load=3, rng=rng()),
    ],
    "cyclic": [lambda: cyclic(rows=6, load=3, rng=rng()), lambda: cyclic(rows=5, load=5, rng=rng())],
    "fractional_repetition": [
        lambda: fractional_repetition(rows=6, load=3),
        lambda: fractional_repetition(rows=4, load=1),
        lambda: fractional_repetition(rows=6, load=2, apart=True),
    ],
    "graph": [
        lambda: graph(parts=6, load=3, rng=rng()),
        lambda: graph(parts=7, load=2, rng=rng()),
        lambda: graph(parts=4, load=3, rng=rng()),
    ],
    "khatri_rao": [lambda: khatri_rao(x=2, y=2, rows=6, rng=rng())],
    "lagrange": [lambda: lagrange(parts=3, degree=2, rows=7), lambda: lagrange(parts=4, degree=1, rows=6)],
    "polynomial": [
        lambda: polynomial(x=2, y=2, rows=7, rng=rng()),
        lambda: polynomial(x=3, y=2, rows=8, rng=rng(), basis="chebyshev"),
        lambda: polynomial(x=2, y=2, rows=6, rng=rng(), basis="monomial"),
        lambda: polynomial(x=1, y=1, z=3, rows=7, rng=rng()),
        lambda: polynomial(x=2, y=1, z=2, rows=7, rng=rng()),
    ],
    "mds": [
        lambda kind=kind: mds(parts=5, rows=8, rng=rng(), parity=kind)
        for kind in ("random", "circle", "chebyshev", "auto")
    ],
    "reed_solomon": [
        lambda: reed_solomon(arcs(7, 3)),
        lambda: reed_solomon(arcs(7, 3), real=True),
        lambda: reed_solomon(arcs(8, 4), real=True),
    ],
    "short_messages": [
        lambda: short_messages(rows=6, critical=4, pieces=2, rng=rng()),
        lambda: short_messages(rows=7, critical=5, pieces=3, rng=rng()),
        lambda: short_messages(rows=5, critical=3, pieces=1, rng=rng()),
        lambda: short_messages(rows=4, critical=4, pieces=4, rng=rng()),
    ],
    "stochastic": [
        lambda: stochastic(rows=6, parts=6, load=2, missing=0.25, rng=rng()),
        lambda: stochastic(rows=5, parts=3, load=3, missing=0.0, rng=rng()),
    ],
    "subspace": [
        lambda: subspace(critical=2, rows=3, parts=3, rng=rng()),
        lambda: subspace(critical=4, rows=6, parts=6, rng=rng()),
        lambda: subspace(critical=3, rows=6, parts=5, load=4, rng=rng()),
    ],
    "uncoded": [lambda: uncoded(parts=4)],
}
LARGE = {
    "balanced": lambda: balanced(rows=40, parts=16, load=5, rng=rng()),
    "cyclic": lambda: cyclic(rows=30, load=5, rng=rng()),
    "fractional_repetition": lambda: fractional_repetition(rows=40, load=10),
    "graph": lambda: graph(parts=20, load=6, rng=rng()),
    "khatri_rao": lambda: khatri_rao(x=4, y=5, rows=28, rng=rng()),
    "lagrange": lambda: lagrange(parts=8, degree=2, rows=20),
    "polynomial": lambda: polynomial(x=4, y=6, rows=30, rng=rng()),
    "mds": lambda: mds(parts=60, rows=70, rng=rng()),
    "reed_solomon": lambda: reed_solomon(arcs(40, 10)),
    "short_messages": lambda: short_messages(rows=24, critical=21, pieces=3, rng=rng()),
    "stochastic": lambda: stochastic(rows=40, parts=20, load=4, missing=0.1, rng=rng()),
    "subspace": lambda: subspace(critical=20, rows=24, parts=24, rng=rng()),
    "uncoded": lambda: uncoded(parts=30),
}
for name in [name for name in CODES if name not in SMALL]:  # a new family: with the codes that its docstring makes
    shown = examples_of(CODES[name])
    SMALL[name] = [lambda code=code: code for code in shown]
    LARGE.update((name, make) for make in SMALL[name][:1])
KNOWN = {name: make() for name, make in LARGE.items()}
ANY_NOISE = 1e8  # what is promised of a set is that it recovers the target; how noisily is another matter
DECODERS = {name: Decoder(code, limit=ANY_NOISE) for name, code in KNOWN.items()}
