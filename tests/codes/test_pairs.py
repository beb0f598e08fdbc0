"""Sums of two parts: components and their parity, against least squares on every subset of rows."""

from itertools import combinations

import numpy as np
import pytest

from echelon.codes import (
    CODES,
    Code,
    Decoder,
    PairTracker,
    SpanTracker,
    balanced,
    cyclic,
    fractional_repetition,
    graph,
    residual,
    residual_tracker,
    tracker,
    uncoded,
)
from echelon.codes.graph import _connectivity
from echelon.errors import ArgumentError
from tests.codes.families import SMALL


def rng():
    return np.random.default_rng(3)


def sums(matrix):
    """Return a code of plain sums, of which all rows are promised to be enough."""
    matrix = np.array(matrix, dtype=float)
    return Code(matrix=matrix, target=np.ones((1, matrix.shape[1])), threshold=len(matrix), counting=False)


# loops, double edges, and groups of one to three parts that are always together
MIXED = sums([
    [1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 0], [1, 1, 1, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1, 1],
    [0, 0, 0, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0, 1],
])  # fmt: skip
PAIRED = [
    MIXED,
    graph(parts=4, load=3, rng=rng()),
    graph(parts=5, load=2, rng=rng()),
    graph(parts=6, load=1, rng=rng()),
    graph(parts=8, load=2, rng=rng()),
    graph(parts=6, load=3, rng=rng()),
    graph(parts=5, load=4, rng=rng()),
    fractional_repetition(rows=8, load=2),
    fractional_repetition(rows=6, load=3, apart=True),
    uncoded(parts=5),
]
OTHERS = [
    balanced(rows=8, parts=6, load=3, rng=rng()),
    cyclic(rows=6, load=3, rng=rng()),
    sums([[1, 1, 1], [1, 0, 0], [0, 1, 1], [0, 0, 1]]),
    SMALL["reed_solomon"][0](),
]


@pytest.mark.parametrize("code", PAIRED + OTHERS)
def test_the_nearest_is_that_of_least_squares_on_every_set_of_rows(code):
    assert isinstance(residual_tracker(code), PairTracker if code in PAIRED else SpanTracker)
    draw = rng()
    target = code.target[0]
    for count in range(code.rows + 1):
        for rows in combinations(range(code.rows), count):
            held = code.matrix[list(rows)]
            fitted = np.linalg.lstsq(held.T, target, rcond=1e-10)[0] @ held if count else 0 * target
            expected = float(np.linalg.norm(fitted - target))
            near = residual(code, rows)
            assert near.residual == pytest.approx(expected, abs=1e-9)
            np.testing.assert_allclose(near.effective, fitted, atol=1e-9)
            np.testing.assert_allclose(near.weights @ held if count else 0 * target, fitted, atol=1e-9)
            watch, said = residual_tracker(code), False
            for row in draw.permutation(rows).astype(int).tolist():
                said = watch.add(row)
            assert said == (near.residual == 0) == (expected < 1e-9)
            assert watch.residual == pytest.approx(expected, abs=1e-7)
            assert (watch.residual == 0) == said


def test_large_random_sets_are_as_near_as_by_least_squares():
    draw = rng()
    for code in (graph(parts=64, load=8, rng=draw), graph(parts=128, load=4, rng=draw)):
        assert code.rows == 256
        for count in (40, 100, 150, 200):
            rows = draw.choice(256, count, replace=False)
            held = code.matrix[rows]
            fitted = np.linalg.lstsq(held.T, code.target[0], rcond=1e-10)[0] @ held
            near, watch = residual(code, rows), residual_tracker(code)
            said = [watch.add(int(row)) for row in rows][-1]
            assert near.residual == pytest.approx(np.linalg.norm(fitted - 1), abs=1e-8)
            assert watch.residual == pytest.approx(near.residual, abs=1e-6)
            assert said == (near.residual == 0)


def test_a_copy_of_a_tracker_goes_its_own_way():
    code = graph(parts=4, load=3, rng=rng())
    first = tracker(code)
    first.add(0)
    other = first.copy()
    assert any([other.add(row) for row in range(1, 6)])
    assert first.received == [0]
    assert (other.residual, first.residual) == (0.0, pytest.approx(2**0.5))
    whole = tracker(code)
    assert [first.add(row) for row in range(1, 6)] == [(whole.add(0), whole.add(row))[1] for row in range(1, 6)]


