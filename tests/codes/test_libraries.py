"""The same codes on torch tensors: same answers, same precision, same library."""

import numpy as np
import pytest
import torch

from echelon.codes import Decoder, combine, cyclic, khatri_rao, lagrange, mds, polynomial, reed_solomon


def rng():
    return np.random.default_rng(5)


def arcs(rows, load):
    return (np.arange(rows)[None, :] - np.arange(rows)[:, None]) % rows < load


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "code", [mds(parts=5, rows=8, rng=rng()), cyclic(rows=6, load=3, rng=rng()), reed_solomon(arcs(6, 3))]
)
def test_sums_and_parts_of_tensors(code, dtype):
    parts = torch.from_numpy(rng().standard_normal((code.parts, 4, 3))).to(dtype)
    messages = code.encode(parts)
    assert all(isinstance(message, torch.Tensor) for message in messages)
    weights = Decoder(code).weights(range(code.rows - code.threshold, code.rows))
    got = weights.combine([messages[row] for row in weights.rows])
    assert isinstance(got, torch.Tensor)
    truth = torch.tensordot(torch.from_numpy(code.target).to(dtype), parts, dims=1)
    assert got.real.dtype == dtype
    assert float((got - truth).abs().max()) < (1e-10 if dtype is torch.float64 else 1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "code", [khatri_rao(x=2, y=3, rows=8, rng=rng()), polynomial(x=2, y=2, z=2, rows=11, rng=rng())]
)
def test_products_of_tensors(code, dtype):
    first = torch.from_numpy(rng().standard_normal((7, 5))).to(dtype)
    second = torch.from_numpy(rng().standard_normal((5, 9))).to(dtype)
    lefts, rights = code.encode_factors(first, second)
    weights = Decoder(code).weights(range(1, code.threshold + 1))
    blocks = weights.combine([lefts[row] @ rights[row] for row in weights.rows.tolist()])
    product = code.assemble(blocks, (7, 9))
    assert isinstance(product, torch.Tensor)
    assert float((product - first @ second).abs().max()) < (1e-9 if dtype is torch.float64 else 1e-2)


def test_lagrange_of_tensors():
    code = lagrange(parts=3, degree=2, rows=7)
    parts = torch.from_numpy(rng().standard_normal((3, 4)))
    results = code.encode_parts(parts) ** 2
    weights = Decoder(code).weights([0, 2, 3, 5, 6])
    got = weights.combine([results[row] for row in weights.rows.tolist()])
    torch.testing.assert_close(got, parts**2)


def test_float32_tensors_are_not_widened_and_out_is_numpys_alone():
    messages = [torch.ones(3), torch.full((3,), 2.0)]
    got = combine(np.array([[1.0, 0.5]]), messages)
    assert got.dtype == torch.float32
    assert got.tolist() == [[2.0, 2.0, 2.0]]
    with pytest.raises(ValueError, match="out: not allowed for arrays other than NumPy's"):
        combine(np.array([[1.0, 0.5]]), messages, torch.empty(1, 3))
