"""Lagrange coded computing of gradients that are polynomials of the data: least squares, above all."""

from echelon import checks
from echelon.codes import lagrange as lagrange_code
from echelon.errors import ArgumentError
from echelon.plan import Task
from echelon.schemes.coded_plan import CodedPlan
from echelon.schemes.multi_message import MOST_WORKERS


def lagrange(*, workers: int, load: int, degree: int = 2) -> CodedPlan:
    """Return the plan in which each worker computes on one coded block of `load` chunks' size and sends one message.

    The data of as many chunks as workers is put into ceil(workers / load) blocks, encoded beforehand; a gradient of
    this degree in the data (2 for least squares) is known from any (blocks - 1) degree + 1 workers. Decode with the
    slot's code: it gives the gradient of every block.

    Differs from paper: the threshold is 2 ceil(K / r) - 1 (mmc, note 5).

    >>> lagrange(workers=40, load=10).slots[0].threshold
    7
    """
    checks.whole("workers", workers, least=1, most=MOST_WORKERS)
    checks.whole("load", load, least=1, most=workers)
    blocks = -(-workers // load)
    checks.whole("degree", degree, least=1)
    needed = (blocks - 1) * degree + 1
    if needed > workers:
        raise ArgumentError(
            f"load: {load} is not allowed; {blocks} blocks need {needed} workers, and there are {workers}"
        )
    code = lagrange_code(parts=blocks, degree=degree, rows=workers)
    return CodedPlan([code], [[Task(slot=0, row=worker, cost=float(load))] for worker in range(workers)])
