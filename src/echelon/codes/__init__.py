"""Codes over real numbers, one family a file. A new family is one file and one line in `CODES`."""

from collections.abc import Callable

from echelon.codes.base import Code
from echelon.codes.combine import combine
from echelon.codes.cyclic import cyclic
from echelon.codes.decoder import Decoded, Decoder, Weights
from echelon.codes.error_estimate import NO_ERROR, ErrorEstimate, relative
from echelon.codes.fractional_repetition import fractional_repetition
from echelon.codes.khatri_rao import khatri_rao
from echelon.codes.lagrange import LagrangeCode, lagrange
from echelon.codes.mds import mds
from echelon.codes.polynomial import polynomial
from echelon.codes.products import ProductCode
from echelon.codes.reed_solomon import reed_solomon, threshold_of
from echelon.codes.subspace import subspace
from echelon.codes.tracker import CountTracker, SpanTracker, Tracker, tracker
from echelon.codes.uncoded import uncoded
from echelon.codes.verify import Verdict, verify

CODES: dict[str, Callable[..., Code]] = {
    "cyclic": cyclic,
    "fractional_repetition": fractional_repetition,
    "khatri_rao": khatri_rao,
    "lagrange": lagrange,
    "mds": mds,
    "polynomial": polynomial,
    "reed_solomon": reed_solomon,
    "subspace": subspace,
    "uncoded": uncoded,
}

__all__ = [
    "CODES", "NO_ERROR", "Code", "CountTracker", "Decoded", "Decoder", "ErrorEstimate", "LagrangeCode", "ProductCode",
    "SpanTracker", "Tracker", "Verdict", "Weights", "combine", "cyclic", "fractional_repetition", "khatri_rao",
    "lagrange", "mds", "polynomial", "reed_solomon", "relative", "subspace", "threshold_of", "tracker", "uncoded",
    "verify",
]  # fmt: skip
