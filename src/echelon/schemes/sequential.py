"""Codes for a chain of matrix products, over workers and over rounds: DIP, IDIP, and what they are compared with.

Product i begins in one round and must be there `delay` rounds later. Each round every worker gets mini-tasks of all
products in the window, the newest first; what is missing of the oldest, which is due, comes last. Any `threshold`
results of a product give it, from any workers and rounds. `Window` turns this into a plan for each round.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, isqrt

import numpy as np

from echelon import checks
from echelon.codes import ProductCode, khatri_rao, polynomial
from echelon.codes.products import basis_values, plain_first
from echelon.endings import WAITING
from echelon.errors import ArgumentError
from echelon.seeds import place_generator
from echelon.stragglers import StragglerModel

BASES = ("khatri_rao", "monomial", "roots")
MOST_DELAY = 1000
_SPARE = 4  # rows beyond those that can be planned, for results that turn out too noisy
_MONOMIAL_LIMIT = 1e6  # noise amplification of monomials beyond which one more row must come


@dataclass(frozen=True, kw_only=True)
class Sequential:
    """How products are coded over `workers` and over `delay` + 1 rounds.

    x, z, y: the first factor is cut into x by z blocks, the second into z by y (sequential, note 1).
    delay: T, rounds after its first that a product may take.
    spread: lambda; every worker gets a share of 1/lambda of what is missing of the due product (DIP).
    model: which workers may straggle when; then the due product needs no more than one mini-task per worker (IDIP).
    tolerance: mu; how much longer than the fastest worker the round waits for the others.
    waiting: whose time that is, a name of `endings.WAITING`. "due": the first worker that is done, so that most
        rounds end with the due product. "fastest", the paper's rule: the first that returned all its results.
    basis: what coded factors are made of; see `code`. seed: of its random numbers.
    """

    workers: int
    x: int
    y: int
    z: int = 1
    delay: int = 0
    spread: int = 1
    model: StragglerModel | None = None
    tolerance: float = 0.0
    waiting: str = "due"
    basis: str = ""
    seed: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        checks.whole("workers", self.workers, least=1, most=10**4)
        for name in ("x", "y", "z"):
            checks.whole(name, getattr(self, name), least=1, most=100)
        checks.whole("delay", self.delay, least=0, most=MOST_DELAY)
        checks.whole("spread", self.spread, least=1, most=self.workers)
        checks.number("tolerance", self.tolerance, least=0)
        checks.one_of("waiting", self.waiting, WAITING)
        checks.whole("seed", self.seed, least=0)
        checks.instance("basis", self.basis, str)
        if not self.basis:
            object.__setattr__(self, "basis", "khatri_rao" if self.z == 1 else "roots")
        checks.one_of("basis", self.basis, BASES)
        if (self.basis == "khatri_rao") > (self.z == 1) or (self.basis == "roots") > (self.z > 1):
            raise ArgumentError(f"basis: {self.basis!r} is not allowed for z = {self.z}; must be {self._allowed()}")
        if self.model is not None:
            self.model.check_workers(self.workers)
            if self.z > 1:
                raise ArgumentError(f"z: {self.z} is not allowed with a model of stragglers; must be 1")
            promised = self.workers * self.model.window - self.model.most
            if self.threshold > promised:
                raise ArgumentError(
                    f"x, y: {self.x} by {self.y} blocks are not allowed; the model guarantees only {promised} "
                    "results of every product"
                )

    def _allowed(self) -> str:
        return "khatri_rao or monomial" if self.z == 1 else "roots or monomial"

    @property
    def threshold(self) -> int:
        """Results that give a product: x y, or x y z + z - 1 for z > 1 (sequential, note 1)."""
        return self.x * self.y if self.z == 1 else self.x * self.y * self.z + self.z - 1

    @property
    def share(self) -> float:
        """What one mini-task costs, as a share of a whole product."""
        return 1 / (self.x * self.y * self.z)

    def due_tasks(self, missing: int) -> int:
        """Return the mini-tasks that each worker gets of the due product."""
        return min(missing, 1) if self.model is not None else ceil(missing / self.spread)

    @cached_property
    def rows(self) -> int:
        """Rows that the code has: all that can be planned of one product, and a few to spare."""
        if self.model is not None:
            return self.threshold + self.workers * self.model.window + _SPARE
        return self.workers * (self.delay + self.due_tasks(self.threshold)) + _SPARE

    @cached_property
    def code(self) -> ProductCode:
        """The code of every product; the same for all, so that what was encoded or solved once can be used again.

        khatri_rao: plain products first, then separable random combinations. Accurate at every size.
        monomial: plain products first, then the paper's monomials on random real points; refused where they would lose
            their digits. roots: of unity, with complex coded factors, for z > 1.

        Differs from paper: in DIP, too, the first x y results are plain products (z = 1). Any x y rows still give all.
        """
        rng = place_generator(self.seed, 0)
        if self.basis == "khatri_rao":
            return khatri_rao(x=self.x, y=self.y, rows=self.rows, rng=rng)
        if self.z > 1:
            return polynomial(x=self.x, y=self.y, z=self.z, rows=self.rows, rng=rng, basis=self.basis)
        points = rng.uniform(-1, 1, self.rows - self.x * self.y)
        left = basis_values("monomial", self.y * np.arange(self.x, dtype=float), points)
        right = basis_values("monomial", np.arange(self.y, dtype=float), points)
        return plain_first(left, right, self.x, self.y, _MONOMIAL_LIMIT)


def near_square(blocks: int) -> tuple[int, int]:
    """Return the sides of a grid of this many blocks, as nearly equal as possible.

    >>> near_square(6), near_square(7)
    ((2, 3), (1, 7))
    """
    side = max(side for side in range(1, isqrt(blocks) + 1) if blocks % side == 0)
    return side, blocks // side


def diagonal_interleaved(
    workers: int,
    *,
    x: int,
    y: int,
    delay: int,
    z: int = 1,
    spread: int = 1,
    tolerance: float = 0.0,
    waiting: str = "due",
    basis: str = "",
    seed: int = 1,
) -> Sequential:
    """Return DIP: no model of stragglers is needed; prefer it where they are independent (sequential, section 3.1).

    In round t each worker gets one mini-task of each of the products t, …, t - T + 1 that are not finished, and
    ceil(missing / lambda) of product t - T (sequential, Algorithm 1 and note 2).

    Differs from paper: by default a round ends with the due product; ``waiting="fastest"`` is the paper's rule.

    >>> diagonal_interleaved(4, x=2, y=3, delay=3).threshold
    6
    """
    return Sequential(
        workers=workers,
        x=x,
        y=y,
        z=z,
        delay=delay,
        spread=spread,
        tolerance=tolerance,
        waiting=waiting,
        basis=basis,
        seed=seed,
    )


def improved_diagonal_interleaved(
    workers: int,
    model: StragglerModel,
    *,
    x: int | None = None,
    y: int | None = None,
    tolerance: float = 0.0,
    waiting: str = "due",
    basis: str = "",
    seed: int = 1,
) -> Sequential:
    """Return IDIP: the least load that is enough for every pattern of a model (sequential, section 3.2).

    Products take W rounds, and each worker gets one mini-task per round of each: the load is W / (x y), which for
    x y = P W - N is the least possible (sequential, (2)). What can't be lost is given out plain. Where the stragglers
    of a round do not conform to the model, the round waits for some of them.

    model: such as `stragglers.Arbitrary(count=N, window=W)`, or `stragglers.Bursts` for slow spells.
    x, y: blocks of the factors; by default P W - N of them, as square as possible.

    >>> from echelon.stragglers import Arbitrary
    >>> scheme = improved_diagonal_interleaved(4, Arbitrary(count=10, window=4))
    >>> scheme.x, scheme.y, scheme.delay
    (2, 3, 3)
    """
    checks.whole("workers", workers, least=1, most=10**4)
    if not isinstance(model, StragglerModel):
        raise ArgumentError(f"model: {model!r} is not allowed; must be a StragglerModel, such as stragglers.Arbitrary")
    model.check_workers(workers)
    if (x is None) != (y is None):
        raise ArgumentError("x, y: give both or neither")
    if x is None or y is None:
        x, y = near_square(workers * model.window - model.most)
    return Sequential(
        workers=workers,
        x=x,
        y=y,
        delay=model.window - 1,
        model=model,
        tolerance=tolerance,
        waiting=waiting,
        basis=basis,
        seed=seed,
    )


def polynomial_products(
    workers: int, *, x: int, y: int, z: int = 1, basis: str = "", seed: int = 1
) -> Sequential:  # fmt: skip
    """Return the polynomial code, one product per round: any x y of the workers are enough (sequential, section 2.1).

    >>> polynomial_products(4, x=2, y=1).threshold
    2
    """
    scheme = Sequential(workers=workers, x=x, y=y, z=z, spread=workers, basis=basis, seed=seed)
    if scheme.threshold > workers:
        raise ArgumentError(f"x, y, z: {scheme.threshold} results are needed; must be at most workers, {workers}")
    return scheme


def uncoded_products(workers: int, *, x: int | None = None, y: int | None = None) -> Sequential:
    """Return the uncoded scheme: one block of the product per worker, and a round waits for every worker.

    >>> uncoded_products(6).due_tasks(6)
    1
    """
    checks.whole("workers", workers, least=1, most=10**4)
    if x is None and y is None:
        x, y = near_square(workers)
    for name, size in (("x", x), ("y", y)):
        if size is not None:
            checks.whole(name, size, least=1)
    if x is None or y is None or x * y != workers:
        raise ArgumentError(f"x, y: {x} by {y} is not allowed; x y must be the number of workers, {workers}")
    return Sequential(workers=workers, x=x, y=y, spread=workers)
