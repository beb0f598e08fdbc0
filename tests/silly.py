"""A valid call of each public function and class, and what to put in the place of its arguments."""

from functools import cache

import numpy as np

import echelon as ec
from echelon import blocks, codes, delays, schemes, search, stragglers, theory
from echelon.clusters import VirtualCluster
from echelon.codes import Decoder, SpanTracker, cyclic, mds
from echelon.endings import Due, Fastest, Quorum
from echelon.files import read_times
from echelon.plan import Pool, Slot, Task
from echelon.splits import SPLITS
from tests.conftest import ROOT

SILLY = {
    "None": lambda: None,
    "text": lambda: "x",
    "-1": lambda: -1,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "nan": lambda: np.nan,
    "inf": lambda: np.inf,
    "10**30": lambda: 10**30,
    "True": lambda: True,
    "[]": lambda: [],
    "[None]": lambda: [None],
    "{}": dict,
    "object": object,
    "type": lambda: int,
    "complex": lambda: 1j,
    "bytes": lambda: b"x",
    "empty array": lambda: np.array([]),
    "array of nan": lambda: np.array([np.nan]),
    "array of texts": lambda: np.array(["x", "y"]),
    "set": lambda: {1, 2},
}


@cache
def _profile():
    job = ec.Workload(critical=4, redundancy=1.5, iterations=2, arrivals=ec.Arrivals.poisson(0.01))
    return ec.Profile(job, [ec.Worker(f"w{p}", mean=1.0 + p, std=0.5) for p in range(3)])


def _rng():
    return np.random.default_rng(1)


def _law():
    return delays.ShiftedExponential(shift=0.1, rate=2.0)


def _laws():
    return [_law() for _ in range(3)]


def _table():
    return delays.RecordedTimes({0.0: [[1.0, 2.0]], 1.0: [[2.0, 3.0]]})


def _code():
    return cyclic(rows=4, load=2, rng=_rng())


def _plan():
    return schemes.any_k([2, 2, 2], 4)


def _sum(state, chunk):
    return chunk


LINKS = (0.0, 0.0, 0.0)
SLOTS, LANES = [Slot(rows=2, threshold=1)], [[Task(slot=0, row=0)], [Task(slot=0, row=1)]]


def _stream(cluster="virtual", **options):
    with ec.Stream(cluster, progress=options.pop("progress", False), workers=options.pop("workers", 2), **options):
        pass


def _submit(job):
    with ec.Stream("virtual", workers=2, progress=False) as stream:
        stream.submit(job, deliver=False)


def _chain(**options):
    return schemes.diagonal_interleaved(options.pop("workers", 4), **({"x": 1, "y": 2, "delay": 2} | options))


def _operator(**options):
    ec.linear_operator(options.pop("A"), cluster="virtual", **options).close()


