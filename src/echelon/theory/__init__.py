"""Exact predictions: the law of an iteration, the queue, the paper's bounds."""

from echelon.theory.bounds import lower_bound, metric, mismatch, queued_bound
from echelon.theory.completion import completion_law, has_completion_law
from echelon.theory.iteration import iteration_cdf, iteration_law
from echelon.theory.queue import QueueDelay, kingman, pollaczek_khinchine, queue_delay, service_moments
from echelon.theory.split_score import SplitScore
from echelon.theory.tabulated import TabulatedCdf

__all__ = [
    "QueueDelay",
    "SplitScore",
    "TabulatedCdf",
    "completion_law",
    "has_completion_law",
    "iteration_cdf",
    "iteration_law",
    "kingman",
    "lower_bound",
    "metric",
    "mismatch",
    "pollaczek_khinchine",
    "queue_delay",
    "queued_bound",
    "service_moments",
]
