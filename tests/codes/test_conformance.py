"""Every code in the registry: promised sets recover the target, fewer do not, tracker and rank agree."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.codes import CODES, Decoder, tracker
from echelon.errors import ArgumentError, NotDecodable
from tests.codes.families import ANY_NOISE, DECODERS, KNOWN, LARGE, SMALL

EXAMPLES = [pytest.param(make, id=f"{name}-{i}") for name, makes in SMALL.items() for i, make in enumerate(makes)]


def test_every_family_has_examples():
    assert set(SMALL) == set(LARGE) == set(CODES), "the docstring of a new family needs an example"


def recovered(code, rows, dtype=np.float64):
    parts = np.random.default_rng(1).standard_normal((code.matrix.shape[1], 4, 3))
    messages = code.encode(parts)
    weights = Decoder(code, limit=ANY_NOISE).weights(rows)
    got = weights.combine([messages[row] for row in weights.rows])
    return got, np.tensordot(code.target, parts, axes=1), weights


@pytest.mark.parametrize("make", EXAMPLES)
def test_every_promised_set_recovers_the_target(make):
    code = make()
    for rows in combinations(range(code.rows), code.threshold):
        got, truth, weights = recovered(code, rows)
        np.testing.assert_allclose(got, truth, atol=1e-9)
        assert weights.amplification > 0
        assert weights.relative_to_terms(1e-7) > weights.relative_to_terms() > weights.misfit


@pytest.mark.parametrize("make", EXAMPLES)
def test_more_rows_are_used_and_never_amplify_more(make):
    code = make()
    decoder = Decoder(code, limit=ANY_NOISE)
    for rows in combinations(range(code.rows), code.threshold):
        few = decoder.weights(rows)
        more = decoder.weights({*rows, *range(min(code.rows, code.threshold + 1))})
        assert set(rows) <= set(more.rows.tolist())
        assert more.amplification <= few.amplification * (1 + 1e-9)


@pytest.mark.parametrize("make", EXAMPLES)
def test_tracker_decoder_and_rank_agree_on_every_set(make):
    code = make()
    decoder = Decoder(code, limit=ANY_NOISE)
    for size in range(code.rows + 1):
        for rows in combinations(range(code.rows), size):
            held = code.matrix[list(rows)]
            together = np.concatenate([held, code.target])
            spans = bool(size) and np.linalg.matrix_rank(together, tol=1e-8) == np.linalg.matrix_rank(held, tol=1e-8)
            watch = tracker(code)
            said = [watch.add(row) for row in rows]
            assert (said[-1] if said else False) == spans
            assert watch.received == list(rows)
            if spans:
                decoder.weights(rows)
            else:
                with pytest.raises(NotDecodable, match=f"{size} of {code.rows} rows"):
                    decoder.weights(rows)


@pytest.mark.parametrize("name", sorted(LARGE))
def test_large_codes_survive_arcs_and_random_losses(name):
    code = KNOWN[name]
    draw = np.random.default_rng(2)
    lost = code.rows - code.threshold
    patterns = [(start + np.arange(lost)) % code.rows for start in range(code.rows)]
    patterns += [draw.choice(code.rows, lost, replace=False) for _ in range(40)]
    for gone in patterns:
        got, truth, weights = recovered(code, np.setdiff1d(np.arange(code.rows), gone))
        assert np.abs(got - truth).max() <= 1e3 * weights.relative_to_terms() * code.matrix.shape[1]


@pytest.mark.parametrize("name", sorted(LARGE))
def test_too_few_rows_are_refused_with_how_many_there_are(name):
    code, draw = KNOWN[name], np.random.default_rng(4)
    for _ in range(20):
        rows = draw.choice(code.rows, draw.integers(0, code.threshold), replace=False)
        held = code.matrix[rows]
        spans = np.linalg.matrix_rank(np.concatenate([held, code.target]), tol=1e-8) == (
            np.linalg.matrix_rank(held, tol=1e-8) if len(rows) else 0
        )
        if spans:  # a lucky set
            assert not code.counting
        else:
            with pytest.raises(NotDecodable, match=f"{len(rows)} of {code.rows} rows"):
                DECODERS[name].weights(rows)


@pytest.mark.parametrize("name", sorted(LARGE))
def test_repeated_reordered_and_unknown_rows_change_nothing(name):
    code = KNOWN[name]
    rows = [int(row) for row in np.random.default_rng(3).permutation(code.rows)]
    plain, noisy = tracker(code), tracker(code)
    for row in rows:
        said = plain.add(row)
        noisy.add(-1)
        noisy.add(code.rows)
        assert noisy.add(row) == said
        assert noisy.add(row) == said
    assert plain.received == noisy.received == rows


@pytest.mark.parametrize("name", sorted(LARGE))
def test_float32_messages_stay_float32_and_close(name):
    code = KNOWN[name]
    parts = np.random.default_rng(1).standard_normal((code.matrix.shape[1], 5))
    messages = np.stack(code.encode(parts))
    narrow = messages.astype(np.complex64 if np.iscomplexobj(messages) else np.float32)
    weights = Decoder(code).weights(range(code.rows - 1, code.rows - 1 - code.threshold, -1))
    got = weights.combine([narrow[row] for row in weights.rows])
    assert got.dtype == narrow.dtype
    truth = np.tensordot(code.target, parts, axes=1)
    assert np.abs(got - truth).max() <= 1e2 * weights.relative_to_terms(np.finfo(np.float32).eps) * code.rows


@pytest.mark.parametrize("name", sorted(LARGE))
def test_costs_and_storage_follow_from_the_supports(name):
    code = KNOWN[name]
    for row in range(1, code.rows):
        alone, after = code.cost(row), code.cost(row, after=row - 1)
        if code.precoded:
            assert (alone, after) == (1, 1)
        else:
            held, before = (code.matrix[i].reshape(-1, code.pieces).any(axis=1) for i in (row, row - 1))
            assert alone == np.count_nonzero(held)
            assert after == np.count_nonzero(held & ~before)
    assert code.storage([0]) == code.cost(0)
    assert code.storage([0, 1]) == code.cost(0) + code.cost(1, after=0)


@pytest.mark.parametrize("name", sorted(LARGE))
def test_rows_that_do_not_exist_are_refused(name):
    code = KNOWN[name]
    with pytest.raises(ArgumentError, match="received: must be rows from 0"):
        Decoder(code).weights([0, code.rows])


@pytest.mark.parametrize("name", sorted(LARGE))
@given(seed=st.integers(0, 10**6), spare=st.integers(0, 8))
@settings(max_examples=25)
def test_any_set_of_at_least_threshold_rows_recovers_the_target(name, seed, spare):
    code = KNOWN[name]
    draw = np.random.default_rng(seed)
    rows = draw.choice(code.rows, min(code.rows, code.threshold + spare), replace=False)
    watch = tracker(code)
    said = [watch.add(int(row)) for row in rows]
    assert said[-1]
    weights = DECODERS[name].weights(rows)
    fitted = np.zeros(code.target.shape, dtype=np.result_type(code.matrix, weights.matrix))
    fitted[weights.solved] = weights.matrix @ code.matrix[weights.rows]
    copied = np.flatnonzero(weights.copied >= 0)
    fitted[copied] = code.matrix[weights.rows[weights.copied[copied]]]
    np.testing.assert_allclose(fitted, code.target, atol=1e-9 * max(1.0, weights.amplification))
