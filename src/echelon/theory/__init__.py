"""Exact predictions: the law of an iteration, the queue, bounds."""

from echelon.theory.bounds import LowerBound, busy_law, lower_bound, metric, mismatch, paper_bound, queued_bound
from echelon.theory.deadline import dip_deadline_time
from echelon.theory.exact import exact_law
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
    "LowerBound", "QueueDelay", "SplitScore", "TabulatedCdf", "busy_law", "dip_deadline_time", "dip_time", "exact_law",
    "idip_bound_fails_from", "idip_time", "idip_time_bound", "idip_time_corrected_bound",
    "iteration_cdf", "iteration_law", "kingman", "lower_bound", "metric", "mismatch", "optimal_load", "paper_bound",
    "pollaczek_khinchine", "polynomial_time", "queue_delay", "queued_bound", "rounds_needed", "service_moments",
    "uncoded_time",
]  # fmt: skip
