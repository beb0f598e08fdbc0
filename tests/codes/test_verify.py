"""Corrupt messages are found and named; clean ones are not accused."""

from functools import cache

import numpy as np
import pytest

from echelon.codes import Decoder, cyclic, mds, reed_solomon, verify
from echelon.errors import ArgumentError, CorruptMessages


def arcs(rows, load):
    return (np.arange(rows)[None, :] - np.arange(rows)[:, None]) % rows < load


CODES = {  # made when first asked for, and once: to choose a good parity takes a while
    "mds": cache(lambda: mds(parts=12, rows=18, rng=np.random.default_rng(1))),
    "reed_solomon": cache(lambda: reed_solomon(arcs(16, 7))),
    "cyclic": cache(lambda: cyclic(rows=14, load=6, rng=np.random.default_rng(1))),
}


@pytest.mark.parametrize("name", sorted(CODES))
def test_in_thousands_of_trials_all_corrupt_messages_are_named_and_no_clean_one(name):
    """3400 trials a code, 10 200 in all: some rows lost, up to half as many corrupt as there are checks."""
    code = CODES[name]()
    draw = np.random.default_rng(9)
    for _ in range(3400):
        received = draw.permutation(code.rows)[: draw.integers(code.threshold, code.rows + 1)]
        checks = len(received) - code.threshold
        wrong = draw.choice(received, draw.integers(0, checks // 2 + 1), replace=False)
        messages = np.stack(code.encode(draw.standard_normal((code.parts, draw.integers(8, 40)))))
        for row in wrong:
            messages[row] += draw.standard_normal(messages.shape[1]) * 10.0 ** draw.uniform(-3, 3)
        said = verify(code, received, [messages[row] for row in received])
        assert said.checks == checks
        assert said.told
        assert set(said.corrupt) == set(wrong.tolist())
        assert said.clean == (len(wrong) == 0)


@pytest.mark.parametrize("name", sorted(CODES))
def test_messages_of_one_number_and_equal_corruptions_are_searched_for(name):
    code = CODES[name]()
    draw = np.random.default_rng(4)
    for trial in range(60):
        width = 1 if trial % 2 else 12
        messages = np.stack(code.encode(draw.standard_normal((code.parts, width))))
        wrong = draw.choice(code.rows, 2, replace=False)
        messages[wrong] += 1.5
        said = verify(code, range(code.rows), list(messages))
        assert set(said.corrupt) == set(wrong.tolist())


def test_not_a_number_is_corrupt():
    code = CODES["mds"]()
    messages = np.stack(code.encode(np.random.default_rng(1).standard_normal((12, 20))))
    messages[3, 7] = np.nan
    assert verify(code, range(18), list(messages)).corrupt == (3,)


def test_without_spare_rows_nothing_can_be_said():
    code = CODES["mds"]()
    messages = np.stack(code.encode(np.random.default_rng(1).standard_normal((12, 20))))
    said = verify(code, range(12), list(messages[:12]))
    assert (said.clean, said.checks) == (True, 0)


def test_more_corruptions_than_promised_are_seen_even_where_they_cannot_be_named():
    code = CODES["mds"]()
    messages = np.stack(code.encode(np.random.default_rng(1).standard_normal((12, 1))))
    messages[:6] += np.random.default_rng(2).standard_normal((6, 1))
    said = verify(code, range(18), list(messages))
    assert not said.clean
    assert not said.told


def test_rows_must_be_distinct_and_fit_the_messages():
    code = CODES["mds"]()
    with pytest.raises(ArgumentError, match="rows: 2 given; must be distinct"):
        verify(code, [1, 1], [np.ones(2), np.ones(2)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_verified_decode_leaves_out_what_is_wrong_and_says_so(dtype):
    code = CODES["cyclic"]()
    gradients = np.random.default_rng(1).standard_normal((14, 30)).astype(dtype)
    messages = code.encode(gradients)
    messages[5] = messages[5] + 1
    messages[9] = -messages[9]
    decoder = Decoder(code)
    got = decoder.decode(range(14), messages, verified=True, tolerance=1e-3)
    assert got.corrupt == (5, 9)
    assert got.value.dtype == dtype
    np.testing.assert_allclose(got.value[0], gradients.sum(axis=0), atol=1e4 * got.error_estimate.relative_to_terms)
    blind = decoder.decode(range(14), messages)
    assert blind.corrupt == ()
    assert np.abs(blind.value[0] - gradients.sum(axis=0)).max() > 0.1


def test_a_verified_decode_refuses_what_it_cannot_sort_out():
    code = CODES["mds"]()
    messages = np.stack(code.encode(np.random.default_rng(1).standard_normal((12, 1))))
    messages[:6] += np.random.default_rng(2).standard_normal((6, 1))
    with pytest.raises(CorruptMessages, match="18 messages contradict each other, and 6 checks"):
        Decoder(code).decode(range(18), list(messages), verified=True)


def clean(parts, dtype=np.float64):
    code = CODES["mds"]()
    return code, [message.astype(dtype) for message in code.encode(np.asarray(parts))]


def sparse(size):
    parts = np.zeros((12, 20))
    parts[[2, 7]] = size * np.random.default_rng(1).standard_normal((2, 20))
    return parts


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1e-20, 1e-8, 1.0, 1e3, 1e12, 1e20])
def test_clean_messages_of_very_different_size_are_not_accused(size, dtype):
    normal = np.random.default_rng(2).standard_normal((12, 20))
    mixed = normal * np.where(np.arange(12) == 4, size, 1.0)[:, None]
    for parts in (sparse(size), normal * size, mixed, np.zeros((12, 20))):
        code, messages = clean(parts, dtype)
        assert verify(code, range(18), messages).clean


@pytest.mark.parametrize("size", [1e-200, 1e-8, 1.0, 1e200])
def test_a_corruption_is_seen_at_any_scale(size):
    for parts in (sparse(size), size * np.random.default_rng(3).standard_normal((12, 20))):
        code, messages = clean(parts)
        messages[2] = -5 * messages[2]
        assert verify(code, range(18), messages).corrupt == (2,)


@pytest.mark.parametrize("factor", [1e3, 1e6, 1e12, 1e16, 1e30, 1e100, 1e300])
def test_gross_errors_do_not_hide_lesser_ones(factor):
    """A flipped bit in an exponent, with and without a modest error beside it."""
    code, messages = clean(np.random.default_rng(4).standard_normal((12, 20)))
    messages[5] = messages[5] * factor
    assert verify(code, range(18), messages).corrupt == (5,)
    messages[11] = messages[11] + np.random.default_rng(5).standard_normal(20)
    assert verify(code, range(18), messages).corrupt == (5, 11)


def test_messages_that_are_not_finite_are_left_out_and_the_rest_is_decoded():
    parts = np.random.default_rng(1).standard_normal((12, 20))
    for lost, rows in (((3,), range(13)), ((0, 5, 9, 17), range(18))):
        code, messages = clean(parts)
        for row in lost:
            messages[row] = np.full(20, np.nan)
        got = Decoder(code).decode(rows, [messages[row] for row in rows], verified=True)
        assert got.corrupt == lost
        np.testing.assert_allclose(got.value, parts, atol=1e-9)


def test_long_messages_are_looked_at_piece_by_piece():
    code = CODES["cyclic"]()
    messages = code.encode(np.random.default_rng(1).standard_normal((14, 50_000)))
    messages[4][49_999] += 1.0
    assert verify(code, range(14), messages).corrupt == (4,)


@pytest.mark.parametrize("rows", [[0, 99], [-1, 0]])
def test_rows_that_do_not_exist_are_refused(rows):
    with pytest.raises(ArgumentError, match="must be distinct rows from 0 to 17"):
        verify(CODES["mds"](), rows, [np.ones(2), np.ones(2)])


def test_shapes_must_agree_and_may_be_empty():
    with pytest.raises(ArgumentError, match="one shape"):
        verify(CODES["mds"](), [0, 1], [np.ones(2), np.ones(3)])
    assert verify(CODES["mds"](), range(18), [np.empty(0)] * 18).clean


@pytest.mark.parametrize("tolerance", [np.nan, -1e-9, np.inf, "x"])
def test_a_tolerance_that_means_nothing_is_refused(tolerance):
    code = mds(parts=2, rows=4, rng=np.random.default_rng(1))
    messages = [np.ones(3)] * 4
    with pytest.raises(ArgumentError, match=r"tolerance: .* is not allowed"):
        verify(code, range(4), messages, tolerance=tolerance)
    with pytest.raises(ArgumentError, match=r"tolerance: .* is not allowed"):
        Decoder(code).decode(range(4), messages, verified=True, tolerance=tolerance)
