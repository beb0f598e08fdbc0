"""Straggler-proof iterative distributed computation: plan, predict and simulate coded jobs on unequal workers.

>>> import echelon as ec
>>> workers = [ec.Worker("fast", mean=0.1, std=0.1), ec.Worker("slow", mean=0.3, std=0.3, link=0.05)]
>>> job = ec.Job(critical=10, redundancy=1.2, iterations=5, arrivals=ec.Arrivals.poisson(0.1))
>>> profile = ec.Profile(job, workers)
>>> split = ec.split_rows(profile)
>>> split.counts.tolist()
[9, 3]
>>> round(ec.predict(ec.schemes.any_k(split.counts, job.critical), profile).delay, 2)
5.46
"""

from echelon import codes, delays, schemes, simulation, splits, theory
from echelon.errors import (
    ArgumentError,
    CorruptMessages,
    EchelonError,
    NoClosedForm,
    NotDecodable,
    ProfileError,
)
from echelon.estimate import SpeedEstimator
from echelon.files import read_profile, write_profile
from echelon.plan import Plan, Slot, Task
from echelon.pool import add_until_stable
from echelon.prediction import Prediction, plan_law, predict
from echelon.profile import Arrivals, Job, Profile, Speeds, Worker
from echelon.schemes import split_rows
from echelon.simulation import StreamResult, closed_loop, simulate, simulate_law, timeline
from echelon.splits import Split
from echelon.tune import algorithm1, best_code, code_grid

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Arrivals",
    "CorruptMessages",
    "EchelonError",
    "Job",
    "NoClosedForm",
    "NotDecodable",
    "Plan",
    "Prediction",
    "Profile",
    "ProfileError",
    "Slot",
    "SpeedEstimator",
    "Speeds",
    "Split",
    "StreamResult",
    "Task",
    "Worker",
    "add_until_stable",
    "algorithm1",
    "best_code",
    "closed_loop",
    "code_grid",
    "codes",
    "delays",
    "plan_law",
    "predict",
    "read_profile",
    "schemes",
    "simulate",
    "simulate_law",
    "simulation",
    "split_rows",
    "splits",
    "theory",
    "timeline",
    "write_profile",
]
