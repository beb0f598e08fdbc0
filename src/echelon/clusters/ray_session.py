"""The Ray that workers run on: one that is there already, one at an address, or one of our own on the loopback."""

import contextlib
import logging
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from tempfile import mkdtemp
from typing import Any

from echelon import checks
from echelon.errors import ArgumentError, ClusterError

try:
    import ray
    from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
except ModuleNotFoundError as missing:
    raise ClusterError("cluster='ray' needs Ray: pip install 'echelon-compute[ray]'") from missing

Request = dict[str, Any]  # options of an actor: what it occupies

_NAMES = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
_TIDY_S = 5.0
_KNOCK_S = 10.0
_ADDRESS = re.compile(r"auto|[^/\s]+:\d+")
_LOOPBACK = "127.0.0.1"
# what Ray calls a machine that is no cluster: it then stays on the loopback, and only then
_ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


class Session:
    """A connection to Ray; what was started for it is stopped with it."""

    def __init__(self, address: str | None, cpus: float) -> None:
        if address is not None and (not isinstance(address, str) or not _ADDRESS.fullmatch(address)):
            raise ArgumentError(
                f"address: {address!r} is not allowed; must be HOST:PORT of a Ray head (6379, say), or 'auto'"
            )
        self._folder: str | None = None
        self._connected = False
        address = address or os.environ.get("RAY_ADDRESS")
        if ray.is_initialized():
            there = ray.get_runtime_context().gcs_address
            if address not in (None, "auto", there):
                raise ClusterError(f"address: Ray is connected to {there} already, and not to {address}")
        elif address is not None:
            self._connect(address)
        else:
            self._start(cpus)

    def _connect(self, address: str) -> None:
        try:
            if address != "auto":
                _knock(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError) as error:
            raise ClusterError(f"address: no Ray cluster is available at {address}: {error}") from error
        self._connected = True

    def _start(self, cpus: float) -> None:
        """Start a Ray of our own, with a folder of its own; no other machine can reach it, and no other user.

        Ray opens its folder to everybody (0777), so it lies in one that is open to us alone.
        """
        self._folder = mkdtemp(prefix="echelon-ray-")
        inside = os.path.join(self._folder, "r")  # short: paths of sockets may not be long
        os.mkdir(inside)
        try:
            with _on_the_loopback():
                ray.init(
                    address="local",
                    num_cpus=max(os.cpu_count() or 1, int(-(-cpus // 1))),
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    _node_ip_address=_LOOPBACK,
                    _temp_dir=inside,
                )
            self._connected = True
            where = ray.util.get_node_ip_address()
            if where != _LOOPBACK:
                raise ClusterError(
                    f"this version of Ray listens on {where}, which others can reach; start it yourself, and connect "
                    "with address='auto'"
                )
        except BaseException:
            self.close()
            raise

    @property
    def alone(self) -> bool:
        """Whether all workers are on the driver's machine."""
        return len(_nodes()) == 1

    def close(self) -> None:
        """Disconnect if we connected; this stops what we started."""
        if self._connected:
            self._connected = False
            ray.shutdown()
        folder, self._folder = self._folder, None
        end = time.monotonic() + _TIDY_S
        while folder is not None and os.path.exists(folder) and time.monotonic() < end:
            shutil.rmtree(folder, ignore_errors=True)  # the last of Ray's processes may still be writing there


def _knock(address: str) -> None:
    """Check that something listens there: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()


@contextlib.contextmanager
def _on_the_loopback() -> Iterator[None]:
    """Make Ray treat this machine as one that is never part of a cluster: workers learn it from their environment."""
    from ray._private import ray_constants

    quiet = {_ALONE: "0", "RAY_USAGE_STATS_ENABLED": "0"}
    before, cluster = {name: os.environ.get(name) for name in quiet}, ray_constants.ENABLE_RAY_CLUSTER
    os.environ.update(quiet)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = cluster
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


# what workers occupy


def requests(resources: Any, workers: int | None, each: float) -> list[Request] | None:
    """Return what each worker occupies; None where that depends on what Ray has."""
    if resources is None:
        return [{"num_cpus": each}] * checks.whole("workers", workers, least=1, most=10**4)
    if isinstance(resources, str):
        if resources not in ("node", "cpu"):
            raise ArgumentError(_refused(resources))
        return None
    if isinstance(resources, Mapping):
        listed: Sequence[Any] = [resources] * checks.whole("workers", workers, least=1, most=10**4)
    elif isinstance(resources, Sequence) and resources:
        listed = resources
        if workers not in (None, len(listed)):
            raise ArgumentError(f"workers: {workers} is not allowed; must be {len(listed)}, as many as resources lists")
    else:
        raise ArgumentError(_refused(resources))
    return [_checked(one) for one in listed]


def _refused(resources: Any) -> str:
    return (
        f"resources: {resources!r} is not allowed; must be options of an actor such as {{'num_cpus': 1, 'num_gpus': "
        "0.5}, a list of them, 'node' or 'cpu' (one worker per node or processor)"
    )


def _checked(request: Any) -> Request:
    if not isinstance(request, Mapping) or not set(request) <= {*_NAMES, "resources"}:
        raise ArgumentError(_refused(request))
    for name in _NAMES:
        checks.number(f"resources[{name!r}]", request.get(name, 0), least=0)
    custom = request.get("resources", {})
    if not isinstance(custom, Mapping):
        raise ArgumentError(_refused(request))
    for name, amount in custom.items():
        checks.number(f"resources[{name!r}]", amount, least=0)
    return {"num_cpus": 0} | dict(request)


def found(kind: str, most: int | None) -> list[Request]:
    """Return one request per processor of Ray, or per node that has one."""
    counts = [int(node["Resources"].get("CPU", 0)) for node in _nodes()]
    count = sum(counts) if kind == "cpu" else sum(1 for cpus in counts if cpus)
    if not count:
        raise ClusterError("the Ray cluster has no processor for a worker: none of its nodes offers a CPU")
    return [{"num_cpus": 1}] * min(count, count if most is None else most)


def bundle(request: Request) -> dict[str, float]:
    """Return what a request occupies, by Ray's names.

    >>> bundle({"num_cpus": 1, "num_gpus": 0.5, "resources": {"fast": 1}})
    {'CPU': 1.0, 'GPU': 0.5, 'fast': 1.0}
    """
    amounts = {_NAMES[name]: request[name] for name in _NAMES if name in request} | dict(request.get("resources", {}))
    return {name: float(amount) for name, amount in amounts.items() if amount}


def reserve(wanted: Sequence[Request], *, apart: bool, wait_s: float) -> tuple[PlacementGroup | None, list[int]]:
    """Reserve what all workers occupy, at once, so that each has its place as long as the cluster is open.

    Returns the group, and the index of each worker's bundle in it; -1 for one that occupies nothing.
    """
    bundles = [bundle(request) for request in wanted]
    places = [i for i, one in enumerate(bundles) if one]
    if not places:
        return None, [-1] * len(wanted)
    _check_size([bundles[i] for i in places])
    group = placement_group([bundles[i] for i in places], strategy="STRICT_SPREAD" if apart else "SPREAD")
    if not group.wait(wait_s):
        remove_placement_group(group)
        raise ClusterError(
            f"resources: {len(wanted)} workers found no room in {wait_s:g} s: {_sum(bundles)} is wanted, and of "
            f"{_shown(ray.cluster_resources())} in the Ray cluster {_shown(ray.available_resources())} is free"
        )
    index = dict(zip(places, range(len(places)), strict=True))
    return group, [index.get(i, -1) for i in range(len(wanted))]


def give_back(group: PlacementGroup) -> None:
    """Give back what was reserved."""
    with contextlib.suppress(Exception):  # Ray may be gone
        remove_placement_group(group)


def _check_size(bundles: Sequence[Mapping[str, float]]) -> None:
    """Refuse what the cluster could not hold even if it were idle."""
    nodes, total = [node["Resources"] for node in _nodes()], ray.cluster_resources()
    for one in bundles:
        if not any(all(node.get(name, 0.0) >= amount for name, amount in one.items()) for node in nodes):
            raise ClusterError(
                f"resources: no node of the Ray cluster has {_shown(one)} for a worker; it has {_shown(total)} in all"
            )
    for name in {name for one in bundles for name in one}:
        if sum(one.get(name, 0.0) for one in bundles) > total.get(name, 0.0) + 1e-9:
            raise ClusterError(
                f"resources: {len(bundles)} workers want {_sum(bundles)}, and the Ray cluster has {_shown(total)}; ask "
                "for fewer workers, or for less per worker"
            )


def _sum(bundles: Sequence[Mapping[str, float]]) -> str:
    total: dict[str, float] = {}
    for one in bundles:
        for name, amount in one.items():
            total[name] = total.get(name, 0.0) + amount
    return _shown(total)


def _shown(amounts: Mapping[str, float]) -> str:
    shown = {
        name: amount
        for name, amount in sorted(amounts.items())
        if name != "object_store_memory" and not name.startswith(("node:", "bundle_group"))
        and "_group_" not in name
    }  # fmt: skip
    return ", ".join(f"{name} {amount:g}" for name, amount in shown.items()) or "nothing"
