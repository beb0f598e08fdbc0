"""Stochastic codes: mean and variance over all sets of rows that may come, by brute force."""

from itertools import product

import numpy as np
import pytest

from echelon.codes import Decoder, residual, stochastic, weights_for, weights_tracker
from echelon.errors import ArgumentError


def rng():
    return np.random.default_rng(3)


def over_all_sets(code, parts, estimate):
    """Return mean and mean squared distance from the sum of what comes of each set of rows, by its probability."""
    p, total = code.missing, parts.sum(axis=0)
    messages = code.matrix @ parts
    mean, spread = np.zeros_like(total), 0.0
    for came in product((False, True), repeat=code.rows):
        rows = np.flatnonzero(came)
        chance = p ** (code.rows - len(rows)) * (1 - p) ** len(rows)
        near = estimate(code, rows.tolist())
        found = near.combine(list(messages[rows])) if len(rows) else 0 * total
        mean += chance * found
        spread += chance * float(np.square(found - total).sum())
    return mean, spread


@pytest.mark.parametrize(("rows", "parts", "load"), [(6, 6, 2), (8, 5, 3), (5, 5, 5), (4, 9, 1), (7, 3, 4)])
@pytest.mark.parametrize("missing", [0.0, 0.1, 0.45])
def test_the_mean_is_the_sum_and_the_variance_is_as_stated(rows, parts, load, missing):
    code = stochastic(rows=rows, parts=parts, load=load, missing=missing, rng=rng())
    drawn = rng().standard_normal((parts, 3))
    mean, spread = over_all_sets(code, drawn, weights_for)
    np.testing.assert_allclose(mean, drawn.sum(axis=0), atol=1e-12)
    stated = missing * (1 - missing) * float(np.square(code.matrix @ drawn).sum())
    assert spread == pytest.approx(stated, abs=1e-12)


def test_what_deviation_says_of_the_messages_that_came_is_the_variance_on_average():
    code = stochastic(rows=7, parts=6, load=2, missing=0.3, rng=rng())
    drawn = rng().standard_normal((6, 3))
    sizes, told = np.linalg.norm(code.matrix @ drawn, axis=1), 0.0
    for came in product((False, True), repeat=7):
        rows = np.flatnonzero(came).tolist()
        told += 0.3 ** (7 - len(rows)) * 0.7 ** len(rows) * weights_for(code, rows).deviation(sizes[rows]) ** 2
    assert told == pytest.approx(over_all_sets(code, drawn, weights_for)[1])


def test_weights_that_suit_the_rows_are_nearer_and_biased():
    code = stochastic(rows=8, parts=8, load=2, missing=0.25, rng=rng())
    drawn = rng().standard_normal((8, 2)) + 1
    mean, spread = over_all_sets(code, drawn, residual)
    assert spread < over_all_sets(code, drawn, weights_for)[1]
    assert np.abs(mean - drawn.sum(axis=0)).max() > 0.1


def test_the_residual_told_is_that_of_the_weights_and_all_rows_decode_exactly():
    code = stochastic(rows=6, parts=4, load=3, missing=0.2, rng=rng())
    near = weights_for(code, [0, 2, 5])
    alpha = code.matrix[[0, 2, 5]].sum(axis=0)
    np.testing.assert_allclose(near.effective, alpha)
    assert near.residual == pytest.approx(np.linalg.norm(alpha - 1))
    assert weights_for(code, range(6)).residual == pytest.approx(4**0.5 * 0.25)
    weights = Decoder(code).weights(range(6)).matrix[0]
    np.testing.assert_allclose(weights @ code.matrix, np.ones(4), atol=1e-12)


def test_what_a_tracker_tells_row_by_row_is_of_the_weights_that_are_used():
    """It may grow with a row, which no residual of the nearest weights does."""
    draw, grew = rng(), False
    for _ in range(40):
        code = stochastic(rows=9, parts=6, load=3, missing=0.3, rng=draw)
        watch, came, before = weights_tracker(code), [], 6**0.5
        for row in draw.permutation(9).tolist():
            enough = watch.add(row)
            assert watch.add(row) == enough
            came.append(row)
            if enough:
                assert watch.residual == 0
                break
            assert watch.residual == pytest.approx(weights_for(code, came).residual, abs=1e-12)
            grew |= watch.residual > before + 1e-9
            before = watch.residual
    assert grew


def test_parts_lie_in_as_many_rows_and_rows_hold_about_as_many():
    code = stochastic(rows=30, parts=20, load=4, rng=rng())
    assert (code.support.sum(axis=0) == 4).all()
    assert set(code.support.sum(axis=1).tolist()) <= {2, 3}
    other = stochastic(rows=30, parts=20, load=4, rng=np.random.default_rng(4))
    assert (code.support != other.support).any()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"missing": 1.0}, "missing: 1 is not allowed; some rows must come"),
        ({"missing": -0.1}, "missing: -0.1 is not allowed; must be a number in"),
        ({"load": 7}, "load: 7 is not allowed"),
        ({"parts": 2, "load": 1}, "2 parts would leave some of the 6 rows empty"),
    ],
)
def test_codes_that_cannot_be_are_refused(asked, said):
    with pytest.raises(ArgumentError, match=said):
        stochastic(**{"rows": 6, "parts": 6, "load": 2, "rng": rng(), **asked})
