"""The operator of a matrix: its products, and those of its transpose, are computed by the workers of a stream."""

import weakref
from threading import Lock, Thread
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from echelon import checks
from echelon.arrays import NumberArray
from echelon.closing import Closing
from echelon.errors import ClusterError
from echelon.operators.gram import GramOperator
from echelon.operators.stores import keep, times
from echelon.stream import Stream
from echelon.stream.kept import Kept


class CodedOperator(LinearOperator, Closing):  # type: ignore[misc]
    """A matrix as a linear operator; from `echelon.linear_operator`, which says more.

    Several threads may use it at a time. Products are formed in the precision of the matrix, which is `dtype`.

    stream: where its products are computed; other jobs may be submitted to it.
    owned: whether the stream ends with the operator.
    """

    def __init__(self, matrix: Any, stream: Stream, *, parts: int | None, owned: bool) -> None:
        self.stream = stream
        self._parts, self._owned = parts, owned
        self._matrix, kept = keep(stream, matrix, parts)
        self._stores = [kept]  # and the transpose's, once needed
        self._storing = Lock()
        super().__init__(self._matrix.dtype, self._matrix.shape)
        # the stream's own thread refers to it: without this it would outlive a forgotten operator
        self._end = weakref.finalize(self, _release, self._stores, stream if owned else None)

    def gram(self, shift: float = 0.0) -> GramOperator:
        """Return the symmetric operator of ``A.T @ A + shift * I``, which uses the same workers and the same data."""
        return GramOperator(self, checks.number("shift", shift))

    def close(self, *, wait: bool = True) -> None:
        """Let the workers forget the matrix, and end the stream if it is the operator's own; may be repeated.

        wait: whether to wait for products of other threads, where the stream ends.
        """
        with self._storing:
            closing = self._end.detach() is not None
            _drop(self._stores)
        if closing and self._owned:
            self.stream.close(wait=wait)

    def _leave(self, *, well: bool) -> None:
        self.close(wait=well)

    def _store(self, number: int) -> Kept:
        with self._storing:
            if not self._end.alive:
                raise ClusterError("this operator is closed: it forms no more products")
            if number == len(self._stores):
                self._stores.append(keep(self.stream, self._matrix.T, self._parts)[1])
            return self._stores[number]

    # what SciPy asks for

    def _matmat(self, X: Any) -> NumberArray:
        return times(self._store(0), np.asarray(X), self.shape[0])

    def _rmatmat(self, X: Any) -> NumberArray:
        return times(self._store(1), np.asarray(X), self.shape[1])

    def _matvec(self, x: Any) -> NumberArray:
        return self._matmat(np.asarray(x).reshape(-1))

    def _rmatvec(self, x: Any) -> NumberArray:
        return self._rmatmat(np.asarray(x).reshape(-1))

    def _transpose(self) -> Any:
        return self.H  # the matrix is real


def _release(stores: list[Kept], stream: Stream | None) -> None:
    """Close what was never closed."""
    _drop(stores)
    if stream is None:
        return
    try:
        stream.close(wait=False)
    except ClusterError:  # garbage collection may run in the stream's own thread, which can't wait for its own end
        Thread(target=stream.close, kwargs={"wait": False}, name="echelon-close").start()


def _drop(stores: list[Kept]) -> None:
    for kept in stores:
        kept.drop()
