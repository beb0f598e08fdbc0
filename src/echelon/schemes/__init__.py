"""Functions that return plans. A new scheme is one file and one line in `SCHEMES`."""

from collections.abc import Callable

from echelon.plan import Plan
from echelon.schemes.any_k import any_k
from echelon.schemes.coded_rows import coded_rows
from echelon.schemes.splitting import RULES, split_rows

SCHEMES: dict[str, Callable[..., Plan]] = {
    "any_k": any_k,
    "coded_rows": coded_rows,
}

__all__ = ["RULES", "SCHEMES", "any_k", "coded_rows", "split_rows"]
