"""Chance in a forward pass, by step and chunk: every worker draws the same masks for a chunk."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock, RLock
from typing import Any

import torch

from echelon import checks
from echelon.jobs.chunks import MOST_CHUNKS
from echelon.seeds import place_generator
from echelon.torch.numerics import Numerics, computing_by, numerics

log = logging.getLogger("echelon.torch")

_TURN = RLock()  # threads share torch's generators
_LATE_S = 10.0  # to wait for a late thread, at most


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
    with taking_turns():
        generators = _generators()
        before = [generator.get_state() for generator in generators]
        try:
            for generator in generators:
                generator.manual_seed(drawn)
            yield
        finally:
            for generator, state in zip(generators, before, strict=True):
                generator.set_state(state)


def taking_turns() -> RLock:
    """Return what threads hold while generators are seeded."""
    return _TURN


class Asking:
    """A question to the workers, as long as somebody waits for its answer.

    Threads share torch's generators with the code that asks: once `end` has returned, none of them draws for this
    question, and what that code draws is its own. What reaches another process is never over, and computes there by
    the settings of torch that this one had when it asked.
    """

    def __init__(self, elsewhere: Numerics | None = None) -> None:
        self._over, self._computing = False, Lock()
        self._numerics, self._elsewhere = elsewhere or numerics(), elsewhere is not None

    def __deepcopy__(self, memo: object) -> "Asking":
        return self

    def __reduce__(self) -> Any:
        return Asking, (self._numerics,)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold what `taking_turns` gives; refuse where the question is over."""
        with taking_turns(), self._computing:
            if self._over:
                raise TooLate
            with computing_by(self._numerics) if self._elsewhere else nullcontext():
                yield

    def end(self) -> None:
        """Let no thread begin to compute for this question, and wait for one that does."""
        self._over = True
        if self._computing.acquire(timeout=_LATE_S):
            self._computing.release()
        else:
            log.warning("a late thread still computes after %g s; until it ends, it changes what torch draws", _LATE_S)


class TooLate(Exception):
    """Nobody waits for this any more."""


def generator_states() -> list[bytes]:
    """Return the state of torch's generators: a change shows that something drew from them."""
    return [generator.get_state().numpy().tobytes() for generator in _generators()]


def _generators() -> list[torch.Generator]:
    """Return the generators of the host and of all devices in use; those of others are not looked at."""
    there = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return [torch.default_generator, *(torch.cuda.default_generators if there else ())]
