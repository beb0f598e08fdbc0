"""Products that wait for their round, and whether more are about to come: between callers and the driver."""

from collections import deque
from collections.abc import Callable
from threading import RLock, get_ident

from echelon.products.chain import Product
from echelon.products.future import ProductFuture


class Feed:
    """The queue of a chain.

    A chain that has nothing to do ends, and the next product begins another one. While a caller is `busy` making the
    next factors, a round waits for it: a product that just misses its round would be a round late. A round does not
    wait while the caller itself waits for a result that only further rounds can give.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._waiting: deque[Product] = deque()
        self._running = False  # whether a chain is there to take products
        self._busy: int | None = None  # the thread that makes the next product
        self._needed: dict[int, ProductFuture] = {}  # what threads wait for
        self._stopped = False
        self._undecided: tuple[bool, Callable[[bool], None]] | None = None  # a chain that waits to hear if it goes on

    def put(self, product: Product) -> bool:
        """Append a product; return whether a chain must be started for it."""
        with self._lock:
            self._waiting.append(product)
            # after the end another chain is asked for, too: the caller must learn that it can't begin
            start, self._running = self._stopped or not self._running, True
            self._news()
            return start

    def next_product(self) -> Product | None:
        """Return the next product, or None."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def ends(self, going: bool, decide: Callable[[bool], None]) -> bool | None:
        """Return whether the chain ends; None while a product is about to come: then `decide` is called later."""
        with self._lock:
            if not self._waiting and not self._stopped and self._coming(going):
                self._undecided = going, decide
                return None
            self._running = not self._stopped and (bool(self._waiting) or going)
            return not self._running

    def _news(self) -> None:
        """Tell a chain that waits whether it goes on, if that is clear by now."""
        if self._undecided is not None:
            (going, decide), self._undecided = self._undecided, None
            ends = self.ends(going, decide)
            if ends is not None:
                decide(ends)

    def _coming(self, going: bool) -> bool:
        if self._busy is None:
            return False
        needed = self._needed.get(self._busy)
        return not going or needed is None or needed.received

    def received(self, product: Product) -> None:
        """Note that enough results of a product are there: only decoding is left."""
        with self._lock:
            product.future.received = True
            self._news()

    def busy(self, busy: bool) -> None:
        """Say whether this thread is making the next product."""
        with self._lock:
            self._busy = get_ident() if busy else None
            self._news()

    def needs(self, future: ProductFuture | None) -> None:
        """Say which result this thread waits for."""
        with self._lock:
            if future is None:
                self._needed.pop(get_ident(), None)
            else:
                self._needed[get_ident()] = future
            self._news()

    def ended(self) -> bool:
        """Note that the chain failed; return whether products wait for another one."""
        with self._lock:
            self._undecided = None
            self._running = bool(self._waiting) and not self._stopped
            return self._running

    def stop(self) -> list[Product]:
        """Stop waiting for more, and return what was waiting."""
        with self._lock:
            self._stopped = True
            left = list(self._waiting)
            self._waiting.clear()
            self._news()
            return left
