"""Products with matrices of all kinds and sizes, and what becomes of workers and data when an operator ends."""

import gc
import os
import select
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import LinearOperator

import echelon as ec
from echelon.errors import ArgumentError, ClusterError

RNG = np.random.default_rng(8)
DENSE = RNG.standard_normal((31, 17))
SPARSE = scipy.sparse.random_array((41, 29), density=0.2, rng=RNG, format="csr")
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def stream():
    with ec.Stream("threads", workers=3, redundancy=1.5) as opened:
        yield opened


def check(operator, plain, tolerance=1e-12):
    """Compare all products, real and complex, of vectors and of columns, with those of a plain array."""
    rng = np.random.default_rng(2)
    for columns in ((), (1,), (3,)):
        for factor in (1.0, 1.0 + 2.0j):
            right = rng.standard_normal((plain.shape[1], *columns)) * factor
            left = rng.standard_normal((plain.shape[0], *columns)) * factor
            for ours, theirs in (
                (operator @ right, plain @ right),
                (operator.H @ left, plain.T @ left),
                (operator.T @ left, plain.T @ left),
                (operator.gram(0.5) @ right, plain.T @ (plain @ right) + 0.5 * right),
                (operator.gram().H @ right, plain.T @ (plain @ right)),
            ):
                assert ours.shape == theirs.shape
                assert np.iscomplexobj(ours) == np.iscomplexobj(theirs)
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * (1 + np.abs(theirs).max()))


