"""Gradient coding: one message a worker, after all of its computations (mmc, section 2); the baseline of the paper."""

from echelon.schemes.coded_plan import CodedPlan
from echelon.schemes.multi_message import multi_message


def gradient_coding(*, workers: int, load: int, clusters: int = 1) -> CodedPlan:
    """Return the plan in which each worker sends one combination of its `load` chunks.

    Any K - load + 1 workers of each cluster of K are enough. Prefer it where messages are dear, or where a worker that
    is slow is out altogether.

    >>> gradient_coding(workers=40, load=10).slots[0].threshold
    31
    """
    return multi_message(workers=workers, load=load, clusters=clusters, order=load)
