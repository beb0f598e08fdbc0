"""Functions that return plans. A new scheme is one file and one line in `SCHEMES`."""

from collections.abc import Callable

from echelon.plan import Plan
from echelon.schemes.any_k import any_k
from echelon.schemes.splitting import RULES, split_rows

SCHEMES: dict[str, Callable[..., Plan]] = {
    "any_k": any_k,
}

__all__ = ["RULES", "SCHEMES", "any_k", "split_rows"]
