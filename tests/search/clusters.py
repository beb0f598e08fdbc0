"""Workers to be advised on."""

from echelon import Costs
from echelon.profile import Arrivals, Profile, Worker, Workload


def cluster(means, std=0.0, link=0.0, critical=12, **costs):
    job = Workload(critical=critical, redundancy=1.0, iterations=5, arrivals=Arrivals.poisson(1e-4))
    workers = [Worker(f"w{p}", mean=mean, std=std * mean, link=link) for p, mean in enumerate(means)]
    return Profile(job, workers, costs=Costs(**costs))


def named(advice):
    return {outcome.name: outcome for outcome in advice.ranked}
