"""Hosts in name: network namespaces on one switch, each with a link of its own delay; all else stays as it is.

Host i has the address 10.77.0.i; host 1 is the head. A host can be cut off and joined again.
"""

import subprocess
from contextlib import contextmanager
from functools import cache

NAME = "echelon-host"


def ip(*words, inside=None):
    command = ["ip", *(["-n", inside] if inside else []), *words]
    subprocess.run(command, check=True, capture_output=True, text=True)


def name(host):
    return f"{NAME}-{host}"


def address(host):
    return f"10.77.0.{host}"


def within(host, *command):
    """Return a command that runs on a host."""
    return ["ip", "netns", "exec", name(host), *command]


def cut(host):
    ip("link", "set", f"to{host}", "down", inside=name(0))


def join(host):
    ip("link", "set", f"to{host}", "up", inside=name(0))


@cache
def delays_can_be_had():
    """Return whether the kernel has netem, tried on a namespace that is then thrown away."""
    ip("netns", "add", name("trial"))
    try:
        ip("link", "set", "lo", "up", inside=name("trial"))
        shape = ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
        return subprocess.run(within("trial", *shape), check=False, capture_output=True).returncode == 0
    finally:
        ip("netns", "delete", name("trial"))


@contextmanager
def hosts(delays_ms):
    """Make hosts 1, 2, … whose messages are each delayed by so much; 0 is the switch."""
    made = []
    try:
        for host in range(len(delays_ms) + 1):
            ip("netns", "add", name(host))
            made.append(name(host))
            ip("link", "set", "lo", "up", inside=name(host))
        ip("link", "add", "switch", "type", "bridge", inside=name(0))
        ip("link", "set", "switch", "up", inside=name(0))
        for host, delay in enumerate(delays_ms, start=1):
            ip("link", "add", f"to{host}", "type", "veth", "peer", "name", "out", "netns", name(host), inside=name(0))
            ip("link", "set", f"to{host}", "master", "switch", "up", inside=name(0))
            ip("addr", "add", f"{address(host)}/24", "dev", "out", inside=name(host))
            ip("link", "set", "out", "up", inside=name(host))
            ip("route", "add", "default", "dev", "out", inside=name(host))
            if delay and delays_can_be_had():
                shape = ["tc", "qdisc", "add", "dev", "out", "root", "netem", "delay", f"{delay}ms"]
                subprocess.run(within(host, *shape), check=True, capture_output=True, text=True)
        yield
    finally:
        for namespace in made:
            subprocess.run(["ip", "netns", "delete", namespace], check=False)
