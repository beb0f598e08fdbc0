"""SciPy's solvers on a coded operator: the same answers as on the matrix itself, while workers die mid-solve."""

import time
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg, eigsh, lsqr, svds

import echelon as ec
from bench.results import markdown_table
from bench.timing import best_of
from echelon.operators import CodedOperator

ROWS, COLUMNS, WORKERS = 20_000, 2_000, 8
STRONG = np.linspace(800.0, 300.0, 6)  # singular values beside the noise, which has 97 to 186
SHIFT, TIGHT, LARGEST = 10.0, 1e-12, 5
BOUND = 1e-8
REPEATS = 30


def report() -> str:
    matrix, side = _problem()
    vectors = {"A @ x": np.ones(COLUMNS), "A.T @ y": np.ones(ROWS)}
    with ec.linear_operator(matrix, workers=WORKERS) as operator:
        start = time.perf_counter()
        operator.gram() @ vectors["A @ x"]
        sent = time.perf_counter() - start
        taken = best_of(
            {
                "plain A @ x": lambda: matrix @ vectors["A @ x"],
                "coded A @ x": lambda: operator.matvec(vectors["A @ x"]),
                "plain A.T @ y": lambda: matrix.T @ vectors["A.T @ y"],
                "coded A.T @ y": lambda: operator.rmatvec(vectors["A.T @ y"]),
            },
            REPEATS,
        )
        solved = [_row(name, solver, matrix, side, operator) for name, solver in SOLVERS.items()]
    products = [
        [name, f"{1e3 * taken[f'plain {name}']:.1f}", f"{1e3 * taken[f'coded {name}']:.1f}"] for name in vectors
    ]
    return (
        f"{ROWS} x {COLUMNS} in float64, {WORKERS} worker processes, redundancy 1.25. Plain: NumPy in one process, "
        f"with as many threads as it likes. The first products send A and its transpose, coded, in {sent:.1f} s; after "
        f"that, the best of {REPEATS} in turns:\n\n"
        + markdown_table(["product", "plain (ms)", "coded (ms)"], products)
        + "\n\nTwo of the workers are killed, after a third and after half of the products. The error is that of the "
        f"answer against the plain one, relative to its size. Wanted: at most {BOUND:g}.\n\n"
        + markdown_table(["solver", "products", "plain (s)", "coded (s)", "two killed (s)", "error"], solved)
    )


def _problem() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    left, right = (np.linalg.qr(rng.standard_normal((size, len(STRONG))))[0] for size in (ROWS, COLUMNS))
    matrix = rng.standard_normal((ROWS, COLUMNS))
    matrix += (left * STRONG) @ right.T
    return matrix, rng.standard_normal(ROWS)


# answers: arrays that do not depend on the signs of singular vectors


def _cg(operator: LinearOperator, side: np.ndarray) -> np.ndarray:
    found, failed = cg(_gram(operator, SHIFT), operator.rmatvec(side), rtol=TIGHT)
    assert not failed
    return np.asarray(found)


def _lsqr(operator: LinearOperator, side: np.ndarray) -> np.ndarray:
    return np.asarray(lsqr(operator, side, atol=TIGHT, btol=TIGHT)[0])


def _eigsh(operator: LinearOperator, side: np.ndarray) -> np.ndarray:
    values, vectors = eigsh(_gram(operator, 0.0), k=LARGEST, v0=np.ones(COLUMNS))
    return np.asarray((vectors * values) @ vectors.T)


def _svds(operator: LinearOperator, side: np.ndarray) -> np.ndarray:
    left, values, right = svds(operator, k=LARGEST, v0=np.ones(COLUMNS))
    return np.asarray(np.concatenate([left[:COLUMNS], right.T]) * values @ right)


def _gram(operator: LinearOperator, shift: float) -> LinearOperator:
    if isinstance(operator, CodedOperator):
        return operator.gram(shift)

    def product(x: np.ndarray) -> np.ndarray:
        return np.asarray(operator.rmatvec(operator.matvec(x)) + shift * x)

    return LinearOperator((operator.shape[1],) * 2, matvec=product, dtype=operator.dtype)


SOLVERS: dict[str, Callable[[LinearOperator, np.ndarray], np.ndarray]] = {
    "cg": _cg,
    "eigsh": _eigsh,
    "svds": _svds,
    "lsqr": _lsqr,
}


def _row(
    name: str,
    solver: Callable[[LinearOperator, np.ndarray], np.ndarray],
    matrix: np.ndarray,
    side: np.ndarray,
    operator: CodedOperator,
) -> list[str]:
    plain = _Watched(aslinearoperator(matrix))
    answer, plain_s = _timed(lambda: solver(plain, side))
    coded, coded_s = _timed(lambda: solver(operator, side))
    cluster: Any = operator.stream._cluster
    fatal = {plain.products // 3, plain.products // 2}
    watched = _Watched(operator, fatal, lambda: cluster.kill(max(cluster.pids())))
    killed, killed_s = _timed(lambda: solver(watched, side))
    assert watched.products >= max(fatal)
    error = max(float(np.linalg.norm(found - answer) / np.linalg.norm(answer)) for found in (coded, killed))
    assert error <= BOUND, f"{name}: {error:.1e}"
    return [name, str(plain.products), f"{plain_s:.2f}", f"{coded_s:.2f}", f"{killed_s:.2f}", f"{error:.0e}"]


def _timed(action: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    found = action()
    return found, time.perf_counter() - start


class _Watched(LinearOperator):
    """Counts products with vectors and columns, and lets something happen before some of them."""

    def __init__(
        self, operator: LinearOperator, at: Collection[int] = (), accident: Callable[[], None] | None = None
    ) -> None:
        self._operator, self._at, self._accident = operator, at, accident
        self.products = 0
        super().__init__(operator.dtype, operator.shape)

    def _count(self) -> None:
        self.products += 1
        if self._accident is not None and self.products in self._at:
            self._accident()

    def _matvec(self, x: np.ndarray) -> Any:
        self._count()
        return self._operator.matvec(x)

    def _rmatvec(self, x: np.ndarray) -> Any:
        self._count()
        return self._operator.rmatvec(x)

    def _matmat(self, X: np.ndarray) -> Any:
        self._count()
        return self._operator.matmat(X)

    def _rmatmat(self, X: np.ndarray) -> Any:
        self._count()
        return self._operator.rmatmat(X)


if __name__ == "__main__":
    print(report())
