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
    from echelon.advice import Advice, advise
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
    from echelon.jobs import BlockJob, LinearJob, SumJob
    from echelon.operators import linear_operator
    from echelon.optimise import DesignSearch, optimise_multi_message
    from echelon.plan import Plan, Slot, Task
    from echelon.pool import add_until_stable
    from echelon.prediction import CompletionPrediction, Prediction, plan_law, predict
    from echelon.products import MatmulStream
    from echelon.profile import Arrivals, Costs, Job, Profile, Speeds, Worker
    from echelon.schemes import split_rows
    from echelon.simulation import (
        ChainResult,
        CompletionResult,
        StreamResult,
        simulate_chain,
        simulate_law,
    )
    from echelon.simulation.closed_loop import closed_loop
    from echelon.simulation.simulate import simulate
    from echelon.simulation.timeline import timeline
    from echelon.splits import Split
    from echelon.stream import Delivery, Handle, JobFailed, Stream
    from echelon.tune import algorithm1, best_code, code_grid

__version__ = "0.1.0"

# imported when first asked for: `import echelon` and `echelon --help` load nothing else
_LATER = {
    "Advice": "echelon.advice",
    "ArgumentError": "echelon.errors",
    "Arrivals": "echelon.profile",
    "BlockJob": "echelon.jobs",
    "ChainResult": "echelon.simulation",
    "ChainSearch": "echelon.chain_search",
    "ClusterError": "echelon.errors",
    "CompletionPrediction": "echelon.prediction",
    "CompletionResult": "echelon.simulation",
    "CorruptMessages": "echelon.errors",
    "Costs": "echelon.profile",
    "Delivery": "echelon.stream",
    "DesignSearch": "echelon.optimise",
    "EchelonError": "echelon.errors",
    "Handle": "echelon.stream",
    "Job": "echelon.profile",
    "JobFailed": "echelon.stream",
    "LinearJob": "echelon.jobs",
    "MatmulStream": "echelon.products",
    "NoClosedForm": "echelon.errors",
    "NotDecodable": "echelon.errors",
    "Plan": "echelon.plan",
    "Prediction": "echelon.prediction",
    "Profile": "echelon.profile",
    "ProfileError": "echelon.errors",
    "Slot": "echelon.plan",
    "SpeedEstimator": "echelon.estimate",
    "Speeds": "echelon.profile",
    "Split": "echelon.splits",
    "Stream": "echelon.stream",
    "StreamResult": "echelon.simulation",
    "SumJob": "echelon.jobs",
    "Task": "echelon.plan",
    "Worker": "echelon.profile",
    "add_until_stable": "echelon.pool",
    "advise": "echelon.advice",
    "algorithm1": "echelon.tune",
    "best_code": "echelon.tune",
    "blocks": "echelon.blocks",
    "closed_loop": "echelon.simulation",
    "clusters": "echelon.clusters",
    "code_grid": "echelon.tune",
    "codes": "echelon.codes",
    "delays": "echelon.delays",
    "jobs": "echelon.jobs",
    "linear_operator": "echelon.operators",
    "master": "echelon.master",
    "optimise_chain": "echelon.chain_search",
    "optimise_multi_message": "echelon.optimise",
    "plan_law": "echelon.prediction",
    "predict": "echelon.prediction",
    "products": "echelon.products",
    "read_profile": "echelon.files",
    "schemes": "echelon.schemes",
    "simulate": "echelon.simulation",
    "simulate_chain": "echelon.simulation",
    "simulate_law": "echelon.simulation",
    "simulation": "echelon.simulation",
    "split_rows": "echelon.schemes",
    "splits": "echelon.splits",
    "stragglers": "echelon.stragglers",
    "theory": "echelon.theory",
    "timeline": "echelon.simulation",
    "write_profile": "echelon.files",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'echelon' has no attribute {name!r}")
    module = import_module(_LATER[name])
    return module if name == _LATER[name].split(".")[1] else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Advice",
    "ArgumentError",
    "Arrivals",
    "BlockJob",
    "ChainResult",
    "ChainSearch",
    "ClusterError",
    "CompletionPrediction",
    "CompletionResult",
    "CorruptMessages",
    "Costs",
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
    "advise",
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
