"""Speed of messages: rounds that compute nothing, by our workers, by Ray, Dask and loky, next to the bare operations.

All do the same exchange: 55 tasks, 11 per worker, each of which returns an array that the worker has ready, until the
master has 50 results. The packages of the others are optional. Each contender is measured in its own process, since
some leave threads and settings behind that slow down the next one; all take turns.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context

import numpy as np

from bench.exchange import LENGTHS, NEEDED, TASKS, WARM_UP, WORKERS, Contender
from bench.message_ours import BARE, CODED, STREAM, end, started, until_needed
from bench.message_references import REFERENCES
from bench.results import markdown_table
from bench.rivals import OTHERS
from echelon.clusters.processes import ProcessCluster
from echelon.profile import Arrivals, Profile, Worker, Workload

MEANS_MS, LINK_MS = (5.03, 5.23, 5.47, 5.71, 6.01), 1.0  # primes of 10 µs: no two messages are due at once
EMULATED_ROUNDS = 100
REPEATS = 3
OURS = [BARE, STREAM, CODED]

Took = dict[tuple[str, int], float]  # seconds per message, by contender and length


def report() -> str:
    repeats = [_repeat() for _ in range(REPEATS)]
    return "\n\n".join([_message_table(repeats), _ratio_table(repeats), _ways(), _over_ideal()])


def _repeat() -> Took:
    """Measure all contenders once: ours and the references in turns, then each of the others."""
    took = _measured([*REFERENCES, *OURS])
    for other in OTHERS:
        if find_spec(other.package) is not None:
            took |= _measured([other])
    return took


def _measured(contenders: Sequence[Contender]) -> Took:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, contenders).result()


def _measure(contenders: Sequence[Contender]) -> Took:
    """Return the median round's time over its messages."""
    took: Took = {}
    with ExitStack() as stack:
        opened = [(contender, stack.enter_context(contender.open())) for contender in contenders]
        for length in LENGTHS:
            for contender, rounds in opened:
                if length in contender.rounds:
                    rounds(length, contender.warm_up)
                    took[contender.name, length] = float(np.median(rounds(length, contender.rounds[length]))) / NEEDED
    return took


def _message_table(repeats: Sequence[Took]) -> str:
    rows = []
    for contender in [*OURS, *OTHERS, *REFERENCES]:
        missing = "–" if find_spec(contender.package) else "not installed"
        cells = [
            _spread([1e6 * took[contender.name, length] for took in repeats], 1)
            if (contender.name, length) in repeats[0]
            else missing
            for length in LENGTHS
        ]
        rows.append([contender.name, *cells])
    return markdown_table(["µs per message", *LENGTHS.values()], rows)


def _ratio_table(repeats: Sequence[Took]) -> str:
    """Compare the quickest way of each rival at each length with all of ours, and the bare cluster with references."""
    ways: dict[str, list[str]] = {}
    for other in OTHERS:
        ways.setdefault(other.rival, []).append(other.name)
    pairs = [(rival, names, ours.name) for rival, names in ways.items() for ours in OURS]
    pairs += [(BARE.name, [BARE.name], reference.name) for reference in REFERENCES]
    rows = []
    for above, names, below in pairs:
        cells = []
        for length in LENGTHS:
            there = [name for name in names if (name, length) in repeats[0]]
            if there and (below, length) in repeats[0]:
                cells.append(
                    _spread([min(took[name, length] for name in there) / took[below, length] for took in repeats], 2)
                )
            else:
                cells.append("–")
        rows.append([f"{above} / {below}", *cells])
    return markdown_table(["ratio", *LENGTHS.values()], rows)


def _spread(values: Sequence[float], digits: int) -> str:
    middle, least, most = (f"{value:,.{digits}f}" for value in (np.median(values), min(values), max(values)))
    return f"{middle} ({least} to {most})"


def _ways() -> str:
    head = (
        f"A round hands {TASKS} tasks to each of {WORKERS} workers and needs the first {NEEDED} results; a message's "
        f"time is the median round's over {NEEDED}, so a round's overhead is {NEEDED} times as much. Everybody is "
        f"measured {REPEATS} times, in turns: figures are the median, the least and the most of these, and ratios are "
        "taken within a turn; of a rival with several ways the quickest one at that length counts. A reference is "
        f"not a limit: a round of the ping-pong is {NEEDED} round trips, each of which wakes a process twice, and "
        "messages that are ready together cost fewer wakes; a copy reads all that a bare cluster only hands over."
    )
    ways = [f"- {contender.name}: {contender.how}." for contender in [*OURS, *OTHERS, *REFERENCES]]
    return "\n".join([head, "", *ways])


def _over_ideal() -> str:
    """Measure how much later the last message that a round needs comes than the emulated times allow."""
    workers = [
        Worker(f"w{mean}", mean=mean / 1e3, std=0.0, link=LINK_MS / 1e3, law="deterministic") for mean in MEANS_MS
    ]
    job = Workload(critical=NEEDED, redundancy=WORKERS * TASKS / NEEDED, iterations=1, arrivals=Arrivals.poisson(1.0))
    due = np.sort(LINK_MS + np.outer(MEANS_MS, np.arange(1, TASKS + 1)), axis=None)
    ideal = due[NEEDED - 1]
    length = 10_000
    over = []
    with started(partial(ProcessCluster, emulate=Profile(job, workers), seed=1), [length]) as (cluster, numbers):
        for number in range(1, WARM_UP + EMULATED_ROUNDS + 1):
            start = time.perf_counter()
            held = until_needed(cluster, numbers, number, length)
            over.append((time.perf_counter() - start) * 1e3 - ideal)
            end(cluster, number, held)
    median, late = np.percentile(over[WARM_UP:], [50, 95])
    row = [f"{ideal:.2f} ms", f"{median:.2f} ms", f"{late:.2f} ms", "median ≤ 2 ms"]
    table = markdown_table(["ideal arrival of message 50 of 55", "over it: median", "95th percentile", "wanted"], [row])
    means = ", ".join(map(str, MEANS_MS))
    return (
        f"{table}\n\nFive emulated workers with tasks of exactly {means} ms and links of {LINK_MS:g} ms, results of "
        f"{LENGTHS[length]}, {EMULATED_ROUNDS} rounds; from just before `broadcast` to having the message."
    )
