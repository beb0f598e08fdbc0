"""The public call: a matrix in, an operator with workers out."""

from inspect import signature
from typing import Any

import numpy as np
from scipy.sparse import issparse

from echelon import checks
from echelon.clusters import Cluster
from echelon.errors import ArgumentError
from echelon.operators.coded import CodedOperator
from echelon.operators.stores import MOST_PARTS
from echelon.profile import Profile
from echelon.stream import Stream


def linear_operator(
    A: Any,
    *,
    cluster: str | Cluster = "processes",
    workers: int | None = None,
    redundancy: float | None = None,
    parts: int | None = None,
    stream: Stream | None = None,
    emulate: Profile | None = None,
    seed: int = 1,
    progress: bool | None = False,
) -> CodedOperator:
    """Return a matrix as a `scipy.sparse.linalg.LinearOperator` whose products are computed by coded workers.

    A: real, with two axes: a NumPy array, whose blocks of rows a systematic MDS code protects; a memory-mapped one,
        which workers read from its file; or any sparse matrix of SciPy, whose blocks other workers repeat, since parity
        would be dense. Numbers other than float32 and float64 are converted. Do not change it while the
        operator is in use.
    redundancy: coded blocks per block that a product needs; by default what the spread of the workers asks for, once
        some products have shown it (`Stream`). For a sparse matrix, rounded up, how many workers have a block in their
        lanes: 1 for no backups, up to 2 for one; by default idle workers repeat what is late.
    parts: blocks that the rows are cut into; by default four per worker.
    stream: one that is open already, and stays open; it then sets workers and redundancy.

    For the others see `echelon.Stream`. The operator closes what it opened with `close`, at the end of a ``with``, when
    nothing refers to it any more, and when the program ends.

    The matrix goes to the workers with the first product. The first product with its transpose sends that, too, coded
    separately: from then on workers hold twice as much, except for what lies in a file.

    >>> from scipy.sparse.linalg import lsqr
    >>> A = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    >>> with linear_operator(A, cluster="threads", workers=2) as operator:
    ...     lsqr(operator, np.array([1.0, 2.0, 3.0]))[0].round(9) + 0.0
    array([0., 1.])
    """
    _check_matrix(A)
    if parts is not None:
        checks.whole("parts", parts, least=1, most=min(A.shape[0], MOST_PARTS))
    options: dict[str, Any] = {
        "cluster": cluster,
        "workers": workers,
        "redundancy": redundancy,
        "emulate": emulate,
        "seed": seed,
        "progress": progress,
    }
    if stream is None:
        opened = Stream(**options)
        try:
            return CodedOperator(A, opened, parts=parts, owned=True)
        except BaseException:
            opened.close(wait=False)
            raise
    if not isinstance(stream, Stream):
        raise ArgumentError(f"stream: {stream!r} is not allowed; must be an open Stream")
    usual = signature(linear_operator).parameters
    given = [name for name, value in options.items() if value != usual[name].default]
    if given:
        raise ArgumentError(f"{', '.join(given)}: not allowed together with a stream, which has its own")
    return CodedOperator(A, stream, parts=parts, owned=False)


def _check_matrix(A: Any) -> None:
    if not issparse(A) and type(A) not in (np.ndarray, np.memmap):
        raise ArgumentError(
            f"A: {type(A).__name__} is not allowed; must be a NumPy array, memory-mapped or not, or a sparse matrix of "
            "SciPy"
        )
    if A.dtype.kind == "c":
        raise ArgumentError(
            f"A: {A.dtype} is not allowed; must be real (an operator of A.real and one of A.imag make up a complex one)"
        )
    if A.dtype.kind not in "iufb":
        raise ArgumentError(f"A: {A.dtype} is not allowed; must be of real numbers")
    if A.ndim != 2 or not all(A.shape):
        raise ArgumentError(f"A: shape {A.shape} is not allowed; must have two axes, neither of them empty")
