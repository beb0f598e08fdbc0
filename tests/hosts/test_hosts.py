"""A stream on Ray over several hosts, with links of different delays; one is cut off in mid-run, and comes back."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from tests.hosts import network

LIMIT_S = 150.0
DELAYS_MS = [0, 2, 10, 40]  # the head has no worker
HEAD, FAR = 1, 4
BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
# Ray gives up a host that is silent after three seconds, and not after half a minute
QUICK = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "1000",
}


def missing():
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"needs {tool} (iproute2)"
    try:
        with network.hosts([0, 0]):
            return None
    except subprocess.CalledProcessError as error:
        return f"network namespaces can't be had here: {error.stderr.strip()}"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    mine = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    return os.environ | mine | QUICK


@pytest.fixture(scope="module")
def nodes(environment, tmp_path_factory):
    """Start a head and three nodes; give a function that starts a node again."""
    folder = tmp_path_factory.mktemp("ray")
    running = {}

    def start(host, *options):
        command = network.within(
            host, str(BIN / "ray"), "start", "--block", f"--node-ip-address={network.address(host)}",
            "--object-store-memory=100000000", *options,
        )  # fmt: skip
        stop(host)
        with open(folder / f"host{host}.log", "a") as log:
            running[host] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def stop(host):
        process = running.pop(host, None)
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def node(host):
        start(host, f"--address={network.address(HEAD)}:6379", "--num-cpus=1")

    with network.hosts(DELAYS_MS):
        start(HEAD, "--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false")
        try:
            until(lambda: alive(environment) == 1)
            for host in range(2, len(DELAYS_MS) + 1):
                node(host)  # one after another: they share a disk, and would take the same names there
                until(lambda count=host: alive(environment) == count)
            yield node
        finally:
            for host in sorted(running, reverse=True):
                stop(host)


def alive(environment):
    script = (
        f"import ray; ray.init(address='{network.address(HEAD)}:6379', log_to_driver=False, logging_level='ERROR'); "
        "print('alive', sum(node['Alive'] for node in ray.nodes()))"
    )
    ended = subprocess.run(
        network.within(HEAD, sys.executable, "-c", script), env=environment, capture_output=True, text=True, timeout=60
    )
    return next((int(line.split()[1]) for line in ended.stdout.splitlines() if line.startswith("alive ")), 0)


def until(true):
    end = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end, "hosts do not come"


def test_links_are_measured(nodes, environment, tmp_path):
    """A message of the far host takes 40 ms more than none, there alone; its order comes undelayed."""
    if not network.delays_can_be_had():
        pytest.skip("needs tc netem: this kernel has no such qdisc")
    out = tmp_path / "profile.toml"
    command = [str(BIN / "echelon"), "profile", "--cluster", f"ray:address={network.address(HEAD)}:6379",
               "--seconds", "3", "--out", str(out)]  # fmt: skip
    subprocess.run(network.within(HEAD, *command), env=environment, check=True, timeout=LIMIT_S)
    links = sorted(1e3 * worker["link"] for worker in tomllib.loads(out.read_text())["worker"])
    assert len(links) == 3
    for link, delay in zip(links, DELAYS_MS[1:], strict=True):
        assert delay <= link < delay + 35


def test_a_host_is_cut_off_and_comes_back(nodes, environment):
    command = network.within(HEAD, sys.executable, "-m", "tests.hosts.driver", f"{network.address(HEAD)}:6379")
    driver = subprocess.Popen(
        command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    end = time.monotonic() + LIMIT_S

    def line(starting):
        """Read on until a line of a kind; jobs that were done on the way are counted."""
        done = 0
        while time.monotonic() < end:
            found = driver.stdout.readline()
            assert found, "the driver ended"
            done += found.startswith("done")
            if found.startswith(starting):
                return found.split(), done
        raise AssertionError(f"no line of {starting!r}")

    try:
        assert line("workers")[0] == ["workers", "3"]
        line("done 2")
        network.cut(FAR)
        (_, _, place), done = line("down")
        assert done > 0  # jobs went on without it, before it was given up
        line("done")
        network.join(FAR)
        nodes(FAR)
        assert line("up")[0][2] == place
        line("done")
        driver.stdin.close()
        line("closed")
        assert driver.wait(60) == 0
    finally:
        network.join(FAR)
        driver.kill()
        driver.wait()
        driver.stdout.close()
