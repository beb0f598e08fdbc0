"""Matrix products as a stream: factors in, products out, exact whatever the workers do."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from echelon import checks
from echelon.arrays import NumberArray
from echelon.closing import Closing
from echelon.clusters import Cluster
from echelon.codes.combine import inexact
from echelon.errors import ArgumentError, ClusterError, JobFailed
from echelon.products.chain import ChainJob, Product
from echelon.products.factors import Factor
from echelon.products.feed import Feed
from echelon.products.future import ProductFuture
from echelon.products.results import Results
from echelon.profile import Profile
from echelon.schemes import Sequential, Window
from echelon.stream import Stream

Pair = tuple[Any, Any]
TOLERANCE = 2.4e-5  # noise amplified 200 times in float32: one product in 400 waits for it


class MatmulStream(Closing):
    """A stream of products X Y, coded over workers and over rounds (sequential, section 3).

    cluster: as for `Stream`: a name, or a cluster that is started already.
    scheme: from `schemes.diagonal_interleaved`, `improved_diagonal_interleaved`, `polynomial_products` or
        `uncoded_products`, for as many workers as the cluster has.
    delay_rounds: T, to check that the scheme has it: a product may need the result of the one T + 2 before it.
    emulate, record, patience_s, part_timeout_s, progress, seed: as for `Stream`.
    unit: how many multiplications take emulated workers one time of their law; by default those of the first
        product.
    ahead: whether the master makes coded factors for the next round while workers multiply; otherwise each worker makes
        its own. By default if the machine has more processors than workers.
    threads: of the master, for coding and decoding; by default as many as the machine has processors.
    tolerance: relative error that decoding may bring in; where it would be more, the product waits for one more result.

    >>> from echelon.schemes import diagonal_interleaved
    >>> scheme = diagonal_interleaved(2, x=1, y=3, delay=1, tolerance=0.1)
    >>> with MatmulStream("threads", scheme) as stream:
    ...     stream.submit(np.eye(3), np.arange(12.0).reshape(3, 4)).result()[2].round(9).tolist()
    [8.0, 9.0, 10.0, 11.0]
    """

    def __init__(
        self,
        cluster: str | Cluster,
        scheme: Sequential,
        *,
        delay_rounds: int | None = None,
        emulate: Profile | None = None,
        record: str | Path | None = None,
        patience_s: float | None = None,
        part_timeout_s: float | None = None,
        progress: bool | None = None,
        unit: float | None = None,
        ahead: bool | None = None,
        threads: int | None = None,
        tolerance: float = TOLERANCE,
        seed: int = 1,
    ) -> None:
        if not isinstance(scheme, Sequential):
            raise ArgumentError(f"scheme: {scheme!r} is not allowed; must come from schemes.diagonal_interleaved, say")
        if delay_rounds not in (None, scheme.delay):
            raise ArgumentError(
                f"delay_rounds: {delay_rounds!r} is not allowed; the scheme has a delay of {scheme.delay}"
            )
        self.scheme = scheme
        self._tolerance = checks.number("tolerance", tolerance, above=0)
        self._unit = None if unit is None else checks.number("unit", unit, above=0)
        processors = os.cpu_count() or 1
        crew = processors if threads is None else checks.whole("threads", threads, least=1, most=4096)
        scheme.code  # noqa: B018 - made here, because it may take longer than a product
        self._feed = Feed()
        self._entering = Lock()  # products wait in the order of their numbers
        self._outstanding: dict[int, Product] = {}
        self._loaded: list[Factor] = []  # that workers have; only for the driving thread
        self._next = 0
        self._closed = False
        self._stream = Stream(
            cluster,
            workers=scheme.workers if isinstance(cluster, str) and emulate is None else None,
            emulate=emulate,
            adapt=False,
            record=record,
            patience_s=patience_s,
            part_timeout_s=part_timeout_s,
            progress=progress,
            seed=seed,
        )
        self._ahead = not self._stream.virtual and processors > scheme.workers if ahead is None else bool(ahead)
        # in virtual time nothing may take real time or depend on the machine
        self._pool: Executor = AtOnce() if self._stream.virtual else ThreadPoolExecutor(crew, "echelon-products")
        if self._stream.workers != scheme.workers:
            found = self._stream.workers
            self.close(wait=False)
            raise ArgumentError(f"scheme: it is for {scheme.workers} workers; the cluster has {found}")

    # factors in

    def keep(self, matrix: Any) -> Factor:
        """Send a matrix to the workers once, as a factor of many products; `Factor.drop` lets them forget it."""
        return self._factor("matrix", matrix, kept=True)

    def _factor(self, name: str, matrix: Any, *, kept: bool = False) -> Factor:
        if isinstance(matrix, Factor):
            if matrix.owner is not self:
                raise ArgumentError(f"{name}: {matrix!r} is not allowed; it was kept by another stream")
            return matrix
        if isinstance(matrix, np.ma.MaskedArray):
            raise ArgumentError(f"{name}: a masked array is not allowed; fill it first (`.filled(0.0)`)")
        array = inexact(np.asarray(matrix)) if np.asarray(matrix).dtype.kind in "biufc" else np.empty(0)
        if array.ndim != 2 or not array.size or array.dtype.char not in "fdFD":
            raise ArgumentError(
                f"{name}: {type(matrix).__name__} of shape {np.shape(matrix)} is not allowed; must be a matrix of "
                "float32, float64 or complex numbers, and not empty"
            )
        return Factor(self._stream.pack(np.ascontiguousarray(array)), self, kept=kept)

    def submit(self, first: Any, second: Any) -> Future[NumberArray]:
        """Put a product at the end of the queue; return its future, which has the result as soon as it is there.

        first, second: matrices, copied before this returns, or what `keep` gave.
        """
        return self._submit(first, second).future

    def _submit(self, first: Any, second: Any) -> Product:
        left, right = self._factor("first", first), self._factor("second", second)
        if left.shape[1] != right.shape[0]:
            raise ArgumentError(f"second: shape {right.shape} is not allowed; must fit {left.shape} for a product")
        work = float(left.shape[0]) * left.shape[1] * right.shape[1]
        with self._entering:
            if self._closed:
                raise ClusterError("this stream is closed: it takes no more products")
            self._unit = work if self._unit is None else self._unit
            product = Product(
                self._next, left, right, work / self._unit, ProductFuture(self._feed, self._stream.pass_time)
            )
            self._next += 1
            left.users += 1
            right.users += 1
            self._outstanding[product.number] = product
            product.future.add_done_callback(lambda _: self._outstanding.pop(product.number, None))
            if self._feed.put(product):
                self._begin_or_fail()
        return product

    # the chain

    def _begin(self) -> None:
        job = ChainJob(
            Window(self.scheme),
            self._feed,
            self._pool,
            ahead=self._ahead,
            loaded=self._loaded,
            tolerance=self._tolerance,
        )
        handle = self._stream.submit(job, deliver=False)
        handle.add_done_callback(partial(self._over, job))

    def _begin_or_fail(self) -> None:
        """Begin a chain; if the stream is broken, all that waits for it fails."""
        try:
            self._begin()
        except ClusterError as broken:
            for product in self._feed.stop():
                _fail(product, broken)
            raise

    def _over(self, job: ChainJob, handle: Future[Any]) -> None:
        """Note that a chain ended: what it left undone fails; what waits begins another one."""
        try:
            error = handle.exception()
        except CancelledError as cancelled:
            error = cancelled
        if error is None:
            return
        for product in job.abandon(closed=not isinstance(error, JobFailed)):
            _fail(product, error)
        if self._feed.ended():
            with suppress(ClusterError):  # those that wait are told
                self._begin_or_fail()

    # products out

    def products(
        self, pairs: Iterable[Pair] | Callable[[Results], Iterable[Pair]], *, ahead: int | None = None
    ) -> Iterator[NumberArray]:
        """Yield the products of pairs of factors, in order.

        pairs: the factors; or a function that yields them, called with the results so far: ``results[i]`` waits for the
            product of pair i, counted from 0. A round waits for the next pair while it is being made, unless it needs a
            result that only further rounds can give. Pairs that need nothing newer than the result delay + 2 before
            them are never late.
        ahead: pairs taken before the oldest result is; by default twice the delay plus four.

        >>> from echelon.schemes import polynomial_products
        >>> def powers(results):
        ...     yield np.full((1, 1), 2.0), np.full((1, 1), 2.0)
        ...     for i in range(3):
        ...         yield results[i], np.full((1, 1), 2.0)
        >>> with MatmulStream("threads", polynomial_products(2, x=1, y=1)) as stream:
        ...     [round(float(product[0, 0]), 9) for product in stream.products(powers)]
        [4.0, 8.0, 16.0, 32.0]
        """
        room = 2 * self.scheme.delay + 4 if ahead is None else checks.whole("ahead", ahead, least=1)
        results = Results()
        source = iter(pairs(results) if callable(pairs) else pairs)
        left: deque[Product] = deque()
        try:
            while True:
                self._feed.busy(True)
                pair = next(source, None)
                if pair is None:
                    break
                if not isinstance(pair, tuple | list) or len(pair) != 2:
                    raise ArgumentError(f"pairs: {type(pair).__name__} is not allowed; must give pairs of factors")
                product = self._submit(*pair)
                left.append(product)
                results.append(product)
                if len(left) > room:
                    self._feed.busy(False)
                    yield left.popleft().future.result()
        finally:
            self._feed.busy(False)
        while left:
            yield left.popleft().future.result()

    # the end

    def close(self, *, wait: bool = True) -> None:
        """Wait for all outstanding products, or with ``wait=False`` drop them; then stop all workers."""
        with self._entering:
            if self._closed and not self._outstanding:
                return
            self._closed = True
        if wait:
            left = [product.future for product in list(self._outstanding.values())]
            self._stream.pass_time(lambda: all(future.done() for future in left), None)
            wait_for(left)
        self._feed.stop()
        self._stream.close(wait=False)
        self._pool.shutdown(wait=True, cancel_futures=True)
        for product in list(self._outstanding.values()):
            _fail(product, CancelledError(f"product {product.number} was dropped"))

    def _leave(self, *, well: bool) -> None:
        self.close(wait=well)


class AtOnce(Executor):
    """A pool that does everything in the calling thread."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Return what a function gave, or its error."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future


def _fail(product: Product, error: BaseException) -> None:
    """Fail a product for those that wait for it, unless it just came."""
    with suppress(InvalidStateError):
        product.future.set_exception(error)
