"""Gradient coding: one message per worker, after all of its computations (mmc, section 2); the paper's baseline."""

from echelon.schemes.coded_plan import CodedPlan
from echelon.schemes.multi_message import multi_message


def gradient_coding(*, workers: int, load: int, clusters: int = 1) -> CodedPlan:
    """Return the plan in which each worker sends one combination of its `load` chunks.

    Any K - load + 1 workers of each cluster of K are enough. Prefer it where messages are expensive, or where a
    slow worker returns nothing at all.

    >>> gradient_coding(workers=40, load=10).slots[0].threshold
    31
    """
    return multi_message(workers=workers, load=load, clusters=clusters, order=load)
