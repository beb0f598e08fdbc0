"""Blocks of matrices: of any size, order and kind, in files too, with parity or with a plan."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse

from echelon import LinearJob, Stream
from echelon.clusters import shipping
from echelon.codes import cyclic, mds
from echelon.errors import ArgumentError
from echelon.plan import Plan, Slot, Task
from echelon.schemes import backups, coded_rows, uncoded_multi_message

RNG = np.random.default_rng(3)
CSR = scipy.sparse.random_array((23, 23), density=0.3, rng=RNG, format="csr")


def found(state, product):
    return product


def job(matrix, parts, **more):
    return LinearJob(matrix=matrix, update=found, state=np.ones(matrix.shape[1]), parts=parts, iterations=1, **more)


@cache
def code_of(parts):
    return mds(parts=parts, rows=parts + 3, rng=np.random.default_rng(1), parity="random")


def kinds(matrix, tmp_path):
    """Return a matrix as C and Fortran arrays, strided, and in files."""
    path = tmp_path / "matrix"
    matrix.tofile(path)
    stored = np.memmap(path, matrix.dtype, mode="r", shape=matrix.shape)
    turned = tmp_path / "turned"
    np.ascontiguousarray(matrix.T).tofile(turned)
    return {
        "C": matrix,
        "Fortran": np.asfortranarray(matrix),
        "strided": np.repeat(matrix, 2, axis=1)[:, ::2],
        "file": stored,
        "transposed file": np.memmap(turned, matrix.dtype, mode="r", shape=matrix.T.shape).T,
    }


@pytest.mark.parametrize("shape", [(12, 5), (13, 5), (10, 7), (4, 4), (1, 6), (6, 1), (33, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_are_those_of_the_padded_matrix_and_parity_is_made_of_them(shape, dtype, tmp_path, monkeypatch):
    monkeypatch.setattr("echelon.jobs.linear._AT_ONCE", 16)  # so that a matrix in a file is read in several turns
    matrix = RNG.standard_normal(shape).astype(dtype)
    parts = min(4, shape[0])
    code, height = code_of(parts), -(-shape[0] // parts)
    padded = np.zeros((parts * height, shape[1]))
    padded[: shape[0]] = matrix
    wanted = np.tensordot(code.matrix, padded.reshape(parts, height, -1), axes=1)
    for name, kind in kinds(matrix, tmp_path).items():
        work = job(kind, parts).work([code])
        ours = [work.part(np.eye(shape[1], dtype=dtype), row) for row in range(code.rows)]
        np.testing.assert_allclose(ours, wanted, atol=1e-5 if dtype == np.float32 else 1e-13, err_msg=name)
        assert ours[0].dtype == dtype


def test_a_matrix_in_a_file_is_not_copied_however_it_lies_there(tmp_path):
    """Of 100 blocks of ten rows, only the parity of three travels."""
    for name, matrix in kinds(RNG.standard_normal((1000, 30)), tmp_path).items():
        _, beside = shipping.pack(job(matrix, 100).work([code_of(100)]))
        parity = 3 * 10 * 30 * 8
        assert sum(map(len, beside)) == parity + (0 if "file" in name else matrix.nbytes), name


def test_a_sparse_matrix_travels_as_its_three_arrays():
    matrix = scipy.sparse.random_array((2000, 500), density=0.01, rng=RNG, format="csr")
    plan = backups(workers=3, parts=40)
    pickled, beside = shipping.pack(job(matrix, 40, plan=plan).work(plan.codes))
    arrays = (matrix.data, matrix.indices, matrix.indptr)
    assert sorted(map(len, beside)) == sorted(array.nbytes for array in arrays)
    assert len(pickled) < 1000


@pytest.mark.parametrize("parts", [1, 4, 5, 23])
def test_blocks_of_a_sparse_matrix_are_its_rows_and_empty_ones_to_the_end(parts):
    plan = backups(workers=2, parts=parts)
    work = job(CSR, parts, plan=plan).work(plan.codes)
    for vectors in (np.ones(23), RNG.standard_normal((23, 2))):
        ours = np.concatenate([work.part(vectors, part) for part in range(parts)])
        np.testing.assert_allclose(ours[:23], CSR.toarray() @ vectors, atol=1e-14)
        assert not ours[23:].any()


@pytest.mark.parametrize("cluster", ["threads", "processes"])
def test_iterations_with_plans_give_what_one_process_gets(cluster):
    dense = CSR.toarray()
    jobs = [
        LinearJob(matrix=matrix, update=normalised, state=np.ones(23), parts=6, plan=plan, iterations=10)
        for matrix, plan in (
            (CSR, backups(workers=3, parts=6, copies=2)),
            (CSR.tocoo(), backups(workers=3, parts=6)),
            (scipy.sparse.csc_matrix(CSR), backups(workers=3, parts=6, copies=1)),
            (dense, backups(workers=3, parts=6)),
            (dense, coded_rows(code_of(6), [4, 2, 3])),
        )
    ]
    wanted = np.ones(23)
    for _ in range(10):
        wanted = normalised(wanted, dense @ wanted)
    with Stream(cluster, workers=3) as stream:
        for handle in [stream.submit(one) for one in jobs]:
            np.testing.assert_allclose(handle.result(), wanted, rtol=1e-10)


def normalised(state, product):
    return product / np.linalg.norm(product)


@pytest.mark.parametrize(
    ("matrix", "dtype"), [(np.eye(3, dtype=np.float16), np.float32), (np.eye(3, dtype=np.int8), np.float64)]
)
def test_numbers_of_other_types_become_floats_in_sparse_matrices_too(matrix, dtype):
    assert job(matrix, 2).matrix.dtype == dtype
    if matrix.dtype != np.float16:  # SciPy has no sparse matrices of it
        sparse = scipy.sparse.csr_array(matrix)
        assert job(sparse, 2, plan=backups(workers=2, parts=2)).matrix.dtype == dtype


@pytest.mark.parametrize(
    ("matrix", "parts", "plan", "said"),
    [
        (CSR, 4, coded_rows(code_of(4), [4, 3]), "parity of a sparse matrix would be dense"),
        (CSR, 4, backups(workers=2, parts=5), "parts: 4 is not allowed; must be 5"),
        (CSR, 24, backups(workers=2, parts=24), "parts: 24 is not allowed"),
        (CSR * 1j, 4, backups(workers=2, parts=4), r"matrix: shape \(23, 23\) of complex128 is not allowed"),
        (scipy.sparse.csr_array((0, 3)), 1, backups(workers=2, parts=1), r"matrix: shape \(0, 3\)"),
        (np.eye(4), 4, Plan([Slot(rows=4, threshold=4)], [[Task(slot=0, row=r)] for r in range(4)]), "plan: Plan is"),
        (np.eye(6), 6, uncoded_multi_message(workers=6, load=2), "must have one slot"),
        (np.eye(5), 5, coded_rows(cyclic(rows=5, load=2, rng=RNG), [3, 2]), "must have one slot"),
    ],
    ids=["parity", "parts", "too many", "complex", "empty", "no codes", "slots", "not systematic"],
)
def test_matrices_and_plans_that_do_not_fit_are_refused(matrix, parts, plan, said):
    with pytest.raises(ArgumentError, match=said):
        job(matrix, parts, plan=plan)


def test_a_sparse_matrix_needs_no_plan_unless_redundancy_is_asked_for():
    with Stream("virtual", workers=2) as stream:
        found = stream.submit(job(CSR, 4)).result()
    with Stream("virtual", workers=2, redundancy=1.0) as stream:
        np.testing.assert_allclose(stream.submit(job(CSR.toarray(), 4)).result(), found, rtol=1e-12)
    refused = pytest.raises(ArgumentError, match="plan: missing; parity of a sparse matrix would be dense: leave")
    with Stream("virtual", workers=2, redundancy=1.5) as stream, refused:
        stream.submit(job(CSR, 4))
