"""The nearest that rows come: all small graphs against least squares, bounds of errors, and weights row by row."""

from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest

from echelon.codes import (
    Code,
    PairTracker,
    balanced,
    cyclic,
    fractional_repetition,
    graph,
    mds,
    residual,
    residual_tracker,
    stochastic,
    uncoded,
    weights_for,
)
from echelon.errors import ArgumentError

TRIALS = 10_000


def rng():
    return np.random.default_rng(3)


def of_edges(edges, vertices):
    """Return the code whose rows are the edges of a graph; an edge from a vertex to itself is a loop."""
    matrix = np.zeros((len(edges), vertices))
    for row, (u, v) in enumerate(edges):
        matrix[row, [u, v]] = 1.0
    return Code(matrix=matrix, target=np.ones((1, vertices)), threshold=len(edges), counting=False)


def check(code, rows):
    """Check weights, effective weights and residual of some rows against least squares, and the tracker."""
    held = code.matrix[list(rows)]
    fitted = np.linalg.lstsq(held.T, code.target[0], rcond=1e-10)[0] @ held if len(rows) else 0 * code.target[0]
    expected = float(np.linalg.norm(fitted - code.target[0]))
    near = residual(code, rows)
    assert abs(near.residual - expected) <= 1e-10
    np.testing.assert_allclose(near.effective, fitted, rtol=0, atol=1e-10)
    if len(rows):
        np.testing.assert_allclose(near.weights @ code.matrix[near.rows], fitted, rtol=0, atol=1e-10)
    assert (near.residual == 0) == (expected < 1e-9)


@pytest.mark.parametrize("vertices", [2, 3, 4, 5])
def test_linear_time_equals_least_squares_on_every_graph(vertices):
    """Each set of edges of the complete graph is a graph of its own."""
    every = of_edges(list(combinations(range(vertices), 2)), vertices)
    assert every.pairs is not None or vertices == 2
    for count in range(every.rows + 1):
        for rows in combinations(range(every.rows), count):
            check(every, rows)


def test_linear_time_equals_least_squares_on_every_graph_with_loops():
    every = of_edges(list(combinations_with_replacement(range(4), 2)), 4)
    assert every.pairs is not None
    for count in range(every.rows + 1):
        for rows in combinations(range(every.rows), count):
            check(every, rows)


@pytest.mark.parametrize("vertices", [6, 7, 8, 9, 10])
def test_linear_time_equals_least_squares_on_random_graphs(vertices):
    """Of all densities, with loops and double edges in every third."""
    draw = np.random.default_rng(vertices)
    simple = list(combinations(range(vertices), 2))
    loose = [*combinations_with_replacement(range(vertices), 2), *simple]
    for trial in range(300):
        edges = simple if trial % 3 else loose
        chosen = np.flatnonzero(draw.random(len(edges)) < draw.uniform(0.02, 0.5))
        code = of_edges([edges[at] for at in [*chosen, 0, 1]], vertices)
        assert code.pairs is not None
        check(code, draw.choice(code.rows, draw.integers(0, code.rows + 1), replace=False).tolist())


@pytest.mark.parametrize(
    "code",
    [
        graph(parts=6, load=3, rng=rng()),
        fractional_repetition(rows=6, load=2),
        balanced(rows=8, parts=6, load=3, rng=rng()),
        cyclic(rows=6, load=3, rng=rng()),
        stochastic(rows=7, parts=5, load=3, rng=rng()),
    ],
)
def test_weights_follow_the_rows_without_solving_anew(code):
    """After every row, in random orders: as near as least squares, with the residual that is told."""
    draw = rng()
    for _ in range(60):
        watch, came = residual_tracker(code), []
        for row in draw.permutation(code.rows).tolist():
            watch.add(row)
            came.append(row)
            near, best = watch.nearest(), residual(code, came)
            assert near.rows.tolist() == sorted(came)
            assert near.residual == pytest.approx(best.residual, abs=1e-9)
            assert near.residual == pytest.approx(watch.residual, abs=1e-9)
            np.testing.assert_allclose(near.effective, best.effective, atol=1e-9)
            np.testing.assert_allclose(near.weights @ code.matrix[near.rows], best.effective, atol=1e-9)


