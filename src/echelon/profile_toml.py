"""Profiles as TOML text: `parse` with an error that names the key, and `write` that `parse` reads back.

[workload]
critical = 50          # K: results needed per iteration
redundancy = 1.1       # Omega
operations = 2827440   # C: work of one task (only with `rate`)
iterations = 50        # I
arrivals = 0.01        # jobs per second, Poisson
                       # or interarrival = { mean = 100, second = 20000 }, or { times = [90, 120, ...] }
gamma = 1.0            # weight of the second moment in the metric; 1 by default
[[worker]]
name = "w1"
rate = 5.29e7          # or: mean = 0.0534, std = 0.0534
link = 0.0481
law = "gamma"          # any registered delay, fitted to mean and std; gamma by default
parameters = {}        # further arguments of that law's fit
[costs]                # may be left out, like each of its keys
message = 1e-4         # seconds that a worker needs to send a message
bandwidth = 1e9        # bytes per second
round = 5e-4           # seconds that the master needs between two rounds
combining = 1e-10      # seconds per byte to add one weighted array to another
port = 1e9             # bytes per second that the master takes in and sends out
plane = "master"       # who adds up the rows of a sum; or "responders"
"""

import json
import math
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from echelon.errors import ArgumentError, ProfileError
from echelon.profile import Arrivals, Costs, Profile, Worker, Workload

_T = TypeVar("_T")

_WORKLOAD_KEYS = ("critical", "redundancy", "operations", "iterations", "arrivals", "interarrival", "gamma")
_COST_KEYS = ("message", "round", "bandwidth", "combining", "port", "plane")
_WORKER_KEYS = ("name", "rate", "mean", "std", "link", "law", "parameters")


def parse(text: str, source: str = "profile") -> Profile:
    """Return the profile that a TOML text describes; `source` is named in errors.

    >>> parse("[workload]", "x.toml")
    Traceback (most recent call last):
    ...
    echelon.errors.ProfileError: x.toml: worker: missing; must be one [[worker]] table per worker
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{source}: not valid TOML: {error}") from None
    _known(document, ("workload", "worker", "costs"), source, "")
    for key, kind in (("workload", "a [workload] table"), ("worker", "one [[worker]] table per worker")):
        if key not in document:
            raise ProfileError(f"{source}: {key}: missing; must be {kind}")
    if not isinstance(document["workload"], dict):
        raise ProfileError(f"{source}: workload: must be a [workload] table")
    tables = document["worker"]
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ProfileError(f"{source}: worker: must be one [[worker]] table per worker")
    workload = _workload(document["workload"], source)
    workers = tuple(_worker(table, f"worker[{i + 1}]", source) for i, table in enumerate(tables))
    return Profile(workload, workers, source, _costs(document.get("costs", {}), source))


def write(profile: Profile) -> str:
    """Return TOML text that `parse` reads back as an equal profile."""
    workload = profile.workload
    head: dict[str, Any] = {"critical": workload.critical, "redundancy": workload.redundancy}
    if workload.operations is not None:
        head["operations"] = workload.operations
    head["iterations"] = workload.iterations
    if workload.arrivals.poisson_process:
        head["arrivals"] = workload.arrivals.rate
    elif workload.arrivals.times:
        head["interarrival"] = {"times": list(workload.arrivals.times)}
    else:
        head["interarrival"] = {"mean": workload.arrivals.mean, "second": workload.arrivals.second}
    head["gamma"] = workload.gamma
    blocks = ["[workload]\n" + _lines(head)]
    for worker in profile.workers:
        table: dict[str, Any] = {"name": worker.name}
        if worker.rate is None:
            table |= {"mean": worker.mean, "std": worker.std}
        else:
            table["rate"] = worker.rate
        table["link"] = worker.link
        if worker.law != "gamma":
            table["law"] = worker.law
        if worker.parameters:
            table["parameters"] = dict(worker.parameters)
        blocks.append("[[worker]]\n" + _lines(table))
    costs = {key: value for key, value in asdict(profile.costs).items() if value != getattr(Costs(), key)}
    if costs:
        blocks.append("[costs]\n" + _lines(costs))
    return "\n".join(blocks)


def _workload(table: Mapping[str, Any], source: str) -> Workload:
    _known(table, _WORKLOAD_KEYS, source, "workload.")
    _needed(table, ("critical", "redundancy", "iterations"), source, "workload.")
    if ("arrivals" in table) == ("interarrival" in table):
        said = "given together with interarrival" if "arrivals" in table else "missing"
        raise ProfileError(
            f"{source}: workload.arrivals: {said}; must be given, jobs per second, or else "
            "interarrival = { mean = …, second = … }"
        )
    if "arrivals" in table:
        arrivals = _named(lambda: Arrivals.poisson(table["arrivals"]), source, "workload.")
    else:
        arrivals = _interarrival(table["interarrival"], source)
    plain = {key: table[key] for key in _WORKLOAD_KEYS if key in table and "arrival" not in key}
    return _named(lambda: Workload(arrivals=arrivals, **plain), source, "workload.")


def _costs(table: Any, source: str) -> Costs:
    if not isinstance(table, dict):
        raise ProfileError(f"{source}: costs: must be a [costs] table")
    _known(table, _COST_KEYS, source, "costs.")
    return _named(lambda: Costs(**table), source, "costs.")


def _interarrival(table: Any, source: str) -> Arrivals:
    where = "workload.interarrival."
    if not isinstance(table, dict):
        raise ProfileError(f"{source}: workload.interarrival: must be {{ mean = …, second = … }} or {{ times = […] }}")
    if "times" in table:
        _known(table, ("times",), source, where)
        return _named(lambda: Arrivals.recorded(table["times"]), source, where)
    _known(table, ("mean", "second"), source, where)
    _needed(table, ("mean", "second"), source, where)
    return _named(lambda: Arrivals(mean=table["mean"], second=table["second"]), source, where)


def _worker(table: Mapping[str, Any], where: str, source: str) -> Worker:
    _known(table, _WORKER_KEYS, source, f"{where}.")
    _needed(table, ("name", "link"), source, f"{where}.")
    if "law" in table and not isinstance(table["law"], str):
        raise ProfileError(f"{source}: {where}.law: {table['law']!r} is not allowed; must be the name of a law")
    if not isinstance(table.get("parameters", {}), dict):
        raise ProfileError(f"{source}: {where}.parameters: must be a table")
    return _named(lambda: Worker(**table), source, f"{where}.")


def _named(make: Callable[[], _T], source: str, where: str) -> _T:
    """Run a constructor; put the file and the table before the key that its ValueError names."""
    try:
        return make()
    except ArgumentError as error:
        raise ProfileError(f"{source}: {where}{error}") from None


def _known(table: Mapping[str, Any], allowed: Collection[str], source: str, where: str) -> None:
    for key in table:
        if key not in allowed:
            named = key if key.isprintable() else repr(key)
            raise ProfileError(f"{source}: {where}{named}: unknown key; must be one of {', '.join(allowed)}")


def _needed(table: Mapping[str, Any], keys: Collection[str], source: str, where: str) -> None:
    for key in keys:
        if key not in table:
            raise ProfileError(f"{source}: {where}{key}: missing; every table needs {', '.join(keys)}")


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    # JSON's strings, booleans and finite numbers are TOML's too, but for one control character
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
