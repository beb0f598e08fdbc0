"""Where fits run: on a stream of their own, or on one that is open already; and sums over chunks, round by round."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, Protocol

from echelon import checks
from echelon.endings import Policy
from echelon.errors import ArgumentError
from echelon.jobs import SumJob
from echelon.stream import Stream

_LEAST = 8  # chunks: with fewer, a small redundancy rounds to none
_PER_WORKER = 4  # chunks per worker: enough to share them out by speed
_TOLERANCE = 1e-12  # of a sum; a line search would notice a coarser one

_stream: ContextVar[Stream | None] = ContextVar("echelon.sklearn.stream", default=None)

Total = Callable[[Any], Any]


class Spread(Protocol):
    """The parameters that all estimators have in common."""

    cluster: str
    workers: int | None
    redundancy: float | None
    chunks: int | None


@contextmanager
def using(stream: Stream) -> Iterator[Stream]:
    """Let fits inside use this stream, which stays open, instead of opening their own.

    Their `cluster`, `workers` and `redundancy` are then not used. The innermost one counts. It holds for this thread,
    and for what runs in a copy of its context (`asyncio.to_thread`, `contextvars.copy_context`); other threads are not
    affected.

    >>> import numpy as np
    >>> from echelon.sklearn import Ridge
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 3.0, 5.0, 7.0])
    >>> with Stream(cluster="threads", workers=2) as stream, using(stream):
    ...     [round(float(Ridge(alpha=alpha).fit(X, y).coef_[0]), 6) for alpha in (0.0, 5.0)]
    [2.0, 1.0]
    """
    if not isinstance(stream, Stream):
        raise ArgumentError(f"stream: {stream!r} is not allowed; must be an echelon.Stream that is open")
    token = _stream.set(stream)
    try:
        yield stream
    finally:
        _stream.reset(token)


@contextmanager
def summing(
    spread: Spread,
    partial: Callable[[Any, Any], Any],
    pieces: int,
    cut: Callable[[slice], Any],
    ending: Policy | None = None,
) -> Iterator[Total]:
    """Give a function of a state: the sum of ``partial(state, chunk)`` over all chunks, computed on a cluster.

    pieces: what the data can be cut into at most. cut: returns the chunk of some of them. ending: a policy by which
        sums may do without some chunks.
    """
    if spread.chunks is not None:
        checks.whole("chunks", spread.chunks, least=1)
    with _open(spread) as stream:
        wanted = max(_LEAST, _PER_WORKER * stream.workers) if spread.chunks is None else spread.chunks
        job = SumJob(
            partial=partial,
            update=_found,
            state=None,
            chunks=[cut(some) for some in slices(pieces, min(wanted, pieces))],
            iterations=1,
            tolerance=_TOLERANCE,
            ending=ending,
        )
        with stream.keep(job) as kept:
            yield kept.run


@contextmanager
def _open(spread: Spread) -> Iterator[Stream]:
    given = _stream.get()
    if given is not None:
        yield given
        return
    with Stream(
        cluster=spread.cluster, workers=spread.workers, redundancy=spread.redundancy, progress=False
    ) as stream:  # fmt: skip
        yield stream


def _found(state: Any, found: Any) -> Any:
    return found


def slices(pieces: int, parts: int) -> Sequence[slice]:
    """Return parts of about equal size.

    >>> slices(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    edges = [pieces * i // parts for i in range(parts + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]
