"""Coded factors made one by one, and products put together from messages, against dense algebra."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.codes import Decoder, khatri_rao, polynomial
from echelon.codes.products import assemble_product, basis_values, coded_factor, plain_first
from echelon.errors import ArgumentError

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
EPS = {np.dtype(kind): float(np.finfo(kind).eps) for kind in DTYPES}
CODES = {
    (x, z, y): khatri_rao(x=x, y=y, rows=x * y + 4, rng=np.random.default_rng(1))
    if z == 1
    else polynomial(x=x, y=y, z=z, rows=x * y * z + z + 3, rng=np.random.default_rng(1))
    for x in (1, 2, 3)
    for z in (1, 2)
    for y in (1, 2, 3)
}
DECODERS = {blocks: Decoder(code) for blocks, code in CODES.items()}


def filled_up(matrix, down, across):
    """Return the blocks of a matrix in the plainest way, with zeros where it does not divide."""
    height, width = -(-matrix.shape[0] // down), -(-matrix.shape[1] // across)
    whole = np.zeros((down * height, across * width), dtype=matrix.dtype)
    whole[: matrix.shape[0], : matrix.shape[1]] = matrix
    return [
        whole[i * height : (i + 1) * height, j * width : (j + 1) * width] for i in range(down) for j in range(across)
    ]


def drawn(rng, shape, dtype):
    real = rng.standard_normal(shape)
    return (real + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else real).astype(dtype)


sizes = st.integers(1, 9)
seeds = st.integers(0, 2**32 - 1)


@given(sizes, sizes, st.integers(1, 5), st.integers(1, 3), st.sampled_from(DTYPES), st.booleans(), seeds)
def test_a_coded_factor_is_the_combination_of_blocks_in_the_precision_of_the_matrix(
    rows, columns, down, across, dtype, complex_weights, seed
):
    rng = np.random.default_rng(seed)
    matrix = drawn(rng, (rows, columns), dtype)
    weights = drawn(rng, down * across, np.complex128 if complex_weights else np.float64)
    weights[rng.random(len(weights)) < 0.3] = 0
    found = coded_factor(matrix, weights, down, across)
    expected = sum(
        w * block.astype(np.complex128) for w, block in zip(weights, filled_up(matrix, down, across), strict=True)
    )
    single = np.dtype(dtype).char in "fF"
    wide = complex_weights or np.dtype(dtype).kind == "c"
    assert found.dtype == ((np.complex64 if single else np.complex128) if wide else dtype)
    np.testing.assert_allclose(found, expected, atol=50 * EPS[np.dtype(dtype)])


@given(sizes, sizes, st.integers(1, 4), st.integers(1, 4), seeds)
def test_a_plain_block_is_a_view_unless_it_must_be_filled_up(rows, columns, down, across, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((rows, columns))
    blocks = filled_up(matrix, down, across)
    for k in range(down * across):
        found = coded_factor(matrix, np.eye(down * across)[k], down, across)
        np.testing.assert_array_equal(found, blocks[k])
        i, j = divmod(k, across)
        whole = (i + 1) * blocks[k].shape[0] <= rows and (j + 1) * blocks[k].shape[1] <= columns
        assert np.shares_memory(found, matrix) == whole


def test_large_blocks_are_summed_in_several_steps():
    """More numbers than a step holds, with a last step that is short and a last block that is cut off."""
    rng = np.random.default_rng(2)
    for shape in ((700, 301), (1501, 40), (3, 100_003)):
        matrix, weights = rng.standard_normal(shape), rng.standard_normal(6)
        expected = sum(w * block for w, block in zip(weights, filled_up(matrix, 3, 2), strict=True))
        np.testing.assert_allclose(coded_factor(matrix, weights, 3, 2), expected, atol=1e-13)


def test_whole_numbers_become_real_ones_and_the_matrix_is_left_alone():
    matrix = np.arange(6).reshape(2, 3)
    found = coded_factor(matrix, np.array([0.5, 2.0]), 2, 1)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [[6.0, 8.5, 11.0]])
    np.testing.assert_array_equal(matrix, np.arange(6).reshape(2, 3))
    frozen = np.ones((4, 4))
    frozen.setflags(write=False)
    coded_factor(frozen, np.array([1.0, 1.0]), 2, 1)


@given(sizes, sizes, sizes, st.sampled_from(sorted(CODES)), st.sampled_from(DTYPES), seeds)
def test_products_are_put_together_from_any_rows_that_are_enough(rows, inner, columns, blocks, dtype, seed):
    rng, code = np.random.default_rng(seed), CODES[blocks]
    x, z, y = blocks
    first, second = drawn(rng, (rows, inner), dtype), drawn(rng, (inner, columns), dtype)
    order = rng.permutation(code.rows)
    some = next(order[:n] for n in range(code.threshold, code.rows + 1) if DECODERS[blocks].ready(order[:n]))
    weights = DECODERS[blocks].weights(some)
    messages = [
        coded_factor(first, code.left[row], x, z) @ coded_factor(second, code.right[row], z, y)
        for row in weights.rows.tolist()
    ]
    real = np.dtype(dtype).kind != "c"
    found = assemble_product(code, weights, messages, (rows, columns), real=real)
    assert found.shape == (rows, columns)
    assert found.dtype == dtype
    scale = max(1.0, float(np.abs(first @ second).max())) * inner
    np.testing.assert_allclose(found, first @ second, atol=300 * weights.amplification * EPS[np.dtype(dtype)] * scale)


def test_blocks_that_are_messages_themselves_are_copied_without_loss():
    code = CODES[2, 1, 3]
    first, second = np.random.default_rng(3).standard_normal((2, 4, 4))
    weights = DECODERS[2, 1, 3].weights(range(6))
    messages = [coded_factor(first, code.left[r], 2, 1) @ coded_factor(second, code.right[r], 1, 3) for r in range(6)]
    found = assemble_product(code, weights, messages, (4, 4))
    blocks = [
        [first[:2] @ second[:, :2], first[:2] @ second[:, 2:]],
        [first[2:] @ second[:, :2], first[2:] @ second[:, 2:]],
    ]
    np.testing.assert_array_equal(found, np.block(blocks))
    assert found.base is None
    messages[0][:] = 0
    assert found[0, 0] != 0


def test_the_parts_agree_with_the_factors_of_all_rows_at_once():
    rng = np.random.default_rng(4)
    for (x, z, y), code in CODES.items():
        first, second = rng.standard_normal((5, 7)), rng.standard_normal((7, 4))
        lefts, rights = code.encode_factors(first, second)
        for row in range(code.rows):
            np.testing.assert_allclose(coded_factor(first, code.left[row], x, z), lefts[row], atol=1e-13)
            np.testing.assert_allclose(coded_factor(second, code.right[row], z, y), rights[row], atol=1e-13)


def test_plain_first_is_what_it_says_and_refuses_what_loses_its_digits():
    points = np.random.default_rng(5).uniform(-1, 1, 4)
    code = plain_first(
        basis_values("monomial", 2.0 * np.arange(2), points),
        basis_values("monomial", np.arange(2.0), points),
        2,
        2,
        1e6,
    )
    assert code.systematic == code.threshold == 4
    np.testing.assert_array_equal(code.matrix[:4], np.eye(4))
    np.testing.assert_allclose(code.matrix[4:], points[:, None] ** np.arange(4), atol=1e-15)
    near = 0.5 + 1e-4 * np.arange(4)
    with pytest.raises(ArgumentError, match="basis: not allowed for 4 unknown products"):
        plain_first(
            basis_values("monomial", 2.0 * np.arange(2), near),
            basis_values("monomial", np.arange(2.0), near),
            2,
            2,
            1e6,
        )
