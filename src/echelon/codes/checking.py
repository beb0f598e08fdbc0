"""The checks that rows beyond the needed ones carry, found anew for the rows at hand in every round.

All combinations of rows that cancel are found once. Those that need no row of the missing ones follow from a system of
the size of what is to spare. A round asks only whether its checks vanish, in one pass over its messages per check;
`verify` names the wrong rows where they do not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelon.arrays import FloatArray, NumberArray
from echelon.codes.base import Code
from echelon.codes.combine import combine
from echelon.codes.verify import Verdict, verify
from echelon.linalg import row_space

SEEN = 1e-3  # the least share in the checks with which a row counts as checked
_ROUNDINGS = 1024.0  # epsilons that a correct message may be off
_DEPENDENT = 1e-9  # singular values of orthonormal rows below this count as zero
_PATTERNS = 256  # remembered
_PLACES = 64  # numbers of a message that are looked at to name wrong ones


@dataclass(frozen=True, slots=True)
class Checks:
    """What some rows of a code must satisfy.

    rows: which. weights: ``weights @ messages`` vanishes, shape (checks, rows). norms: the lengths of the rows.
    seen: whether each row has its share in the checks, so that any wrong one shows.
    """

    code: Code
    rows: tuple[int, ...]
    weights: NumberArray
    norms: FloatArray
    seen: bool

    def failing(self, messages: Sequence[NumberArray], tolerance: float, terms: float = 0.0) -> "Failing | None":
        """Return what does not vanish of flat messages in the order of the rows; None where everything does.

        tolerance: by how much a message may be off, relative to its terms; terms: how large these are, for rows of
        length 1, where that may be more than the messages show.
        """
        if not len(self.weights) or not messages[0].size:
            return None
        sizes = np.empty(len(messages))
        with np.errstate(all="ignore"):  # wrong numbers may be of any size
            shown = np.linalg.norm(combine(self.weights, messages, sizes=sizes), axis=0)
        scale = max(float((sizes / self.norms).max()), terms)
        worst = float(shown.max())
        if math.isfinite(worst) and worst <= tolerance * scale * len(self.weights) ** 0.5:
            return None
        return Failing(shown, scale)

    def verdict(self, messages: Sequence[NumberArray], failing: "Failing", tolerance: float) -> Verdict:
        """Return which messages are wrong, by the numbers that fail most."""
        worst = np.argsort(failing.shown)[-_PLACES:]
        few = [message[worst] for message in messages]
        return verify(self.code, self.rows, few, tolerance=tolerance, terms=failing.scale)


@dataclass(frozen=True, slots=True)
class Failing:
    """By how much checks fail at each number of the messages, shape (numbers,), and how large the messages are."""

    shown: FloatArray
    scale: float


class Checker:
    """Finds the checks of rows of a code; made once, used every round.

    >>> from echelon.codes import mds
    >>> checker = Checker(mds(parts=2, rows=4, rng=np.random.default_rng(1)))
    >>> [len(checker.of(rows).weights) for rows in ([0, 3], [0, 1, 3], [3, 2, 1, 0])]
    [0, 1, 2]
    """

    def __init__(self, code: Code) -> None:
        self.code = code
        self._norms = np.linalg.norm(code.matrix, axis=1)
        self._norms[self._norms == 0] = 1.0  # rows of zeros
        # rows of one length: then rounding is of one size in all messages, and in all checks
        self._cancel = row_space(code.matrix / self._norms[:, None]).cancel
        self._known: dict[tuple[int, ...], Checks] = {}

    def of(self, rows: Sequence[int]) -> Checks:
        """Return the checks of some distinct rows."""
        key = tuple(sorted(rows))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _PATTERNS:
                self._known.pop(next(iter(self._known)))
            found = self._known[key] = self._find(key)
        return found

    def _find(self, rows: tuple[int, ...]) -> Checks:
        here, cancel = list(rows), self._cancel
        missing = np.setdiff1d(np.arange(self.code.rows), here)
        if len(missing):
            u, s, _ = np.linalg.svd(cancel[:, missing], full_matrices=True)
            free = u[:, int(np.count_nonzero(s > _DEPENDENT)) :]
            cancel = free.conj().T @ cancel
        held = cancel[:, here]
        seen = len(held) > 0 and bool(np.linalg.norm(held, axis=0).min() >= SEEN)
        return Checks(self.code, rows, held / self._norms[here], self._norms[here], seen)


def rounding(epsilon: float) -> float:
    """Return by how much a correct message of numbers of this precision may be off, relative to its terms.

    >>> f"{rounding(2.0**-52):.1e} {rounding(2.0**-23):.1e}"
    '2.3e-13 2.4e-05'
    """
    return float(min(_ROUNDINGS * epsilon, epsilon ** (2 / 3)))
