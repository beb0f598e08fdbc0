"""The caller's own code for a job: the code itself, a registered one by its name, or a function that makes it."""

from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from echelon.codes import CODES, Code, named_code
from echelon.errors import ArgumentError
from echelon.spec import Spec

OwnCode = Code | str | Callable[[int], Code]


def checked_choice(code: Any) -> OwnCode:
    """Return a choice of a code, or refuse anything else."""
    if isinstance(code, str):
        spec = Spec.read("code", code, CODES)
        spec.values(CODES[spec.name])
    elif not isinstance(code, Code) and not callable(code):
        raise ArgumentError(
            f"code: {code!r} is not allowed; must be a Code, a name such as 'cyclic:load=3', or a function of the "
            "number of parts"
        )
    chosen: OwnCode = code
    return chosen


def made_code(choice: OwnCode, *, parts: int, rows: int, critical: int, rng: Generator) -> Code:
    """Return the code of a job with this many parts; `rows`, `critical` and `rng` complete a name (`named_code`).

    >>> import numpy as np
    >>> made_code("cyclic:load=3", parts=6, rows=6, critical=5, rng=np.random.default_rng(1)).threshold
    4
    """
    if isinstance(choice, str):
        made = named_code(choice, parts=parts, rows=rows, critical=critical, rng=rng)
    else:
        made = choice if isinstance(choice, Code) else choice(parts)
    if not isinstance(made, Code):
        raise ArgumentError(f"code: it gave {type(made).__name__}, which is not allowed; must give a Code")
    if made.parts != parts:
        raise ArgumentError(f"code: {made.parts} parts are not allowed; must be {parts}, as the job has")
    return made