@pytest.mark.parametrize(("parts", "load"), [(4, 3), (6, 2), (6, 3), (7, 4), (5, 2), (7, 6), (10, 3), (6, 1)])
def test_graphs_are_regular_and_as_connected_as_their_degree(parts, load):
    for seed in range(5):
        code = graph(parts=parts, load=load, rng=np.random.default_rng(seed))
        assert (code.support.sum(axis=0) == load).all()
        assert (code.support.sum(axis=1) == 2).all()
        assert len({tuple(row) for row in code.matrix.tolist()}) == code.rows  # no edge twice
        edges = np.argwhere(code.support)[:, 1].reshape(-1, 2)
        assert load == 1 or _connectivity(edges, parts) == load
        lost = code.rows - code.threshold
        assert lost == (load - 1 if parts % 2 == 0 else load // 2 - 1)
        for gone in combinations(range(code.rows), lost):
            assert residual(code, np.setdiff1d(np.arange(code.rows), gone)).residual == 0


def test_connectivity_is_the_fewest_edges_whose_loss_parts_the_graph():
    """Two triangles joined by two edges, by trying all sets of edges."""
    edges = np.array([[0, 1], [1, 2], [0, 2], [3, 4], [4, 5], [3, 5], [0, 3], [1, 4]])
    assert _connectivity(edges, 6) == 2


@pytest.mark.parametrize(("parts", "load"), [(5, 3), (3, 3), (2, 2)])
def test_graphs_that_do_not_exist_are_refused(parts, load):
    with pytest.raises(ArgumentError, match="load: "):
        graph(parts=parts, load=load, rng=rng())


def test_parts_of_a_balanced_placement_meet_about_as_often():
    """Every part in `load` rows of even size; no two parts meet more than once more often than they must on average."""
    code = balanced(rows=40, parts=40, load=4, rng=rng())
    assert (code.support.sum(axis=0) == 4).all()
    assert (code.support.sum(axis=1) == 4).all()
    met = code.matrix.T @ code.matrix
    np.fill_diagonal(met, 0)
    assert met.max() <= 2
    random = [
        np.random.default_rng(seed).permuted(np.repeat([[1] * 4 + [0] * 36], 40, axis=0), axis=1) for seed in range(20)
    ]
    counts = [placed @ placed.T - 4 * np.eye(40) for placed in random]
    assert (met**2).sum() < min((some**2).sum() for some in counts)


def test_the_mean_square_error_of_random_parts_is_the_residual_squared():
    """At 99.9 % over independent draws of parts of length one."""
    code = graph(parts=16, load=4, rng=rng())
    near, draw = residual(code, range(9)), rng()
    assert near.residual > 1
    parts = draw.standard_normal((4000, 16, 6))
    parts /= np.linalg.norm(parts, axis=2, keepdims=True)
    squares = (np.einsum("p,dpk->dk", near.effective - 1, parts) ** 2).sum(axis=1)
    half = 3.29 * squares.std(ddof=1) / len(squares) ** 0.5
    assert abs(squares.mean() - near.rms_error(1.0) ** 2) < half


def test_nothing_received_is_as_far_away_as_can_be():
    for code in (graph(parts=4, load=2, rng=rng()), cyclic(rows=4, load=2, rng=rng())):
        near = residual(code, [])
        assert (near.residual, near.error_bound([])) == (2.0, float("inf"))
        with pytest.raises(ArgumentError, match="messages: 0 given"):
            near.combine([])


@pytest.mark.parametrize("name", sorted(CODES))
def test_codes_of_one_sum_have_a_residual_and_others_say_why_not(name):
    code = SMALL[name][0]()
    if len(code.target) > 1:
        with pytest.raises(ArgumentError, match="wanted values are not allowed; must be one"):
            residual(code, [0])
        return
    near = residual(code, range(code.rows))
    assert near.residual == 0
    weights = Decoder(code, limit=1e12).weights(range(code.rows))
    parts = rng().standard_normal((code.parts, 3))
    np.testing.assert_allclose(near.combine(code.encode(parts)), weights.combine(code.encode(parts))[0], atol=1e-9)


def test_rows_that_do_not_exist_are_refused():
    with pytest.raises(ArgumentError, match="received: 9 is not allowed"):
        residual(uncoded(parts=4), [9])
    with pytest.raises(ArgumentError, match="sizes: must be 1 finite numbers"):
        residual(uncoded(parts=4), [0]).error_bound([1.0, 2.0])
    with pytest.raises(ArgumentError, match="code: not allowed; its rows must be plain sums"):
        PairTracker(cyclic(rows=4, load=2, rng=rng()))