SHAPES = [(31, 17), (32, 8), (1, 9), (9, 1), (1, 1), (2, 3), (50, 3), (3, 50), (13, 13)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_products_of_any_size_are_those_of_numpy(shape, sparse, stream):
    matrix = np.random.default_rng(5).standard_normal(shape)
    with ec.linear_operator(scipy.sparse.csr_array(matrix) if sparse else matrix, stream=stream) as operator:
        assert isinstance(operator, LinearOperator)
        assert (operator.shape, operator.dtype) == (shape, np.float64)
        check(operator, matrix)


NATIVE = [np.float32, np.int32, np.bool_, np.longdouble]
DENSE_ONLY = [np.float16, np.dtype(">f8"), np.dtype(">f4"), np.dtype(">i2")]  # of which SciPy has no sparse matrices


@pytest.mark.parametrize(
    ("kind", "sparse"), [(kind, False) for kind in NATIVE + DENSE_ONLY] + [(kind, True) for kind in NATIVE], ids=str
)
def test_numbers_of_all_kinds_become_float32_or_float64(kind, sparse, stream):
    matrix = np.random.default_rng(5).integers(0, 2, (12, 7)).astype(kind)
    narrow = matrix.dtype.char in "ef"
    with ec.linear_operator(scipy.sparse.csr_array(matrix) if sparse else matrix, stream=stream) as operator:
        assert operator.dtype == (np.float32 if narrow else np.float64)
        assert operator.dtype.isnative
        check(operator, matrix.astype(np.float64), tolerance=1e-5 if narrow else 1e-12)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_sparse_matrices_of_all_forms_old_and_new(form, stream):
    matrix, array = getattr(scipy.sparse, f"{form}_matrix"), getattr(scipy.sparse, f"{form}_array")
    for made in (matrix(SPARSE), array(SPARSE)):
        with ec.linear_operator(made, stream=stream) as operator:
            check(operator, SPARSE.toarray())


def test_a_matrix_without_entries_gives_zeros(stream):
    with ec.linear_operator(scipy.sparse.csr_array((20, 6)), stream=stream) as operator:
        check(operator, np.zeros((20, 6)))


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_in_a_file_is_read_by_the_workers_from_there(order, tmp_path, monkeypatch):
    matrix = np.random.default_rng(6).standard_normal((203, 64))
    np.save(tmp_path / "matrix.npy", np.asarray(matrix, order=order))
    mapped = np.load(tmp_path / "matrix.npy", mmap_mode="r")
    sizes = []
    with ec.linear_operator(mapped, workers=2, redundancy=1.5) as operator:
        load = operator.stream._cluster.load

        def loaded(key, work):
            packed = operator.stream._cluster.pack(work)
            sizes.append(sum(size for _, size in packed.places))
            load(key, packed)

        monkeypatch.setattr(operator.stream._cluster, "load", loaded)
        check(operator, matrix)
    # parity of four blocks of eight and the one that is not full: half of the matrix, a little more, and not all
    assert len(sizes) == 2
    assert all(size < 0.8 * matrix.nbytes for size in sizes)


def test_no_columns_give_no_columns(stream):
    with ec.linear_operator(DENSE, stream=stream) as operator:
        assert (operator @ np.zeros((17, 0))).shape == (31, 0)
        assert (operator.H @ np.zeros((31, 0), complex)).dtype == complex
        assert (operator.gram() @ np.zeros((17, 0), int)).shape == (17, 0)


def test_whole_numbers_matrices_and_what_is_not_contiguous_may_be_multiplied(stream):
    with ec.linear_operator(DENSE, stream=stream) as operator:
        np.testing.assert_allclose(operator @ np.arange(17), DENSE @ np.arange(17))
        np.testing.assert_allclose(operator @ np.arange(34.0)[::2], DENSE @ np.arange(34.0)[::2])
        np.testing.assert_allclose(operator.matvec(np.ones((17, 1))), DENSE @ np.ones((17, 1)))
        np.testing.assert_allclose(operator.gram(1.0).matvec(np.ones((17, 1)))[:, 0], (DENSE.T @ DENSE).sum(1) + 1)
        twice = 2 * operator + operator  # SciPy's own arithmetic
        np.testing.assert_allclose(twice @ np.ones(17), 3 * DENSE.sum(axis=1))


@pytest.mark.parametrize("x", [np.array([None] * 17), np.array(["1"] * 17)], ids=["objects", "texts"])
def test_vectors_that_are_no_numbers_are_refused(x, stream):
    with (
        ec.linear_operator(DENSE, stream=stream) as operator,
        pytest.raises(ArgumentError, match=r"x: .* is not allowed; must be of real or complex numbers"),
    ):
        operator.matvec(x)


def test_a_vector_of_another_length_is_refused_by_scipy(stream):
    with ec.linear_operator(DENSE, stream=stream) as operator, pytest.raises(ValueError, match="dimension mismatch"):
        operator @ np.ones(16)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ([[1.0]], "A: list is not allowed; must be a NumPy array"),
        (np.ma.ones((2, 2)), "A: MaskedArray is not allowed"),
        (np.eye(2) * 1j, "A: complex128 is not allowed; must be real"),
        (scipy.sparse.eye_array(2) * 1j, "A: complex128 is not allowed; must be real"),
        (np.eye(2).astype(object), "A: object is not allowed; must be of real numbers"),
        (np.ones(3), r"A: shape \(3,\) is not allowed"),
        (np.ones((0, 3)), r"A: shape \(0, 3\) is not allowed"),
        (scipy.sparse.csr_array((3, 0)), r"A: shape \(3, 0\) is not allowed"),
        (scipy.sparse.coo_array(np.ones(3)), r"A: shape \(3,\) is not allowed"),
        (np.array([[1.0, np.inf]]), "matrix: must be finite everywhere"),
    ],
)
def test_matrices_that_are_none_are_refused_and_leave_no_worker(matrix, said):
    with pytest.raises(ArgumentError, match=said):
        ec.linear_operator(matrix, cluster="threads", workers=1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"parts": 0}, "parts: 0 is not allowed"),
        ({"parts": 32}, "parts: 32 is not allowed; must be at most 31"),
        ({"redundancy": 0.5}, "redundancy: 0.5 is not allowed"),
        ({"workers": 0}, "0 is not allowed"),
        ({"cluster": "cloud"}, "cluster: 'cloud' is not allowed"),
        ({"stream": 3}, "stream: 3 is not allowed; must be an open Stream"),
    ],
)
def test_arguments_out_of_range_are_refused(given, said):
    with pytest.raises(ArgumentError, match=said):
        ec.linear_operator(DENSE, **({"cluster": "threads"} | given))


def test_a_shift_that_is_no_number_is_refused(stream):
    with ec.linear_operator(DENSE, stream=stream) as operator, pytest.raises(ArgumentError, match="shift: nan"):
        operator.gram(float("nan"))


def test_what_is_said_of_workers_is_refused_beside_a_stream(stream):
    with pytest.raises(ArgumentError, match="cluster, workers, redundancy: not allowed together with a stream"):
        ec.linear_operator(DENSE, stream=stream, cluster="threads", workers=2, redundancy=2.0)


@pytest.mark.parametrize(("parts", "expected"), [(None, (11, 9)), (5, (5, 5)), (31, (31, 17))])
def test_rows_are_cut_into_four_blocks_a_worker_unless_parts_says_otherwise(parts, expected, stream):
    """31 rows in twelve blocks would leave one empty; so there are eleven of three, and nine of two of the others."""
    with ec.linear_operator(DENSE, stream=stream, parts=parts) as operator:
        check(operator, DENSE)
        assert tuple(kept.job.parts for kept in operator._stores) == expected


