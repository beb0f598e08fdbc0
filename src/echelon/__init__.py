"""Straggler-proof iterative distributed computation: plan, predict, simulate and run coded jobs on unequal workers.

>>> import echelon as ec
>>> workers = [ec.Worker("fast", mean=0.1, std=0.1), ec.Worker("slow", mean=0.3, std=0.3, link=0.05)]
>>> job = ec.Workload(critical=10, redundancy=1.2, iterations=5, arrivals=ec.Arrivals.poisson(0.1))
>>> profile = ec.Profile(job, workers)
>>> split = ec.split_rows(profile)
>>> split.counts.tolist()
[9, 3]
>>> round(ec.predict_jobs(ec.schemes.any_k(split.counts, job.critical), profile).delay, 2)
5.46
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echelon import (
        blocks,
        clusters,
        codes,
        delays,
        jobs,
        master,
        products,
        schemes,
        simulation,
        splits,
        stragglers,
        theory,
    )
    from echelon.errors import (
        ArgumentError,
        ClusterError,
        CorruptMessages,
        EchelonError,
        JournalError,
        NoClosedForm,
        NotDecodable,
        ProfileError,
    )
    from echelon.estimate import SpeedEstimator
    from echelon.files import read_profile, write_profile
    from echelon.jobs import BlockJob, LinearJob, SumJob
    from echelon.operators import linear_operator
    from echelon.plan import Plan, Slot, Task
    from echelon.prediction import PredictedJobs, PredictedRounds, plan_law, predict_jobs, predict_rounds
    from echelon.products import MatmulStream
    from echelon.profile import Arrivals, Costs, Profile, Speeds, Worker, Workload
    from echelon.search import Advice, advise
    from echelon.search.chains import ChainSearch, optimise_chain
    from echelon.search.codes import algorithm1, best_code, code_grid
    from echelon.search.multi_message import DesignSearch, optimise_multi_message
    from echelon.search.splits import split_rows
    from echelon.search.workers import add_until_stable
    from echelon.simulation import (
        ChainResult,
        SimulatedJobs,
        SimulatedRounds,
        simulate_chain,
        simulate_jobs,
        simulate_law,
        simulate_rounds,
    )
    from echelon.splits import Split
    from echelon.stream import Delivery, Handle, JobFailed, Observer, Stream

__version__ = "0.1.0"

# imported when first asked for: `import echelon` and `echelon --help` load nothing else
_MODULES = (
    "blocks", "clusters", "codes", "delays", "jobs", "master", "products", "schemes", "simulation", "splits",
    "stragglers", "theory",
)  # fmt: skip
_NAMES = {
    "advice": "Advice advise",
    "chain_search": "ChainSearch optimise_chain",
    "errors": "ArgumentError ClusterError CorruptMessages EchelonError JournalError "
    "NoClosedForm NotDecodable ProfileError",
    "estimate": "SpeedEstimator",
    "files": "read_profile write_profile",
    "jobs": "BlockJob LinearJob SumJob",
    "operators": "linear_operator",
    "optimise": "DesignSearch optimise_multi_message",
    "plan": "Plan Slot Task",
    "pool": "add_until_stable",
    "prediction": "PredictedRounds PredictedJobs plan_law predict_jobs predict_rounds",
    "products": "MatmulStream",
    "profile": "Arrivals Costs Profile Speeds Worker Workload",
    "schemes": "split_rows",
    "simulation": "ChainResult SimulatedJobs SimulatedRounds simulate_chain simulate_jobs simulate_law simulate_rounds",
    "splits": "Split",
    "stream": "Delivery Handle JobFailed Observer Stream",
    "tune": "algorithm1 best_code code_grid",
}
_LATER = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"echelon.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'echelon' has no attribute {name!r}")
    return getattr(import_module(f"echelon.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "Advice", "ArgumentError", "Arrivals", "BlockJob", "ChainResult", "ChainSearch", "ClusterError", "CorruptMessages",
    "Costs", "Delivery", "DesignSearch", "EchelonError", "Handle", "JobFailed", "JournalError", "LinearJob",
    "MatmulStream", "NoClosedForm", "NotDecodable", "Observer", "Plan", "PredictedJobs", "PredictedRounds", "Profile",
    "ProfileError", "SimulatedJobs", "SimulatedRounds", "Slot", "SpeedEstimator", "Speeds", "Split", "Stream", "SumJob",
    "Task", "Worker", "Workload", "add_until_stable", "advise", "algorithm1", "best_code", "blocks", "clusters",
    "code_grid", "codes", "delays", "jobs", "linear_operator", "master", "optimise_chain", "optimise_multi_message",
    "plan_law", "predict_jobs", "predict_rounds", "products", "read_profile", "schemes", "simulate_chain",
    "simulate_jobs", "simulate_law", "simulate_rounds", "simulation", "split_rows", "splits", "stragglers", "theory",
    "write_profile",
]  # fmt: skip
