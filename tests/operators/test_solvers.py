"""SciPy's solvers on coded operators find what NumPy finds, whatever happens to the workers meanwhile."""

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg, eigsh, gmres, lobpcg, lsmr, lsqr, svds

import echelon as ec

TIGHT = 1e-13
RNG = np.random.default_rng(12)
LEFT, RIGHT = (np.linalg.qr(RNG.standard_normal((size, 24)))[0] for size in (90, 24))
TALL = (LEFT * np.linspace(1.0, 4.0, 24)) @ RIGHT.T  # 90 x 24, of known singular values
SQUARE = np.eye(40) * 5.0 + RNG.standard_normal((40, 40)) * 0.5
SYMMETRIC = np.diag(np.arange(60.0)) + 0.1 * (lambda noise: noise + noise.T)(RNG.standard_normal((60, 60)))
TARGET = RNG.standard_normal(90)


def kept_entries(matrix):
    """Return a sparse matrix with the diagonal and a third of the rest, symmetric where the matrix is."""
    at = np.add.outer(np.arange(matrix.shape[0]), np.arange(matrix.shape[1]))
    return scipy.sparse.csr_array(np.where((at % 3 == 0) | (at % 2 == 0), matrix, 0.0))


FORMS = {"dense": lambda matrix: matrix, "CSR": kept_entries}


@pytest.fixture(scope="module")
def stream():
    with ec.Stream("threads", workers=4, redundancy=1.5) as opened:
        yield opened


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param]


def plain(matrix):
    return matrix.toarray() if scipy.sparse.issparse(matrix) else matrix


def near(ours, theirs):
    """Say whether an answer is right to 1e-8, relative to its size."""
    return np.linalg.norm(ours - theirs) <= 1e-8 * np.linalg.norm(theirs)


def test_cg_solves_the_normal_equations(form, stream):
    matrix = form(TALL)
    array, shift = plain(matrix), 0.3
    with ec.linear_operator(matrix, stream=stream) as operator:
        found, failed = cg(operator.gram(shift), array.T @ TARGET, rtol=TIGHT)
    assert not failed
    assert near(found, np.linalg.solve(array.T @ array + shift * np.eye(24), array.T @ TARGET))


def test_gmres_solves_systems_that_are_not_symmetric_with_complex_sides_too(form, stream):
    matrix, side = form(SQUARE), RNG.standard_normal(40)
    with ec.linear_operator(matrix, stream=stream) as operator:
        for right in (side, side + 1j * side[::-1]):
            found, failed = gmres(operator, right, rtol=TIGHT)
            assert not failed
            assert near(found, np.linalg.solve(plain(matrix), right))


@pytest.mark.parametrize("solver", [lsqr, lsmr])
def test_least_squares(solver, form, stream):
    matrix = form(TALL)
    with ec.linear_operator(matrix, stream=stream) as operator:
        found = solver(operator, TARGET, atol=TIGHT, btol=TIGHT)[0]
    assert near(found, np.linalg.lstsq(plain(matrix), TARGET)[0])


def test_eigsh_finds_the_largest_eigenvalues_and_their_vectors(form, stream):
    matrix = form(SYMMETRIC)
    with ec.linear_operator(matrix, stream=stream) as operator:
        values, vectors = eigsh(operator, k=4, v0=np.ones(60))
    wanted, directions = np.linalg.eigh(plain(matrix))
    assert near(values, wanted[-4:])
    assert near(np.abs(np.sum(vectors * directions[:, -4:], axis=0)), np.ones(4))


def test_svds_finds_the_largest_singular_values_and_their_vectors(form, stream):
    matrix = form(TALL)
    with ec.linear_operator(matrix, stream=stream) as operator:
        left, values, right = svds(operator, k=3, v0=np.ones(24))
    exact = np.linalg.svd(plain(matrix), full_matrices=False)
    best = (exact[0][:, :3] * exact[1][:3]) @ exact[2][:3]
    assert near(np.sort(values)[::-1], exact[1][:3])
    assert near((left * values) @ right, best)


def test_lobpcg_finds_the_largest_eigenvalues(form, stream):
    matrix = form(SYMMETRIC)
    with ec.linear_operator(matrix, stream=stream) as operator:
        values, _ = lobpcg(operator, np.random.default_rng(1).standard_normal((60, 4)), tol=1e-7, maxiter=300)
    assert near(np.sort(values), np.linalg.eigvalsh(plain(matrix))[-4:])


def accidents(operator, at):
    """Return an operator of whose workers the youngest dies just before some of its products, by number."""
    count = 0

    def product(multiply):
        def multiplied(x):
            nonlocal count
            count += 1
            if count in at:
                cluster = operator.stream._cluster
                cluster.kill(max(cluster.pids()))
            return multiply(x)

        return multiplied

    return LinearOperator(
        operator.shape, matvec=product(operator.matvec), rmatvec=product(operator.rmatvec), dtype=operator.dtype
    )


@pytest.mark.parametrize("name", FORMS)
def test_workers_that_die_in_mid_solve_change_no_answer(name):
    matrix = FORMS[name](TALL)
    array = plain(matrix)
    with ec.linear_operator(matrix, workers=4) as operator:
        cluster, steps = operator.stream._cluster, []

        def step(_):
            steps.append(max(cluster.pids()))
            if len(steps) in (3, 6):
                cluster.kill(steps[-1])

        found, failed = cg(operator.gram(0.3), array.T @ TARGET, rtol=TIGHT, callback=step)
        assert not failed
        assert near(found, np.linalg.solve(array.T @ array + 0.3 * np.eye(24), array.T @ TARGET))
        assert len(steps) > 6
        values = svds(accidents(operator, {4, 5, 9}), k=3, v0=np.ones(24), return_singular_vectors=False)
        assert near(np.sort(values), np.linalg.svd(array, compute_uv=False)[2::-1])
        squares = lsqr(accidents(operator, {2, 11}), TARGET, atol=TIGHT, btol=TIGHT)[0]
        assert near(squares, np.linalg.lstsq(array, TARGET)[0])


def test_a_solver_takes_the_steps_that_it_takes_on_the_matrix_itself(stream):
    """Blocks and, where somebody is late, parity change rounding alone."""
    with ec.linear_operator(TALL, stream=stream) as operator:
        ours, theirs = (lsqr(one, TARGET, atol=1e-6, btol=1e-6) for one in (operator, aslinearoperator(TALL)))
    assert ours[2] == theirs[2]
    assert near(ours[0], theirs[0])
