"""Products of real matrices and values of real polynomials, from any rows that are enough."""

from itertools import combinations

import numpy as np
import pytest

from echelon.codes import Decoder, khatri_rao, lagrange, polynomial
from echelon.errors import ArgumentError, NotDecodable


def rng():
    return np.random.default_rng(5)


CASES = [
    pytest.param(lambda: polynomial(x=2, y=3, rows=8, rng=rng()), 6, id="roots"),
    pytest.param(lambda: polynomial(x=2, y=3, rows=8, rng=rng(), basis="chebyshev"), 6, id="chebyshev"),
    pytest.param(lambda: polynomial(x=2, y=3, rows=8, rng=rng(), basis="monomial"), 6, id="monomial"),
    pytest.param(lambda: polynomial(x=1, y=1, z=4, rows=9, rng=rng()), 7, id="matdot"),
    pytest.param(lambda: polynomial(x=2, y=2, z=2, rows=11, rng=rng()), 9, id="entangled"),
    pytest.param(lambda: khatri_rao(x=2, y=3, rows=8, rng=rng()), 6, id="khatri_rao"),
]


@pytest.mark.parametrize(("make", "threshold"), CASES)
def test_every_promised_set_gives_the_product_of_matrices_that_do_not_divide(make, threshold):
    code = make()
    assert code.threshold == threshold
    first, second = rng().standard_normal((7, 5)), rng().standard_normal((5, 11))
    lefts, rights = code.encode_factors(first, second)
    decoder = Decoder(code)
    for rows in combinations(range(code.rows), threshold):
        weights = decoder.weights(rows)
        blocks = weights.combine([lefts[row] @ rights[row] for row in weights.rows])
        product = code.assemble(blocks, (7, 11))
        np.testing.assert_allclose(product, first @ second, atol=1e-8)


@pytest.mark.parametrize(("make", "threshold"), CASES)
def test_a_row_is_the_combination_that_the_matrix_says(make, threshold):
    """Rows of the code against products of blocks, formed one by one."""
    code = make()
    x, z, y = code.blocks
    first, second = rng().standard_normal((2 * x, 3 * z)), rng().standard_normal((3 * z, 2 * y))
    lefts, rights = code.encode_factors(first, second)
    blocks_x = [first[2 * a : 2 * a + 2, 3 * b : 3 * b + 3] for a in range(x) for b in range(z)]
    blocks_y = [second[3 * c : 3 * c + 3, 2 * d : 2 * d + 2] for c in range(z) for d in range(y)]
    products = np.array([left @ right for left in blocks_x for right in blocks_y])
    np.testing.assert_allclose(lefts @ rights, np.tensordot(code.matrix, products, axes=1), atol=1e-9)


def test_separable_random_rows_keep_their_digits_at_96_parts():
    """Under 1e-11 in float64 and 1e-3 in float32, over 300 random orders of arrival.

    A random system is badly conditioned about once in seventy: the decoder then waits for another row, as it was told.
    """
    code = khatri_rao(x=8, y=12, rows=120, rng=np.random.default_rng(1))
    draw = np.random.default_rng(2)
    first, second = draw.standard_normal((16, 20)), draw.standard_normal((20, 24))
    truth = first @ second
    decoder = Decoder(code)
    for dtype, allowed in ((np.float64, 1e-11), (np.float32, 1e-3)):
        lefts, rights = code.encode_factors(first.astype(dtype), second.astype(dtype))
        messages = lefts @ rights
        assert messages.dtype == dtype
        waited = 0
        for _ in range(300):
            order = draw.permutation(120)
            for count in range(96, 121):
                try:
                    weights = decoder.weights(order[:count])
                    break
                except NotDecodable:
                    waited += 1
            got = code.assemble(weights.combine([messages[row] for row in weights.rows]), truth.shape)
            assert np.abs(got - truth).max() < allowed * np.abs(truth).max()
        assert waited < 15


def test_monomials_on_random_points_are_refused_at_24_parts_with_an_explanation():
    with pytest.raises(
        ArgumentError, match=r"basis: not allowed for 24 unknown products; .* Use separable random rows"
    ):
        polynomial(x=4, y=6, rows=28, rng=rng(), basis="monomial")
    polynomial(x=3, y=4, rows=14, rng=rng(), basis="roots")


@pytest.mark.parametrize(("parts", "degree", "rows"), [(4, 2, 9), (3, 3, 8), (5, 1, 7), (1, 4, 2)])
def test_lagrange_gives_a_polynomial_of_every_part(parts, degree, rows):
    code = lagrange(parts=parts, degree=degree, rows=rows)
    data = rng().standard_normal((parts, 6))

    def function(value):
        return value**degree + 2 * value + 1 if degree > 1 else 3 * value - 1

    results = function(code.encode_parts(data))
    decoder = Decoder(code)
    for some in combinations(range(rows), code.threshold):
        weights = decoder.weights(some)
        got = weights.combine([results[row] for row in weights.rows])
        np.testing.assert_allclose(got, function(data), atol=1e-8)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: polynomial(x=0, y=1, rows=4, rng=rng()), "x: 0 is not allowed"),
        (lambda: polynomial(x=2, y=2, rows=3, rng=rng()), "rows: 3 is not allowed"),
        (lambda: polynomial(x=2, y=2, rows=5, rng=rng(), basis="fourier"), "basis: 'fourier' is not allowed"),
        (lambda: polynomial(x=2, y=2, z=2, rows=12, rng=rng(), basis="chebyshev"), "not allowed for z > 1"),
        (lambda: khatri_rao(x=2, y=2, rows=3, rng=rng()), "rows: 3 is not allowed"),
        (lambda: lagrange(parts=4, degree=2, rows=6), "rows: 6 is not allowed"),
        (
            lambda: khatri_rao(x=2, y=2, rows=5, rng=rng()).encode_factors(np.ones((4, 3)), np.ones((4, 3))),
            "second: shape",
        ),
    ],
)
def test_arguments_that_make_no_product_are_refused(make, said):
    with pytest.raises(ArgumentError, match=said):
        make()
