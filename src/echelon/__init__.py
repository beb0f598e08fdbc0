"""Straggler-proof iterative distributed computation: plan, predict, simulate and run coded jobs on unequal workers.

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

from importlib import import_module
from typing import TYPE_CHECKING, Any

from echelon import codes, delays, schemes, simulation, splits, stragglers, theory
from echelon.chain_search import ChainSearch, optimise_chain
from echelon.errors import (
    ArgumentError,
    ClusterError,
    CorruptMessages,
    EchelonError,
    NoClosedForm,
    NotDecodable,
    ProfileError,
)
from echelon.estimate import SpeedEstimator
from echelon.files import read_profile, write_profile
from echelon.optimise import DesignSearch, optimise_multi_message
from echelon.plan import Plan, Slot, Task
from echelon.pool import add_until_stable
from echelon.prediction import CompletionPrediction, Prediction, plan_law, predict
from echelon.profile import Arrivals, Job, Profile, Speeds, Worker
from echelon.schemes import split_rows
from echelon.simulation import (
    ChainResult,
    CompletionResult,
    StreamResult,
    closed_loop,
    simulate,
    simulate_chain,
    simulate_law,
    timeline,
)
from echelon.splits import Split
from echelon.tune import algorithm1, best_code, code_grid

if TYPE_CHECKING:
    from echelon import blocks, clusters, jobs, master, products
    from echelon.jobs import BlockJob, LinearJob, SumJob
    from echelon.operators import linear_operator
    from echelon.products import MatmulStream
    from echelon.stream import Delivery, Handle, JobFailed, Stream

__version__ = "0.1.0"

# what runs jobs is imported when it is first asked for: planning needs none of it
_LATER = {
    "blocks": "echelon.blocks",
    "BlockJob": "echelon.jobs",
    "Delivery": "echelon.stream",
    "Handle": "echelon.stream",
    "JobFailed": "echelon.stream",
    "LinearJob": "echelon.jobs",
    "MatmulStream": "echelon.products",
    "Stream": "echelon.stream",
    "SumJob": "echelon.jobs",
    "clusters": "echelon.clusters",
    "jobs": "echelon.jobs",
    "linear_operator": "echelon.operators",
    "master": "echelon.master",
    "products": "echelon.products",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'echelon' has no attribute {name!r}")
    module = import_module(_LATER[name])
    return module if name == _LATER[name].split(".")[1] else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "ArgumentError",
    "Arrivals",
    "BlockJob",
    "ChainResult",
    "ChainSearch",
    "ClusterError",
    "CompletionPrediction",
    "CompletionResult",
    "CorruptMessages",
    "Delivery",
    "DesignSearch",
    "EchelonError",
    "Handle",
    "Job",
    "JobFailed",
    "LinearJob",
    "MatmulStream",
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
    "Stream",
    "StreamResult",
    "SumJob",
    "Task",
    "Worker",
    "add_until_stable",
    "algorithm1",
    "best_code",
    "blocks",
    "closed_loop",
    "clusters",
    "code_grid",
    "codes",
    "delays",
    "jobs",
    "linear_operator",
    "master",
    "optimise_chain",
    "optimise_multi_message",
    "plan_law",
    "predict",
    "products",
    "read_profile",
    "schemes",
    "simulate",
    "simulate_chain",
    "simulate_law",
    "simulation",
    "split_rows",
    "splits",
    "stragglers",
    "theory",
    "timeline",
    "write_profile",
]