def test_weights_row_by_row_are_right_for_complex_rows_and_large_codes():
    turned = np.exp(1j * rng().uniform(0, 6, (9, 5)))
    code = Code(matrix=turned, target=np.ones((1, 5)), threshold=9, counting=False)
    large = balanced(rows=256, parts=64, load=8, rng=rng())
    for some, count in ((code, 3), (code, 5), (large, 40), (large, 120)):
        watch = residual_tracker(some)
        rows = rng().choice(some.rows, count, replace=False).tolist()
        for row in rows:
            watch.add(row)
        near, best = watch.nearest(), residual(some, rows)
        assert near.residual == pytest.approx(best.residual, abs=1e-8)
        np.testing.assert_allclose(near.effective, best.effective, atol=1e-8)


def test_a_tracker_with_no_row_and_a_code_of_several_sums():
    watch = residual_tracker(cyclic(rows=4, load=2, rng=rng()))
    assert (watch.nearest().residual, len(watch.nearest().weights)) == (2.0, 0)
    with pytest.raises(ArgumentError, match="wanted values are not allowed; must be one"):
        residual_tracker(mds(parts=2, rows=3, rng=rng())).nearest()
    assert isinstance(residual_tracker(graph(parts=4, load=3, rng=rng())), PairTracker)


def trials():
    """Yield codes, sets of rows and parts: sets at random, and twenty draws of parts of random sizes for each."""
    draw = rng()
    codes = (
        graph(parts=12, load=4, rng=draw), balanced(rows=12, parts=12, load=3, rng=draw), uncoded(parts=9),
        stochastic(rows=10, parts=8, load=3, rng=draw), cyclic(rows=10, load=3, rng=draw),
    )  # fmt: skip
    for _ in range(TRIALS // (20 * len(codes))):
        for code in codes:
            rows = draw.choice(code.rows, draw.integers(1, code.rows), replace=False).tolist()
            yield code, rows, draw.standard_normal((20, code.parts, 5)) * draw.uniform(0, 1, (20, code.parts, 1))


def test_the_error_is_within_its_limit_whatever_the_parts_are():
    """In 10 000 trials, for the nearest weights and for those of the code; and the limit is reached."""
    tried = 0
    for code, rows, drawn in trials():
        for near in (residual(code, rows), weights_for(code, rows)):
            for parts in drawn:
                messages = list(code.matrix[near.rows] @ parts)
                error = float(np.linalg.norm(near.combine(messages) - parts.sum(axis=0)))
                norms = np.linalg.norm(parts, axis=1)
                assert error <= near.error_limit(norms) + 1e-9
                assert near.error_limit(norms) <= near.residual * np.linalg.norm(norms) + 1e-12
                assert near.residual or error < 1e-9
        tried += len(drawn)
        aligned = np.sign(near.effective - 1)
        assert abs((near.effective - 1) @ aligned) == pytest.approx(near.error_limit(np.abs(aligned)), abs=1e-9)
    assert tried == TRIALS


def test_where_parts_do_not_point_apart_the_error_is_within_its_bound_from_messages():
    """In 10 000 trials; parts that are lost are no longer than the longest that came."""
    for code, rows, drawn in trials():
        if (code.matrix < 0).any():  # a row that subtracts hides how long its parts are
            continue
        near = residual(code, rows)
        came = code.support[near.rows].any(axis=0)
        for parts in np.abs(drawn):
            longest = np.linalg.norm(parts[came], axis=1).max()
            parts[~came] *= min(1.0, longest / max(np.linalg.norm(parts[~came], axis=1).max(initial=0.0), 1e-12))
            messages = code.matrix[near.rows] @ parts
            error = float(np.linalg.norm(near.combine(list(messages)) - parts.sum(axis=0)))
            bound = near.error_bound(np.linalg.norm(messages, axis=1))
            assert error <= bound + 1e-9
            if near.residual == 0:
                assert bound == 0.0


def test_what_is_left_of_the_nearest_is_orthogonal_to_all_rows_that_came():
    """So messages say nothing of it, and no bound follows from them alone."""
    for code, rows, _ in trials():
        near = residual(code, rows)
        np.testing.assert_allclose(code.matrix[near.rows].conj() @ (near.effective - 1), 0, atol=1e-9)


def test_sizes_that_do_not_fit_are_refused():
    near = residual(uncoded(parts=4), [0])
    for call, said in (
        (lambda: near.error_limit([1.0]), "part_sizes: must be 4 finite numbers >= 0, one per part"),
        (lambda: near.error_limit([1.0, 1.0, 1.0, -1.0]), "part_sizes: must be 4 finite numbers"),
        (lambda: near.deviation([1.0]), "deviation: not known"),
        (lambda: weights_for("graph", [0]), "code: 'graph' is not allowed; must be a Code"),
    ):
        with pytest.raises(ArgumentError, match=said):
            call()
