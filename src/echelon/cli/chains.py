"""Chains of products and of gradients for `echelon simulate`: quick where the simulator knows their rounds, else by
the master.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from echelon import checks
from echelon.cli.console import out, print_table, show
from echelon.clusters import VirtualCluster
from echelon.delays import task_laws
from echelon.products import MatmulStream
from echelon.profile import Costs, Profile
from echelon.schemes import CHAINS, GRADIENT_CHAINS, GradientChain, Sequential
from echelon.simulation import CONFIDENCE, simulate_chain, simulate_gradients
from echelon.simulation.chains import can
from echelon.simulation.simulated_jobs import Interval, Progress
from echelon.spec import Spec


def is_chain(text: str | None) -> bool:
    """Return whether a text names a scheme for chains of products or of gradients."""
    return text is not None and text.partition(":")[0] in CHAINS.keys() | GRADIENT_CHAINS.keys()


def chain_report(
    text: str, profile: Profile, *, products: int, seeds: int, seed: int, progress: Progress | None
) -> dict[str, Any]:
    """Return the times of a chain's products or gradients, one begun in each round, by the keys of the JSON.

    Each is as much work as an iteration of the profile's jobs: K tasks.
    """
    products, seeds = checks.whole("jobs", products, least=1), checks.whole("seeds", seeds, least=1)
    kinds = CHAINS | GRADIENT_CHAINS
    spec = Spec.read("scheme", text, kinds)
    scheme: Sequential | GradientChain = spec.call(kinds[spec.name], workers=len(profile.workers))
    laws, load, links = task_laws(profile), float(profile.workload.critical), profile.speeds.link
    quick = isinstance(scheme, Sequential) and bool(can(scheme, laws))
    if isinstance(scheme, Sequential) and quick:
        costs = np.full(products, load)
        times = simulate_chain(scheme, laws, loads=costs, links=links, seeds=seeds, seed=seed).times
    else:
        times = np.empty(seeds)
        for i in range(seeds):
            if isinstance(scheme, GradientChain):
                seen = simulate_gradients(scheme, laws, gradients=products, cost=load, links=links, seed=seed + i)
                times[i] = seen.mean
            else:
                times[i] = in_virtual_time(scheme, profile, products, seed + i)
            if progress is not None:
                progress(i + 1, seeds)
    mean = Interval.of(times)
    return {
        "scheme": text,
        "workers": profile.names,
        "iteration_mean": mean.mean,
        "low": mean.low,
        "high": mean.high,
        "confidence": CONFIDENCE,
        "products": products,
        "of": "gradients" if isinstance(scheme, GradientChain) else "products",
        "seeds": seeds,
        "method": "tasks" if quick or isinstance(scheme, GradientChain) else "master",
    }


def in_virtual_time(scheme: Sequential, profile: Profile, products: int, seed: int) -> float:
    """Return the mean time of a product when the master runs a chain of them in virtual time."""
    first, second = np.ones((scheme.x, scheme.z)), np.ones((scheme.z, scheme.y))
    unit = first.size * scheme.y / profile.workload.critical
    cluster = VirtualCluster(emulate=replace(profile, costs=Costs()), seed=seed)
    with MatmulStream(cluster, scheme, unit=unit, progress=False, seed=seed) as stream:
        for found in [stream.submit(first, second) for _ in range(products)]:
            found.result()
        return cluster.now() / products


def show_chain(report: dict[str, Any]) -> None:
    """Print the report as a table."""
    print_table(
        f"{report['scheme']}: {report['seeds']} chains of {report['products']} {report['of']} (sampled)",
        ["", "seconds"],
        [
            [f"{report['of'].removesuffix('s')}, mean", show(report["iteration_mean"], 4)],
            [f"… {CONFIDENCE:.0%} interval", f"{show(report['low'], 4)} … {show(report['high'], 4)}"],
        ],
    )
    if report["method"] == "master":
        out.print("Run by the master in virtual time: the quick simulator does not know how these rounds end.")