def calls():
    """Return {name: (function, valid keyword arguments)}."""
    return {
        # what most programs call
        "Stream": (_stream, {
            "cluster": "virtual", "workers": 2, "redundancy": 1.1, "profile": None, "emulate": None,
            "split": "theorem2", "strategy": None, "adapt": True, "overlap": None, "patience_s": 30.0, "journal": None,
            "record": None, "metrics": None, "observers": (), "progress": False, "seed": 1,
        }),
        "Stream.submit": (_submit, {"job": ec.SumJob(partial=_sum, update=_sum, state=0, chunks=[1], iterations=1)}),
        "SumJob": (ec.SumJob, {
            "partial": _sum, "update": _sum, "state": 0.0, "chunks": [1.0, 2.0], "weighted": None, "code": None,
            "plan": None, "lend": False, "messages": None, "iterations": 1, "until": None, "name": "a",
            "tolerance": 1e-6,
        }),
        "SumJob of load": (ec.SumJob, {
            "partial": _sum, "update": _sum, "state": 0.0, "load": float, "parts": 2, "iterations": 1,
        }),
        "LinearJob": (ec.LinearJob, {
            "matrix": np.eye(4), "update": _sum, "state": np.ones(4), "parts": 2, "vector": None, "code": None,
            "plan": None, "iterations": 1, "until": None, "name": "a", "tolerance": 1e-6,
        }),
        "BlockJob": (ec.BlockJob, {
            "partial": _sum, "update": _sum, "state": 0.0, "plan": schemes.block_coordinate(2, [1, 1]),
            "chunks": [1, 2], "prepare": None, "iterations": 1, "until": None, "name": "a", "tolerance": 1e-6,
        }),
        "linear_operator": (_operator, {
            "A": np.eye(6), "workers": 2, "redundancy": 1.25, "parts": 3, "stream": None, "emulate": None, "seed": 1,
            "progress": False,
        }),
        "Plan": (ec.Plan, {"slots": SLOTS, "lanes": LANES, "ending": None, "pool": None}),
        "Slot": (Slot, {"rows": 2, "threshold": 1, "alone": (), "known": ()}),
        "Task": (Task, {"slot": 0, "row": 0, "cost": 1.0}),
        "Pool": (Pool, {"batches": [[Task(slot=0, row=0)]], "ahead": 0}),
        "Profile": (ec.Profile, {
            "workload": _profile().workload, "workers": _profile().workers, "source": "profile", "costs": ec.Costs(),
        }),
        "Worker": (ec.Worker, {
            "name": "a", "mean": 1.0, "std": 0.5, "link": 0.0, "law": "gamma", "parameters": {},
        }),
        "Worker of rate": (ec.Worker, {"name": "a", "rate": 1.0, "std": None}),
        "Workload": (ec.Workload, {
            "critical": 4, "redundancy": 1.5, "iterations": 2, "arrivals": ec.Arrivals.poisson(0.01),
            "operations": None, "gamma": 1.0,
        }),
        "Arrivals": (ec.Arrivals, {"mean": 1.0, "second": 2.0, "poisson_process": False, "times": ()}),
        "Arrivals.poisson": (ec.Arrivals.poisson, {"rate": 1.0}),
        "Costs": (ec.Costs, {"message": 0.0, "round": 0.0, "bandwidth": 1e9, "combining": 0.0}),
        "read_profile": (ec.read_profile, {"path": ROOT / "examples" / "example2.toml"}),
        "write_profile": (ec.write_profile, {"profile": _profile(), "path": "/dev/null"}),
        "split_rows": (ec.split_rows, {
            "profile": _profile(), "rule": "theorem2", "tasks": 6, "purge": True, "laws": None, "first": 1.0,
        }),
        "advise": (ec.advise, {
            "profile": _profile(), "work": "gradient", "bytes_per_message": 0.0, "bytes_of_state": 0.0,
            "bytes_per_part": 0.0, "delay_rounds": 3, "waiting": "due", "laws": None, "seed": 1,
        }),
        "predict_rounds": (ec.predict_rounds, {"plan": _plan(), "laws": _laws(), "links": LINKS, "seed": 1}),
        "predict_jobs": (ec.predict_jobs, {
            "plan": _plan(), "profile": _profile(), "purge": True, "laws": None, "seed": 1,
        }),
        "simulate_rounds": (ec.simulate_rounds, {
            "plan": _plan(), "laws": _laws(), "rounds": 10, "seed": 1, "links": LINKS, "progress": None,
        }),
        "simulate_jobs": (ec.simulate_jobs, {
            "plan": _plan(), "profile": _profile(), "jobs": 5, "seeds": 2, "seed": 1, "purge": True, "warmup": 0,
            "laws": None, "overlap": False, "progress": None,
        }),
        "simulate_chain": (ec.simulation.simulate_chain, {
            "scheme": _chain(), "law": _law(), "products": 5, "loads": None, "links": None, "seeds": 1, "seed": 1,
        }),
        "VirtualCluster": (VirtualCluster, {"workers": 2, "emulate": None, "seed": 1, "paces": None, "faults": None}),
        # schemes
        "any_k": (schemes.any_k, {"counts": [2, 2, 2], "critical": 4}),
        "backups": (schemes.backups, {"workers": 3, "parts": 6, "copies": 2, "code": None}),
        "block_coordinate": (schemes.block_coordinate, {"workers": 3, "sizes": [1, 1, 1]}),
        "block_coordinate by levels": (schemes.block_coordinate, {
            "workers": 3, "levels": [0, 1], "costs": [1.0, 1.0],
        }),
        "coded_rows": (schemes.coded_rows, {"code": _code(), "counts": [2, 2]}),
        "fractional_repetition": (schemes.fractional_repetition, {"workers": 4, "load": 2}),
        "gradient_coding": (schemes.gradient_coding, {"workers": 4, "load": 2, "clusters": 1}),
        "lagrange": (schemes.lagrange, {"workers": 4, "load": 2, "degree": 1}),
        "multi_message": (schemes.multi_message, {
            "workers": 4, "load": 2, "clusters": 1, "order": 2, "hybrid": False,
        }),
        "multi_message of orders": (schemes.multi_message, {"workers": 4, "load": 2, "orders": [1, 2]}),
        "pull": (schemes.pull, {
            "workers": 3, "parts": 6, "batch": 1, "ahead": 0, "copies": 2, "shares": None, "code": None,
        }),
        "quorum": (schemes.quorum, {
            "workers": 3, "load": 2, "share": 0.5, "least": 1, "grace": 0.0, "stretch": 0.0,
        }),
        "quorum of loads": (schemes.quorum, {"workers": 3, "load": [1, 2, 1]}),
        "sliding_window": (schemes.sliding_window, {"profile": _profile(), "rule": "theorem2"}),
        "uncoded_multi_message": (schemes.uncoded_multi_message, {"workers": 4, "load": 2}),
        "diagonal_interleaved": (schemes.diagonal_interleaved, {
            "workers": 4, "x": 1, "y": 2, "delay": 2, "z": 1, "spread": 1, "tolerance": 0.0, "waiting": "due",
            "basis": "", "seed": 1,
        }),
        "improved_diagonal_interleaved": (schemes.improved_diagonal_interleaved, {
            "workers": 4, "model": stragglers.Arbitrary(count=1, window=2), "x": None, "y": None, "tolerance": 0.0,
            "waiting": "due", "basis": "", "seed": 1,
        }),
        "polynomial_products": (schemes.polynomial_products, {
            "workers": 4, "x": 1, "y": 2, "z": 1, "basis": "", "seed": 1,
        }),
        "uncoded_products": (schemes.uncoded_products, {"workers": 4, "x": 2, "y": 2}),
        "m_sgc": (schemes.m_sgc, {
            "workers": 4, "workers_at_once": 1, "length": 1, "window": 2, "tolerance": 0.0, "waiting": "due", "seed": 1,
        }),
        "sr_sgc": (schemes.sr_sgc, {
            "workers": 4, "workers_at_once": 2, "length": 1, "window": 2, "tolerance": 0.0, "waiting": "due", "seed": 1,
        }),
        "GradientWindow": (schemes.GradientWindow, {
            "scheme": schemes.m_sgc(4, workers_at_once=1, length=1, window=2),
        }),
        "CodedPlan": (schemes.CodedPlan, {"codes": [mds(parts=1, rows=2, rng=_rng())], "lanes": LANES, "chunks": None}),
        "Window": (schemes.Window, {"scheme": _chain()}),
        # codes
        "balanced": (codes.balanced, {"rows": 6, "parts": 4, "load": 3, "rng": _rng()}),
        "graph": (codes.graph, {"parts": 6, "load": 3, "rng": _rng()}),
        "residual": (codes.residual, {"code": _code(), "received": [0, 2]}),
        "residual_tracker": (codes.residual_tracker, {"code": _code()}),
        "weights_tracker": (codes.weights_tracker, {"code": _code()}),
        "cyclic": (codes.cyclic, {"rows": 4, "load": 2, "rng": _rng()}),
        "codes.fractional_repetition": (codes.fractional_repetition, {"rows": 4, "load": 2, "apart": True}),
        "khatri_rao": (codes.khatri_rao, {"x": 2, "y": 1, "rows": 4, "rng": _rng()}),
        "codes.lagrange": (codes.lagrange, {"parts": 2, "degree": 1, "rows": 4}),
        "mds": (codes.mds, {"parts": 2, "rows": 4, "rng": _rng(), "parity": "auto"}),
        "named_code": (codes.named_code, {"text": "cyclic", "parts": 4, "rows": 4, "critical": 3, "rng": _rng()}),
        "polynomial": (codes.polynomial, {"x": 2, "y": 1, "rows": 4, "rng": _rng(), "z": 1, "basis": "roots"}),
        "reed_solomon": (codes.reed_solomon, {"mask": np.ones((3, 3), dtype=bool), "real": False, "stride": None}),
        "subspace": (codes.subspace, {"critical": 2, "rows": 4, "parts": 4, "rng": _rng(), "load": None}),
        "codes.uncoded": (codes.uncoded, {"parts": 3, "stacked": False}),
        "threshold_of": (codes.threshold_of, {"mask": np.ones((3, 3), dtype=bool)}),
        "combine": (codes.combine, {"weights": np.ones((1, 2)), "messages": [np.ones(2)] * 2}),
        "verify": (codes.verify, {
            "code": _code(), "rows": [0, 1, 2], "messages": [np.ones(2)] * 3, "tolerance": 1e-9,
        }),
        "Decoder": (Decoder, {"code": _code(), "limit": None}),
        "Decoder.weights": (Decoder(_code()).weights, {"received": [0, 1, 2]}),
        "Decoder.decode": (Decoder(_code()).decode, {
            "rows": [0, 1, 2], "messages": [np.ones(2)] * 3, "verified": False, "tolerance": None,
        }),
        "Code": (codes.Code, {
            "matrix": np.eye(2), "target": np.ones((1, 2)), "threshold": 2, "counting": True, "precoded": False,
            "systematic": 0, "limit": 1e8,
        }),
        "tracker": (codes.tracker, {"code": _code()}),
        "SpanTracker": (SpanTracker, {"code": _code(), "tolerance": 1e-9}),
        "CountTracker": (codes.CountTracker, {"rows": 3, "threshold": 2, "alone": ()}),
        "relative": (codes.relative, {"error": 1e-9, "result": np.ones(2), "epsilon": 1e-16}),
        # delays
        "Deterministic": (delays.Deterministic, {"time": 1.0}),
        "Exponential": (delays.Exponential, {"rate": 1.0}),
        "Fritchman": (delays.Fritchman, {"base": _law(), "enter": 0.1, "leave": 0.5, "slowdown": 3.0, "states": 3}),
        "Gamma": (delays.Gamma, {"shape": 1.0, "scale": 1.0}),
        "GilbertElliott": (delays.GilbertElliott, {"base": _law(), "enter": 0.1, "leave": 0.5, "slowdown": 3.0}),
        "Pareto": (delays.Pareto, {"shape": 3.0, "scale": 1.0}),
        "Recorded": (delays.Recorded, {"times": [1.0, 2.0], "part": 0.5}),
        "RecordedTimes": (delays.RecordedTimes, {"tables": {0.0: [[1.0, 2.0]]}, "names": ["a", "b"]}),
        "RecordedTimes.laws": (_table().laws, {"parts": 4, "load": 0.5, "slope": 1.0}),
        "RecordedTimes.profiled": (_table().profiled, {"parts": 4, "load": 0.5, "slope": 1.0}),
        "read_times": (read_times, {"path": ROOT / "examples" / "lambda" / "lambda.npz", "family": "cnn"}),
        "RoundPace": (delays.RoundPace, {"base": _law()}),
        "ShiftedExponential": (delays.ShiftedExponential, {"shift": 0.1, "rate": 1.0}),
        "Straggler": (delays.Straggler, {"base": _law(), "probability": 0.1, "slowdown": 3.0}),
        "Trace": (delays.Trace, {"times": [1.0, 2.0]}),
        "arrival_law": (delays.arrival_law, {"arrivals": ec.Arrivals.poisson(1.0)}),
        "task_laws": (delays.task_laws, {"profile": _profile()}),
        # search
        "add_until_stable": (search.add_until_stable, {
            "profile": _profile(), "pool": [ec.Worker("p", mean=1.0, std=0.5)], "rule": "theorem2", "tasks": None,
            "purge": True,
        }),
        "algorithm1": (search.algorithm1, {"profile": _profile(), "grid": search.code_grid([4], [1.5])}),
        "best_code": (search.best_code, {
            "profile": _profile(), "grid": search.code_grid([4], [1.5]), "rule": "theorem2", "purge": True,
            "progress": None,
        }),
        "code_grid": (search.code_grid, {"criticals": [4], "redundancies": [1.5]}),
        "CodeShape": (search.CodeShape, {"critical": 4, "tasks": 6}),
        "optimise_multi_message": (search.optimise_multi_message, {
            "workers": 4, "load": 2, "delay": _law(), "max_messages": None, "message_cost": 0.0, "max_orders": 2,
            "seed": 1, "progress": None,
        }),
        # blocks
        "optimise_exact": (blocks.optimise_exact, {
            "workers": 4, "coordinates": 100, "law": _law(), "unit": 1.0, "tolerance": 1e-3,
        }),
        "optimise_t": (blocks.optimise_t, {"workers": 4, "coordinates": 100, "law": _law(), "unit": 1.0, "seed": 1}),
        "optimise_f": (blocks.optimise_f, {"workers": 4, "coordinates": 100, "law": _law(), "unit": 1.0, "seed": 1}),
        "baselines": (blocks.baselines, {
            "workers": 3, "coordinates": 30, "law": _law(), "unit": 1.0, "seed": 1,
        }),
        "expected_runtime": (blocks.expected_runtime, {"x": np.array([10.0, 5.0]), "law": _law(), "unit": 1.0}),
        "blocks.uncoded": (blocks.uncoded, {"workers": 4, "coordinates": 100}),
        "rounded": (blocks.rounded, {"x": np.array([10.0, 5.0]), "coordinates": 15}),
        "levels": (blocks.levels, {"x": np.array([2, 1])}),
        "is_continuous": (blocks.is_continuous, {"law": _law()}),
        "LayerCosts": (blocks.LayerCosts, {"forward": 1.0, "deltas": (1.0, 0.0), "weights": (1.0, 1.0)}),
        # theory
        "kingman": (theory.kingman, {"gap_mean": 1.0, "gap_second": 2.0, "mean": 0.5, "second": 0.5}),
        "pollaczek_khinchine": (theory.pollaczek_khinchine, {"rate": 1.0, "mean": 0.5, "second": 0.5}),
        "service_moments": (theory.service_moments, {"mean": 1.0, "second": 2.0, "iterations": 2}),
        "queue_delay": (theory.queue_delay, {
            "arrivals": ec.Arrivals.poisson(1.0), "service_mean": 0.5, "service_second": 0.5,
        }),
        "dip_time": (theory.dip_time, {"slowdown": 3.0, "results": 2, "workers": 4, "probability": 0.1}),
        "uncoded_time": (theory.uncoded_time, {"slowdown": 3.0, "workers": 4, "probability": 0.1}),
        "polynomial_time": (theory.polynomial_time, {
            "slowdown": 3.0, "stragglers": 1, "workers": 4, "probability": 0.1,
        }),
        "optimal_load": (theory.optimal_load, {"workers": 4, "count": 1, "window": 3}),
        "rounds_needed": (theory.rounds_needed, {"results": 2, "workers": 4, "probability": 0.1}),
        # stragglers, splits, endings
        "Arbitrary": (stragglers.Arbitrary, {"count": 1, "window": 2}),
        "Bursts": (stragglers.Bursts, {"workers_at_once": 1, "length": 1, "window": 3}),
        "theorem2": (SPLITS["theorem2"], {"speeds": _profile().speeds, "tasks": 6, "gamma": 1.0, "first": 1.0}),
        "uniform": (SPLITS["uniform"], {"speeds": _profile().speeds, "tasks": 6, "gamma": 1.0, "first": 1.0}),
        "Due": (Due, {"due": (), "limits": (), "tolerance": 0.0}),
        "Fastest": (Fastest, {"due": (), "limits": (), "tolerance": 0.0}),
        "Quorum": (Quorum, {"share": 0.5, "least": 1, "grace": 0.0, "stretch": 0.0}),
    }  # fmt: skip
