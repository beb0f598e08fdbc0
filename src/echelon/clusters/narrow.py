"""Messages of half the size: float32 rounded to bfloat16 on its way, the upper 16 of its 32 bits.

Exponents are those of float32, so nothing overflows that did not before (but for the topmost 0.2 % of its range), and
7 of 23 bits of the fraction are left: a number is off by `EPSILON` of itself at most. The form of a narrow message has
the type "H" where the result has "f", as no result itself can: so it says what it is.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from echelon.arrays import NumberArray
from echelon.errors import ArgumentError

EPSILON = 2.0**-8
_WIDE, _NARROW = b'["f"', b'["H"'  # a leaf of a form; keys have their quotes escaped, so that none looks like one
_BLOCK = 1 << 15  # numbers at a time: intermediate results stay in the cache


@lru_cache(maxsize=256)
def is_narrow(form: bytes) -> bool:
    """Return whether a message of this form was rounded."""
    return _NARROW in form


def narrowed(form: bytes, segments: Sequence[NumberArray]) -> tuple[bytes, list[NumberArray]]:
    """Return form and segments of a message rounded to the nearest, ties to even; nan and inf stay what they are.

    >>> form, (segment,) = narrowed(b'["f",2]', [np.array([1.0, 1.01], dtype="f")])
    >>> form, segment.dtype, widened([segment])[0].tolist()
    (b'["H",2]', dtype('uint16'), [1.0, 1.0078125])
    """
    for segment in segments:
        if segment.dtype.char != "f":
            raise ArgumentError(
                f"result: {segment.dtype} is not allowed with messages='bfloat16'; must be float32 throughout"
            )
    return form.replace(_WIDE, _NARROW), [_rounded(segment) for segment in segments]


def _rounded(values: NumberArray) -> NumberArray:
    values = np.ascontiguousarray(values)
    out = np.empty(len(values), np.uint16)
    for at in range(0, len(values), _BLOCK):
        block = values[at : at + _BLOCK]
        bits = block.view(np.uint32)
        found = bits >> 16
        found &= 1
        found += 0x7FFF  # half of the last bit that stays, and with its own value a tie goes to the even one
        found += bits
        found >>= 16
        lost = np.isnan(block)
        if lost.any():  # its fraction may have run over into infinity
            found[lost] = bits[lost] >> 16 | 0x40
        out[at : at + _BLOCK] = found
    return out


def widened(segments: Sequence[NumberArray]) -> list[NumberArray]:
    """Return narrow segments as float32 again, copies."""
    found = []
    for segment in segments:
        bits = segment.astype(np.uint32)
        bits <<= 16
        found.append(bits.view(np.float32))
    return found


def largest(segment: NumberArray) -> float:
    """Return the largest absolute value of a narrow segment, 0 of an empty one; not finite where a number is not.

    >>> largest(narrowed(b'["f",3]', [np.array([1.0, -2.0, 0.5], dtype="f")])[1][0])
    2.0
    """
    most = max((int((segment[at : at + _BLOCK] & 0x7FFF).max()) for at in range(0, len(segment), _BLOCK)), default=0)
    return float(widened([np.array([most], np.uint16)])[0][0])
