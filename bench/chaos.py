"""`python -m bench.chaos`: the production master in virtual time under seeded faults, schedule after schedule.

Every schedule has its own workers, jobs, code and faults, all drawn from its seed. After each it is checked that every
job ended once and in order, took exactly its iterations, was recovered from rows that arrived and are enough (by
count or by rank), and failed only where a task raised, also where the master itself crashed and went on from what a
journal keeps. The master's invariants are checked after every event.
"""

import argparse
import sys
import time
from functools import cache

import numpy as np

from echelon.codes import Code, cyclic, fractional_repetition
from echelon.master import Outcome
from echelon.plan import Plan, Pool, Slot, Task
from echelon.schemes import any_k
from echelon.simulation import VirtualCluster, random_faults
from echelon.simulation.faults import Cancel, Faults, Raise

MOST_EVENTS = 200_000


def run_schedule(seed: int) -> None:
    """Run one schedule; raise where anything is not as it must be."""
    rng = np.random.default_rng(seed)
    places, jobs = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    iterations = rng.integers(1, 5, jobs).tolist()
    arrivals = np.cumsum(rng.exponential(2.0, jobs)).tolist()
    code, slots = _slots(rng)
    faults = random_faults(rng, places=places, jobs=jobs, horizon=4.0 * sum(iterations))
    cluster = VirtualCluster(
        lambda job, workers: _plan(slots, workers, seed),
        lambda place, number: float(rng.exponential(0.2 * (1 + place))),
        rng.uniform(0, 0.3, places).tolist(),
        codes=(code,) * len(slots) if code else (),
        lend=bool(rng.random() < 0.5),
        overlap=bool(np.random.default_rng([seed, 1]).random() < 0.5),
        patience=2.0,
        faults=faults,
    )
    result = cluster.run(arrivals, iterations, most_events=MOST_EVENTS)
    _check_ends(result.ended, jobs, faults)
    done = {ended.job for ended in result.ended if ended.outcome is Outcome.DONE}
    for job in range(jobs):
        rounds = sum(1 for served in result.rounds if served[0] == job)
        assert rounds == iterations[job] if job in done else rounds <= iterations[job], (job, rounds)
    for _, slot, rows in result.recovered:
        assert _enough(code, slots[slot], rows), (slot, rows)


def _check_ends(ended: list, jobs: int, faults: Faults) -> None:
    assert sorted(end.job for end in ended) == list(range(jobs)), ended
    in_order = [end.job for end in ended if end.outcome is not Outcome.CANCELLED]
    assert in_order == sorted(in_order), ended
    raises = any(isinstance(incident, Raise) for incident in faults.incidents)
    cancelled = {incident.job for incident in faults.incidents if isinstance(incident, Cancel)}
    for end in ended:
        assert end.outcome is not Outcome.FAILED or (raises and end.error == "raised on purpose"), end
        assert end.outcome is not Outcome.CANCELLED or end.job in cancelled, end


def _slots(rng: np.random.Generator) -> tuple[Code | None, list[Slot]]:
    """Return slots that count rows, or slots with a code whose rows are not all alike."""
    rows = int(rng.integers(1, 13))
    if rng.random() < 0.6:
        threshold = int(rng.integers(1, rows + 1))
        return None, [Slot(rows=rows, threshold=threshold)] * int(rng.integers(1, 3))
    code = _code(rng.random() < 0.5, max(rows, 2), int(rng.integers(1, rows + 1)))
    return code, [Slot(rows=code.rows, threshold=code.threshold)] * int(rng.integers(1, 3))


@cache
def _code(cyclically: bool, rows: int, load: int) -> Code:
    if cyclically:
        return cyclic(rows=rows, load=load, rng=np.random.default_rng([rows, load]))
    return fractional_repetition(rows=rows - rows % 2, load=2)


def _plan(slots: list[Slot], workers: int, seed: int) -> Plan:
    """Return every row of every slot dealt out at random, or handed out; now and then rows are planned twice."""
    rng = np.random.default_rng([seed, workers])
    if len(slots) == 1 and rng.random() < 0.3:
        counts = rng.multinomial(slots[0].rows, np.full(workers, 1 / workers))
        return any_k(counts, slots[0].threshold)
    lanes: list[list[Task]] = [[] for _ in range(workers)]
    for number, slot in enumerate(slots):
        for row in range(slot.rows):
            for _ in range(1 + int(rng.random() < 0.2)):
                task = Task(slot=number, row=row, cost=float(rng.integers(1, 4)))
                lane = lanes[rng.integers(workers)]
                if not any((other.slot, other.row) == (number, row) for other in lane):
                    lane.append(task)
    if rng.random() < 0.25:
        pooled = [task for lane in lanes for task in lane[1:]]
        batches = tuple(tuple(pooled[at : at + 2]) for at in range(0, len(pooled), 2))
        return Plan(slots, [lane[:1] for lane in lanes], pool=Pool(batches=batches, ahead=int(rng.integers(2))))
    return Plan(slots, lanes)


def _enough(code: Code | None, slot: Slot, rows: tuple[int, ...]) -> bool:
    if len(set(rows)) != len(rows):
        return False
    if code is None:
        return len(rows) >= slot.threshold
    held = code.matrix[list(rows)]
    return np.linalg.matrix_rank(np.vstack([held, code.target]), tol=1e-8) == np.linalg.matrix_rank(held, tol=1e-8)


def run_schedules(first: int, count: int) -> None:
    """Run schedules by seed; say which one failed and how to see it again."""
    for seed in range(first, first + count):
        try:
            run_schedule(seed)
        except Exception:
            print(f"schedule {seed} failed; replay it by: python -m bench.chaos --seed {seed}", file=sys.stderr)
            raise


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="run this one schedule")
    parser.add_argument("--seconds", type=float, default=60.0, help="run new schedules for so long")
    parser.add_argument("--first", type=int, help="seed to start from; by default the clock chooses it")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        run_schedules(arguments.seed, 1)
        print(f"schedule {arguments.seed}: every promise kept")
        return
    first = time.time_ns() // 10**6 % 10**9 * 1000 if arguments.first is None else arguments.first
    done, start = 0, time.monotonic()
    while time.monotonic() - start < arguments.seconds:
        run_schedules(first + done, 500)
        done += 500
        print(f"\r{done} schedules from seed {first} on, every promise kept", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
