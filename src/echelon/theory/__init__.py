"""Exact predictions: the law of an iteration, the queue, the paper's bounds."""

from echelon.theory.bounds import lower_bound, metric, mismatch, queued_bound
from echelon.theory.completion import completion_law, has_completion_law
from echelon.theory.deadline import dip_deadline_time
from echelon.theory.iteration import iteration_cdf, iteration_law
from echelon.theory.queue import QueueDelay, kingman, pollaczek_khinchine, queue_delay, service_moments
from echelon.theory.sequential import (
    dip_time,
    idip_bound_fails_from,
    idip_time,
    idip_time_bound,
    idip_time_corrected_bound,
    optimal_load,
    polynomial_time,
    rounds_needed,
    uncoded_time,
)
from echelon.theory.split_score import SplitScore
from echelon.theory.tabulated import TabulatedCdf

__all__ = [
    "QueueDelay", "SplitScore", "TabulatedCdf", "completion_law", "dip_deadline_time", "dip_time",
    "has_completion_law", "idip_bound_fails_from", "idip_time", "idip_time_bound", "idip_time_corrected_bound",
    "iteration_cdf", "iteration_law", "kingman", "lower_bound", "metric", "mismatch", "optimal_load",
    "pollaczek_khinchine", "polynomial_time", "queue_delay", "queued_bound", "rounds_needed", "service_moments",
    "uncoded_time",
]  # fmt: skip
