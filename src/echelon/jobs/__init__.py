"""What streams compute. A new kind of job is one file: it says its code, its work and its step."""

from echelon.jobs.base import IterativeJob, RoundJob
from echelon.jobs.blocks import BlockJob
from echelon.jobs.collected import Collected, precisions
from echelon.jobs.hollow import HollowJob
from echelon.jobs.linear import LinearJob
from echelon.jobs.sums import SumJob
from echelon.jobs.turns import TurnJob, Turns

__all__ = [
    "BlockJob", "Collected", "HollowJob", "IterativeJob", "LinearJob", "RoundJob", "SumJob", "TurnJob", "Turns",
    "precisions",
]  # fmt: skip
