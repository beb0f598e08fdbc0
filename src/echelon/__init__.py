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
        endings,
        errors,
        prediction,
        schemes,
        search,
        simulation,
        theory,
    )
    from echelon.errors import EchelonError, JobFailed
    from echelon.files import read_profile, write_profile
    from echelon.jobs import BlockJob, LinearJob, SumJob
    from echelon.operators import linear_operator
    from echelon.plan import Plan
    from echelon.prediction import predict_jobs, predict_rounds
    from echelon.products import MatmulStream
    from echelon.profile import Arrivals, Costs, Profile, Worker, Workload
    from echelon.search import advise, split_rows
    from echelon.simulation import simulate_jobs, simulate_rounds
    from echelon.stream import Observer, Stream

__version__ = "0.1.0"

# imported when first asked for: `import echelon` and `echelon --help` load nothing else
_MODULES = (
    "blocks", "clusters", "codes", "delays", "endings", "errors", "prediction", "schemes", "search", "simulation",
    "theory",
)  # fmt: skip
_NAMES = {
    "errors": "EchelonError JobFailed",
    "files": "read_profile write_profile",
    "jobs": "BlockJob LinearJob SumJob",
    "operators": "linear_operator",
    "plan": "Plan",
    "prediction": "predict_jobs predict_rounds",
    "products": "MatmulStream",
    "profile": "Arrivals Costs Profile Worker Workload",
    "search": "advise split_rows",
    "simulation": "simulate_jobs simulate_rounds",
    "stream": "Observer Stream",
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
    "Arrivals", "BlockJob", "Costs", "EchelonError", "JobFailed", "LinearJob", "MatmulStream", "Observer", "Plan",
    "Profile", "Stream", "SumJob", "Worker", "Workload", "advise", "blocks", "clusters", "codes", "delays", "endings",
    "errors", "linear_operator", "predict_jobs", "predict_rounds", "prediction", "read_profile", "schemes", "search",
    "simulate_jobs", "simulate_rounds", "simulation", "split_rows", "theory", "write_profile",
]  # fmt: skip
