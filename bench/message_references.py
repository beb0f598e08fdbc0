"""Bare operations to compare an exchange with; they are no bounds: messages that are ready together share costs."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

import numpy as np

from bench.exchange import LENGTHS, NEEDED, Contender, Rounds, timed
from echelon.clusters.memory import attach, create


@contextmanager
def _ping_pong(place: str) -> Iterator[Rounds]:
    ours, theirs = socket.socketpair()
    everywhere = os.sched_getaffinity(0)
    first, last = {min(everywhere)}, {max(everywhere)}
    here, there = {"anywhere": (everywhere, everywhere), "one core": (first, first), "two cores": (first, last)}[place]
    child = os.fork()
    if not child:
        _echo(ours, theirs, there)
    theirs.close()
    number = bytearray(8)

    def exchange(length: int) -> int:
        os.sched_setaffinity(0, here)
        try:
            for _ in range(NEEDED):
                ours.send(number)
                ours.recv_into(number)
        finally:
            os.sched_setaffinity(0, everywhere)
        return NEEDED * length

    try:
        yield timed(exchange)
    finally:
        ours.close()
        os.waitpid(child, 0)


def _echo(ours: socket.socket, theirs: socket.socket, cores: set[int]) -> NoReturn:
    """In the child, send everything back until the other end is closed."""
    try:
        ours.close()
        os.sched_setaffinity(0, cores)
        number = bytearray(8)
        while theirs.recv_into(number):
            theirs.send(number)
    finally:
        os._exit(0)


@contextmanager
def _copy() -> Iterator[Rounds]:
    size = max(LENGTHS) * 8
    descriptor = create("bench-copy", size)
    shared = np.frombuffer(attach(descriptor, size))
    os.close(descriptor)
    shared[:] = 1.0
    private = np.zeros_like(shared)

    def exchange(length: int) -> int:
        for _ in range(NEEDED):
            np.copyto(private, shared)
        return NEEDED * length

    yield timed(exchange)


REFERENCES = [
    Contender(
        name="reference: ping-pong",
        package="echelon",
        open=partial(_ping_pong, "anywhere"),
        rounds={1: 40},
        how="8 B to a forked child and back, through a socket pair; the system places both, as it does ours",
    ),
    Contender(
        name="reference: ping-pong, two cores",
        package="echelon",
        open=partial(_ping_pong, "two cores"),
        rounds={1: 40},
        how="the same, each pinned to a core of its own",
    ),
    Contender(
        name="reference: ping-pong, one core",
        package="echelon",
        open=partial(_ping_pong, "one core"),
        rounds={1: 40},
        how="the same with both pinned to one core, so that no sleeping core is to be woken",
    ),
    Contender(
        name="reference: copy",
        package="echelon",
        open=_copy,
        rounds={1_000_000: 12},
        how="8 MB out of shared memory by `numpy.copyto`",
    ),
]
