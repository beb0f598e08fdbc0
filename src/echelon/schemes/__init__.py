"""Functions that return plans. A new scheme is one file and one line in `SCHEMES`."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from echelon.plan import Plan
from echelon.schemes.any_k import any_k
from echelon.schemes.backups import backups
from echelon.schemes.block_coordinate import BlockPlan, block_coordinate
from echelon.schemes.coded_plan import CodedPlan
from echelon.schemes.coded_rows import coded_rows
from echelon.schemes.fractional_repetition import fractional_repetition
from echelon.schemes.gradient_chain import GradientChain
from echelon.schemes.gradient_coding import gradient_coding
from echelon.schemes.gradient_window import GradientPlan, GradientWindow
from echelon.schemes.lagrange import lagrange
from echelon.schemes.multi_message import multi_message
from echelon.schemes.multiplexed import m_sgc
from echelon.schemes.pull import pull
from echelon.schemes.quorum import quorum
from echelon.schemes.reattempted import sr_sgc
from echelon.schemes.regrouping import Regrouping
from echelon.schemes.sequential import (
    Sequential,
    diagonal_interleaved,
    improved_diagonal_interleaved,
    polynomial_products,
    uncoded_products,
)
from echelon.schemes.short_messages import short_messages
from echelon.schemes.sliding_window import sliding_window
from echelon.schemes.splitting import split_code
from echelon.schemes.uncoded_multi_message import uncoded_multi_message
from echelon.schemes.window import RoundPlan, Window


def _scheme(path: str) -> Any:
    """Return a scheme by file and function; a new one needs only one line below."""
    module, name = path.split(".")
    return getattr(import_module(f"echelon.schemes.{module}"), name)


SCHEMES: dict[str, Callable[..., Plan]] = {
    "any_k": _scheme("any_k.any_k"),
    "backups": _scheme("backups.backups"),
    "block_coordinate": _scheme("block_coordinate.block_coordinate"),
    "coded_rows": _scheme("coded_rows.coded_rows"),
    "fractional_repetition": _scheme("fractional_repetition.fractional_repetition"),
    "gradient_coding": _scheme("gradient_coding.gradient_coding"),
    "lagrange": _scheme("lagrange.lagrange"),
    "multi_message": _scheme("multi_message.multi_message"),
    "pull": _scheme("pull.pull"),
    "quorum": _scheme("quorum.quorum"),
    "short_messages": _scheme("short_messages.short_messages"),
    "sliding_window": _scheme("sliding_window.sliding_window"),
    "uncoded_multi_message": _scheme("uncoded_multi_message.uncoded_multi_message"),
}
globals().update(SCHEMES)  # here a name is the function, not its file

# schemes whose plan for a round depends on earlier rounds: a `Window` makes the plans
CHAINS: dict[str, Callable[..., Sequential]] = {
    "diagonal_interleaved": _scheme("sequential.diagonal_interleaved"),
    "improved_diagonal_interleaved": _scheme("sequential.improved_diagonal_interleaved"),
    "polynomial_products": _scheme("sequential.polynomial_products"),
    "uncoded_products": _scheme("sequential.uncoded_products"),
}
# the same for gradients of several models in turn: a `GradientWindow` makes the plans
GRADIENT_CHAINS: dict[str, Callable[..., GradientChain]] = {
    "m_sgc": _scheme("multiplexed.m_sgc"),
    "sr_sgc": _scheme("reattempted.sr_sgc"),
}

__all__ = [
    "CHAINS", "GRADIENT_CHAINS", "SCHEMES", "BlockPlan", "CodedPlan", "GradientChain", "GradientPlan",
    "GradientWindow", "Regrouping", "RoundPlan", "Sequential", "Window", "any_k", "backups", "block_coordinate",
    "coded_rows", "diagonal_interleaved", "fractional_repetition", "gradient_coding",
    "improved_diagonal_interleaved", "lagrange", "m_sgc", "multi_message", "polynomial_products", "pull", "quorum",
    "short_messages", "sliding_window", "split_code", "sr_sgc", "uncoded_multi_message", "uncoded_products",
]  # fmt: skip