@pytest.mark.parametrize(("redundancy", "copies"), [(1.0, 1), (1.01, 2), (2.0, 2), (2.5, 3), (9.0, 4)])
def test_redundancy_is_rounded_up_to_copies_of_sparse_blocks(redundancy, copies):
    with ec.linear_operator(SPARSE, cluster="threads", workers=4, redundancy=redundancy) as operator:
        (kept,) = operator._stores
        assert kept.job.plan.tasks == copies * kept.job.parts
        check(operator, SPARSE.toarray())


@pytest.mark.parametrize("matrix", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_products_stay_right_when_a_worker_is_always_late(matrix):
    """It takes five times as long for a block as the others: parity or backups take the place of what it lacks."""
    job = ec.Workload(critical=1, redundancy=1.0, iterations=1, arrivals=ec.Arrivals.poisson(1e-3))
    workers = [ec.Worker(f"w{p}", mean=mean, std=0.0, law="deterministic") for p, mean in enumerate((1e-4, 1e-4, 5e-4))]
    emulated = ec.Profile(job, workers)
    with ec.linear_operator(matrix, cluster="threads", emulate=emulated, redundancy=2.0) as operator:
        check(operator, matrix.toarray() if scipy.sparse.issparse(matrix) else matrix)


def test_many_threads_at_once_get_their_own_products(stream):
    vectors = np.random.default_rng(1).standard_normal((40, 17))
    with ec.linear_operator(DENSE, stream=stream) as operator, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda x: operator.gram(0.1) @ x, vectors))
        assert len(operator._stores) == 2
    np.testing.assert_allclose(found, vectors @ (DENSE.T @ DENSE + 0.1 * np.eye(17)), atol=1e-11)


# the end


def test_a_stream_that_was_given_goes_on_without_the_operator_s_data(stream):
    unloads = []
    unload = stream._cluster.unload
    stream._cluster.unload = lambda key: (unloads.append(key), unload(key))
    operator = ec.linear_operator(DENSE, stream=stream)
    gram = operator.gram()
    gram @ np.ones(17)
    operator.close()
    operator.close()
    for closed, ones in ((operator, np.ones(17)), (operator.H, np.ones(31)), (gram, np.ones(17))):
        with pytest.raises(ClusterError, match="this operator is closed"):
            closed @ ones
    forgotten = ec.linear_operator(SPARSE, stream=stream)
    forgotten @ np.ones(29)
    del forgotten
    gc.collect()
    with ec.linear_operator(SPARSE, stream=stream) as other:
        check(other, SPARSE.toarray())
        assert len(unloads) == 3  # both of the first, and the one of the second
    stream._cluster.unload = unload


def test_an_operator_closes_the_stream_that_it_opened():
    with ec.linear_operator(DENSE, cluster="threads", workers=2) as operator:
        pass
    with pytest.raises(ClusterError, match="closed"):
        operator.stream.submit(ec.LinearJob(matrix=DENSE, update=max, state=0, parts=1, iterations=1))
    with pytest.raises(ClusterError, match="this operator is closed"):
        operator @ np.ones(17)


def test_an_operator_that_is_forgotten_closes_its_stream_unless_its_gram_operator_is_in_use():
    operator = ec.linear_operator(DENSE, cluster="threads", workers=2)
    thread = operator.stream._turning._thread
    gram = operator.gram()
    del operator
    gc.collect()
    np.testing.assert_allclose(gram @ np.ones(17), DENSE.T @ DENSE.sum(axis=1))
    del gram
    gc.collect()
    assert not thread.is_alive()


def test_an_operator_that_is_collected_in_its_stream_s_own_thread_closes_it_all_the_same():
    operator = ec.linear_operator(DENSE, cluster="threads", workers=2)
    operator @ np.ones(17)
    thread, holders = operator.stream._turning._thread, [operator]
    operator.stream._driver.order(holders.clear)
    del operator
    thread.join(LIMIT_S)
    assert not thread.is_alive()


SCRIPT = """
import numpy as np, echelon as ec
operator = ec.linear_operator(np.eye(8), workers=2)
operator @ np.ones(8)
print(*operator.stream._cluster.pids().values(), flush=True)
input()
"""


def test_a_program_that_ends_with_an_open_operator_leaves_no_process():
    program = subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    watched = [os.pidfd_open(int(pid)) for pid in program.stdout.readline().split()]
    assert len(watched) == 2
    program.communicate("\n", timeout=LIMIT_S)
    assert program.returncode == 0
    for descriptor in watched:
        assert select.select([descriptor], [], [], LIMIT_S)[0], "a process outlived its master"
        os.close(descriptor)
