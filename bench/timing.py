"""Timings within one run, so that their ratios mean something on a machine that is never quite idle."""

import time
from collections.abc import Callable, Mapping


def best_of(actions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the shortest time of each action in seconds; the actions take turns, so that noise affects all alike."""
    shortest = dict.fromkeys(actions, float("inf"))
    for _ in range(repeats):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            shortest[name] = min(shortest[name], time.perf_counter() - start)
    return shortest
