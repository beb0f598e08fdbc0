"""Checks of the rows at hand: they vanish for honest messages, and show any wrong one."""

import numpy as np
import pytest

from echelon.codes import Checker, cyclic, fractional_repetition, mds, reed_solomon, rounding, uncoded, verify
from echelon.errors import ArgumentError

RNG = np.random.default_rng(1)
CODES = {
    "mds": mds(parts=12, rows=18, rng=RNG),
    "cyclic": cyclic(rows=14, load=5, rng=RNG),
    "reed_solomon": reed_solomon((np.arange(12)[None, :] - np.arange(12)[:, None]) % 12 < 5),
    "fractional_repetition": fractional_repetition(rows=12, load=3),
}
TOLERANCE = rounding(2.0**-52)


@pytest.mark.parametrize("name", CODES)
def test_honest_messages_pass_and_a_wrong_one_shows_whatever_rows_are_there(name):
    code, draw = CODES[name], np.random.default_rng(2)
    checker, tried = Checker(code), 0
    for _ in range(300):
        rows = sorted(draw.permutation(code.rows)[: draw.integers(1, code.rows + 1)].tolist())
        checks = checker.of(rows)
        whole = np.stack(code.encode(draw.standard_normal((code.parts, 7))))
        messages = [whole[row] for row in rows]
        assert len(checks.weights) == len(rows) - np.linalg.matrix_rank(code.matrix[rows])
        assert checks.failing(messages, TOLERANCE) is None
        if checks.seen:
            tried += 1
            place = int(draw.integers(len(rows)))
            messages[place] = messages[place].copy()
            messages[place][draw.integers(7)] += 10.0 ** draw.uniform(-6, 6)
            failing = checks.failing(messages, TOLERANCE)
            assert failing is not None
            assert checks.verdict(messages, failing, TOLERANCE).corrupt in ((), (rows[place],))
    assert tried > 20


def test_rows_without_spare_have_no_checks_and_everything_passes():
    checks = Checker(uncoded(parts=3)).of(range(3))
    assert not checks.seen
    assert checks.failing([np.ones(2)] * 3, TOLERANCE) is None


def test_numbers_of_any_size_are_shown():
    code = CODES["mds"]
    whole = np.stack(code.encode(np.random.default_rng(2).standard_normal((code.parts, 5))))
    for wrong in (np.inf, np.nan, 1e300, -1e-3):
        messages = list(whole.copy())
        messages[4][2] = wrong
        checks = Checker(code).of(range(code.rows))
        failing = checks.failing(messages, TOLERANCE)
        assert failing is not None
        if np.isfinite(wrong):
            assert checks.verdict(messages, failing, TOLERANCE).corrupt == (4,)


def test_rounding_of_terms_that_cancel_is_not_taken_for_wrong():
    code, draw = CODES["mds"], np.random.default_rng(2)
    parts = 1e-9 * draw.standard_normal((code.parts, 7))
    messages = [row + 1e-16 * draw.standard_normal(7) for row in np.stack(code.encode(parts))]
    checks = Checker(code).of(range(code.rows))
    assert checks.failing(messages, TOLERANCE) is not None
    assert checks.failing(messages, TOLERANCE, terms=1.0) is None
    assert not verify(code, range(code.rows), messages).clean
    assert verify(code, range(code.rows), messages, terms=1.0).clean


@pytest.mark.parametrize("tolerance", [np.nan, -1.0, np.inf, "tight"])
def test_a_tolerance_that_is_no_tolerance_is_refused(tolerance):
    with pytest.raises(ArgumentError, match="tolerance"):
        verify(CODES["mds"], [0], [np.ones(3)], tolerance=tolerance)
