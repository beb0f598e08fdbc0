"""Chance in a forward pass, by step and chunk: every worker draws the same masks for a chunk."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

from echelon import checks
from echelon.jobs.chunks import MOST_CHUNKS
from echelon.seeds import place_generator

_TURN = RLock()  # threads share torch's generators


@contextmanager
def seeded(seed: int, step: int, chunk: int) -> Iterator[None]:
    """Seed torch's generators for a chunk of a step; afterwards they are as they were before.

    `CodedGradient` computes every chunk inside it, so that a plain loop can draw the same dropout masks. Threads
    take turns in it.

    >>> with seeded(1, step=5, chunk=0):
    ...     first = torch.rand(3)
    >>> with seeded(1, step=5, chunk=0):
    ...     bool((torch.rand(3) == first).all())
    True
    """
    step = checks.whole("step", step, least=0, most=10**8 - 1)
    place = step * MOST_CHUNKS + checks.whole("chunk", chunk, least=0, most=MOST_CHUNKS - 1)
    drawn = int(place_generator(seed, place).integers(2**63))
    devices = range(torch.cuda.device_count()) if _cuda() else range(0)
    with taking_turns(), torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(drawn)
        if devices:
            torch.cuda.manual_seed_all(drawn)
        yield


def taking_turns() -> RLock:
    """Return what threads hold while generators are seeded."""
    return _TURN


def generator_states() -> list[bytes]:
    """Return the state of torch's generators: a change shows that something drew from them."""
    states = [torch.get_rng_state()]
    if _cuda():
        states += torch.cuda.get_rng_state_all()
    return [state.numpy().tobytes() for state in states]


def _cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
