"""Chains of products for `echelon simulate`: quick where the simulator knows their rounds, else by the master."""

from dataclasses import replace
from typing import Any

import numpy as np

from echelon import checks
from echelon.cli.console import out, print_table, show
from echelon.clusters import VirtualCluster
from echelon.delays import task_laws
from echelon.products import MatmulStream
from echelon.profile import Costs, Profile
from echelon.schemes import CHAINS, Sequential
from echelon.simulation import CONFIDENCE, simulate_chain
from echelon.simulation.chains import can
from echelon.simulation.simulated_jobs import Interval, Progress
from echelon.spec import Spec


def is_chain(text: str | None) -> bool:
    """Return whether a text names a scheme for chains of products."""
    return text is not None and text.partition(":")[0] in CHAINS


def chain_report(
    text: str, profile: Profile, *, products: int, seeds: int, seed: int, progress: Progress | None
) -> dict[str, Any]:
    """Return the times of a chain's products, one begun in each round, by the keys of the JSON.

    A product is as much work as an iteration of the profile's jobs: K tasks.
    """
    products, seeds = checks.whole("jobs", products, least=1), checks.whole("seeds", seeds, least=1)
    spec = Spec.read("scheme", text, CHAINS)
    scheme: Sequential = spec.call(CHAINS[spec.name], workers=len(profile.workers))
    laws, load = task_laws(profile), profile.workload.critical
    quick = bool(can(scheme, laws))
    if quick:
        costs, links = np.full(products, float(load)), profile.speeds.link
        times = simulate_chain(scheme, laws, loads=costs, links=links, seeds=seeds, seed=seed).times
    else:
        times = np.empty(seeds)
        for i in range(seeds):
            times[i] = in_virtual_time(scheme, profile, products, seed + i)
            if progress is not None:
                progress(i + 1, seeds)
    seen = Interval.of(times)
    return {
        "scheme": text,
        "workers": profile.names,
        "iteration_mean": seen.mean,
        "low": seen.low,
        "high": seen.high,
        "confidence": CONFIDENCE,
        "products": products,
        "seeds": seeds,
        "method": "tasks" if quick else "master",
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
        f"{report['scheme']}: {report['seeds']} chains of {report['products']} products (sampled)",
        ["", "seconds"],
        [
            ["product, mean", show(report["iteration_mean"], 4)],
            [f"… {CONFIDENCE:.0%} interval", f"{show(report['low'], 4)} … {show(report['high'], 4)}"],
        ],
    )
    if report["method"] == "master":
        out.print("Run by the master in virtual time: the quick simulator does not know how these rounds end.")
