"""A stream of products as one job of the master: one round after another, as long as there are products.

The driver calls `open` and `close`; encoding ahead and decoding happen in a pool, while workers multiply.
"""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from echelon.clusters import Cluster, Message, new_key
from echelon.codes import Code, ProductCode, Weights
from echelon.codes.products import assemble_product
from echelon.jobs import Collected, RoundJob
from echelon.plan import Plan
from echelon.products.factors import Factor, ProductWork, RoundFactors, coded_pair
from echelon.products.future import ProductFuture
from echelon.schemes import RoundPlan, Window


@dataclass(eq=False, slots=True)
class Product:
    """A product under way.

    messages: results that came, by row. ahead: coded factors that are being made for its next round.
    keys: of the loaded coded factors.
    """

    number: int
    first: Factor
    second: Factor
    load: float
    future: ProductFuture
    messages: dict[int, Message] = field(default_factory=dict)
    ahead: Future[Any] | None = None
    keys: list[int] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the result."""
        return self.first.shape[0], self.second.shape[1]


class Source(Protocol):
    """Where a chain gets its products from, and what it reports to."""

    def next_product(self) -> Product | None:
        """Return the next product, or None where there is none now."""

    def ends(self, going: bool, decide: Callable[[bool], None]) -> bool | None:
        """Return whether the chain ends; it does not while products are `going`, or another one waits.

        None while a product is about to come: then `decide` is called later.
        """

    def received(self, product: Product) -> None:
        """Note that enough results of a product are there."""


class ChainJob(RoundJob):
    """Rounds of a chain, as a job of the stream.

    ahead: whether the master makes coded factors for the next round while workers are busy with this one; otherwise
    each worker makes its own. loaded: factors that workers have, from this chain or one before.
    """

    parts = 1

    def __init__(
        self,
        window: Window,
        source: Source,
        pool: Executor,
        *,
        ahead: bool,
        loaded: list[Factor],
        tolerance: float,
    ) -> None:
        super().__init__(name="products", tolerance=tolerance)
        self._window, self._source, self._pool, self._ahead = window, source, pool, ahead
        self._products: dict[int, Product] = {}
        self._plan: RoundPlan | None = None
        self._cluster: Cluster | None = None
        self._loaded = loaded

    @property
    def product_code(self) -> ProductCode:
        """The code of every product."""
        return self._window.scheme.code

    def code(self, redundancy: float, rng: Generator) -> Code:
        """Return the scheme's code."""
        return self.product_code

    @property
    def code_key(self) -> Hashable:
        """The scheme's code itself."""
        return self.product_code

    def work(self, codes: Sequence[Code]) -> ProductWork:
        """Return what travels to the workers."""
        return ProductWork(self.product_code)

    def open(self, cluster: Cluster, state: Any) -> Plan:
        """Begin the next product, if there is one, and plan the round."""
        self._cluster = cluster
        product = self._source.next_product()
        if product is not None:
            self._products[product.number] = product
            for factor in (product.first, product.second):
                if not factor.loaded:
                    cluster.load(factor.key, factor.packed)
                    factor.loaded = True
                    self._loaded.append(factor)
        plan = self._window.open(
            None if product is None else product.number, 1.0 if product is None else product.load
        )  # fmt: skip
        assert plan is not None, "a chain without products goes on"
        self._plan = plan
        if self._ahead:
            for number in plan.products:
                self._take_coded(self._products[number], cluster)
            for number, rows in self._window.ahead().items():
                self._code_ahead(self._products[number], rows, cluster)
        return plan

    def _take_coded(self, product: Product, cluster: Cluster) -> None:
        """Load coded factors that are ready by now; others are too late."""
        if product.ahead is not None:
            making, product.ahead = product.ahead, None
            if making.done() and making.exception() is None:
                key = new_key()
                cluster.load(key, making.result())
                product.keys.append(key)
            else:
                making.cancel()

    def _code_ahead(self, product: Product, rows: range, cluster: Cluster) -> None:
        coded = range(max(rows.start, self.product_code.systematic), rows.stop)
        if coded:
            product.ahead = self._pool.submit(
                _coded, self.product_code, coded, product.first, product.second, cluster.pack
            )

    def request(self, state: Any) -> RoundFactors:
        """Return where the factors of this round's products lie."""
        assert self._plan is not None
        listed = [self._products[number] for number in self._plan.products]
        return RoundFactors([(each.first.key, each.second.key, tuple(each.keys)) for each in listed])

    def held(self, state: Any, slot: int) -> Sequence[int]:
        """Return the rows of a product that came in rounds before."""
        assert self._plan is not None
        return tuple(self._products[self._plan.products[slot]].messages)

    def close(self, state: Any, collected: Collected, decide: Callable[[bool], None]) -> bool | None:
        """Take over the messages of a round; start decoding finished products."""
        plan, weights, messages = self._plan, collected.weights, collected.take()
        assert plan is not None
        assert self._cluster is not None
        for (slot, row), message in messages.items():
            self._products[plan.products[slot]].messages[row] = message
        for slot, found in weights.items():
            self._finish(self._products.pop(plan.products[slot]), found, self._cluster)
        self._window.close(messages.keys(), weights.keys())
        return self._source.ends(bool(self._products), decide)

    def _finish(self, product: Product, weights: Weights, cluster: Cluster) -> None:
        self._forget(product, cluster)
        used = [product.messages.pop(row) for row in weights.rows.tolist()]
        for message in product.messages.values():
            cluster.release(message)
        self._pool.submit(_decoded, self.product_code, weights, used, product, cluster.release)
        self._source.received(product)

    def _forget(self, product: Product, cluster: Cluster) -> None:
        """Let workers forget what only this product needed."""
        for key in product.keys:
            cluster.unload(key)
        if product.ahead is not None:
            product.ahead.cancel()
        for factor in (product.first, product.second):
            factor.users -= 1
        for factor in self._loaded:
            if not factor.users and not factor.kept:
                cluster.unload(factor.key)
                factor.loaded = False
        self._loaded[:] = [factor for factor in self._loaded if factor.loaded]

    def abandon(self, *, closed: bool) -> list[Product]:
        """Give up what is under way, and return it; on a cluster that is `closed` nothing is left to clean up."""
        left, self._products = list(self._products.values()), {}
        if self._cluster is not None and not closed:
            for product in left:
                for message in product.messages.values():
                    self._cluster.release(message)
                self._forget(product, self._cluster)
        return left


def _coded(
    code: ProductCode, rows: range, first: Factor, second: Factor, pack: Callable[[Any], Any]
) -> Any:  # fmt: skip
    """Return coded factors of some rows, packed; in the pool."""
    left, right = first.packed.value, second.packed.value
    return pack({row: tuple(map(np.ascontiguousarray, coded_pair(code, row, left, right))) for row in rows})


def _decoded(
    code: ProductCode, weights: Weights, messages: list[Message], product: Product, release: Callable[[Message], None]
) -> None:
    """Put a product together and hand it over; in the pool."""
    try:
        real = not any(np.issubdtype(factor.dtype, np.complexfloating) for factor in (product.first, product.second))
        segments, sizes = [message.segments[0] for message in messages], np.empty(len(messages))
        result = assemble_product(code, weights, segments, product.shape, real=real, sizes=sizes)
        product.future.error_estimate = weights.error_estimate(result, sizes, float(np.finfo(result.dtype).eps))
    except BaseException as error:
        product.future.set_exception(error)
    else:
        product.future.set_result(result)
    finally:
        for message in messages:
            release(message)
