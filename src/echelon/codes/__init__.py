"""Codes over real numbers, one family per file. A new family is one file and one line in `CODES`."""

from collections.abc import Callable
from importlib import import_module

from numpy.random import Generator

from echelon import checks
from echelon.codes.balanced import balanced
from echelon.codes.base import Code
from echelon.codes.checking import Checker, Checks, rounding
from echelon.codes.combine import combine
from echelon.codes.cyclic import cyclic
from echelon.codes.decoder import Decoded, Decoder, Weights
from echelon.codes.error_estimate import NO_ERROR, ErrorEstimate, relative
from echelon.codes.fractional_repetition import fractional_repetition
from echelon.codes.graph import graph
from echelon.codes.khatri_rao import khatri_rao
from echelon.codes.lagrange import LagrangeCode, lagrange
from echelon.codes.mds import mds
from echelon.codes.pair_tracker import PairTracker
from echelon.codes.polynomial import polynomial
from echelon.codes.products import ProductCode
from echelon.codes.reed_solomon import reed_solomon, threshold_of
from echelon.codes.residual import Approximate, residual, weights_for
from echelon.codes.short_messages import short_messages
from echelon.codes.stochastic import stochastic
from echelon.codes.subspace import subspace
from echelon.codes.tracker import CountTracker, SpanTracker, Tracker, residual_tracker, tracker, weights_tracker
from echelon.codes.uncoded import uncoded
from echelon.codes.verify import Verdict, verify
from echelon.spec import Spec


def _family(path: str) -> Callable[..., Code]:
    """Return a family by file and function; a new one needs only one line below."""
    module, name = path.split(".")
    found: Callable[..., Code] = getattr(import_module(f"echelon.codes.{module}"), name)
    return found


CODES: dict[str, Callable[..., Code]] = {
    "balanced": _family("balanced.balanced"),
    "cyclic": _family("cyclic.cyclic"),
    "fractional_repetition": _family("fractional_repetition.fractional_repetition"),
    "graph": _family("graph.graph"),
    "khatri_rao": _family("khatri_rao.khatri_rao"),
    "lagrange": _family("lagrange.lagrange"),
    "mds": _family("mds.mds"),
    "polynomial": _family("polynomial.polynomial"),
    "reed_solomon": _family("reed_solomon.reed_solomon"),
    "short_messages": _family("short_messages.short_messages"),
    "stochastic": _family("stochastic.stochastic"),
    "subspace": _family("subspace.subspace"),
    "uncoded": _family("uncoded.uncoded"),
}
globals().update(CODES)  # here a name is the function, not its file

__all__ = [
    "CODES", "NO_ERROR", "Approximate", "Checker", "Checks", "Code", "CountTracker", "Decoded", "Decoder",
    "ErrorEstimate", "LagrangeCode", "PairTracker", "ProductCode", "SpanTracker", "Tracker", "Verdict", "Weights",
    "balanced", "combine", "cyclic", "fractional_repetition", "graph", "khatri_rao", "lagrange", "mds",
    "named_code", "polynomial", "reed_solomon", "relative", "residual", "residual_tracker", "rounding",
    "short_messages", "stochastic", "subspace", "threshold_of", "tracker", "uncoded", "verify", "weights_for",
    "weights_tracker",
]  # fmt: skip


def named_code(text: str, *, parts: int, rows: int, critical: int, rng: Generator) -> Code:
    """Return a registered code by its name and arguments, ``NAME:KEY=VALUE,…``; what a round needs fills in the rest.

    parts: pieces of the data. rows: coded combinations. critical: how many of them must be enough; it sets
    the load of a row unless the text gives the load or one of these.

    >>> import numpy as np
    >>> code = named_code("cyclic", parts=12, rows=12, critical=10, rng=np.random.default_rng(1))
    >>> code.threshold, code.cost(0)
    (10, 3)
    >>> named_code("cyclic:load=2", parts=12, rows=12, critical=10, rng=np.random.default_rng(1)).threshold
    11
    """
    for name, size in (("parts", parts), ("rows", rows), ("critical", critical)):
        checks.whole(name, size, least=1)
    spec = Spec.read("code", text, CODES)
    known = {"parts": parts, "rows": rows, "critical": critical, "rng": rng}
    if not spec.arguments.keys() & {"parts", "rows", "critical"}:
        known["load"] = rows - critical + 1
    made: Code = spec.call(CODES[spec.name], **known)
    return made
