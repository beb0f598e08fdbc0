"""Two data planes: what a round takes where the master adds up all rows, and where the workers that responded do.

Rounds of a thousand workers are drawn by the vectorised evaluators. At a small size, streams in virtual time, with real
arrays, are held against the same evaluators.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from bench.results import markdown_table
from echelon import Stream, SumJob
from echelon.arrays import FloatArray
from echelon.clusters import shipping
from echelon.codes import uncoded
from echelon.delays import Delay, Deterministic, GilbertElliott, task_laws
from echelon.plan import Plan, Slot, Task
from echelon.profile import PLANES, Arrivals, Costs, Profile, Worker, Workload
from echelon.schemes import CodedPlan, coded_rows, gradient_coding
from echelon.seeds import generators
from echelon.simulation import RoundSampler
from echelon.simulation.beside import beside

WORKERS = 1000
WEIGHTS = tuple(10**digits for digits in range(6, 11))
NUMBER = 4  # bytes of a weight
GIGABITS = (10, 100)  # per second, of every link and of the master's port
COMBINING = 1e-10  # seconds per byte to add one array to another
COMPUTING_S = 1.0
BURSTS = partial(GilbertElliott, enter=0.02, leave=0.5, slowdown=5.0)
SPARE = 91  # of a thousand rows, where the others are enough: ten per cent more than are needed
HISTORIES, ROUNDS = 20, 20
SMALL, SMALL_WEIGHTS, ITERATIONS = 8, 100_000, 3
HELD = 1e-9  # share of a round by which the evaluators may be off


def report() -> str:
    """Return both planes side by side, in Markdown."""
    off = max(_off(plane, plan) for plane in PLANES for plan in _small_plans())
    assert off < HELD, off
    plain, spare = _plan(0), _plan(SPARE)
    steady, bursts = Deterministic(time=COMPUTING_S), BURSTS(base=Deterministic(time=COMPUTING_S))
    cases = [("no stragglers", plain, steady), ("stragglers", plain, bursts), ("stragglers, 10 % spare", spare, bursts)]
    rows = []
    for gigabits in GIGABITS:
        for weights in WEIGHTS:
            found = [
                _mean(plan, law, _costs(gigabits, plane), NUMBER * weights)
                for _, plan, law in cases
                for plane in PLANES
            ]
            rows.append([f"10^{len(str(weights)) - 1}", f"{gigabits} Gb/s", *map(_shown, found)])
    head = ["weights", "links and port", *(f"{name}: {_NAMES[plane]}" for name, _, _ in cases for plane in PLANES)]
    return (
        f"Seconds per round on {WORKERS} workers that compute for {COMPUTING_S:g} s, whatever the number of float32 "
        "weights: each is sent the weights and sends back a gradient of the same size. The master adds: every gradient "
        "comes in through its port, and the weights go out once per worker. The responders add: gradients stay where "
        "they are, slices are exchanged, and one total comes in; the weights go out once and are relayed. Stragglers: "
        "2 of 100 workers begin to be 5 times as slow in a round, and are for 2 rounds on average. 10 % spare: any "
        f"{WORKERS - SPARE} of {WORKERS} rows are enough, each of 1.1 times the work, as where data is encoded "
        f"beforehand (a gradient code for as many stragglers would combine {SPARE + 1} chunks per row). Adding up "
        f"takes {COMBINING * 1e9:g} s per GB and row, on the master after all rows have come. Sampled: "
        f"{HISTORIES * ROUNDS} rounds. With {SMALL} unequal workers and {SMALL_WEIGHTS} weights, streams in virtual "
        f"time, which exchange real arrays, take the same time to {off:.0e} of a round."
        f"\n\n{markdown_table(head, rows)}"
    )


_NAMES = {"master": "the master adds", "responders": "the responders add"}


def _shown(seconds: float) -> str:
    return f"{seconds:,.2f}".replace(",", " ") if seconds < 100 else f"{seconds:,.0f}".replace(",", " ")


def _costs(gigabits: float, plane: str) -> Costs:
    speed = gigabits * 1e9 / 8
    return Costs(bandwidth=speed, port=speed, combining=COMBINING, plane=plane)


def _plan(spare: int) -> Plan:
    """Return one row for each worker, of which some are not needed; each costs as much more as there are."""
    needed = WORKERS - spare
    lanes = [[Task(slot=0, row=row, cost=WORKERS / needed)] for row in range(WORKERS)]
    return Plan([Slot(rows=WORKERS, threshold=needed)], lanes)


def _mean(plan: Plan, law: Delay, costs: Costs, nbytes: float) -> float:
    sampler = _sampler(plan, [law] * WORKERS, np.zeros(WORKERS), costs, nbytes, nbytes)
    _, rng = generators(1)
    times = sampler.draw(sampler.begin(HISTORIES, rng), HISTORIES, ROUNDS, rng)[0].times
    return float(times.mean()) + _by_master(plan, costs, nbytes)


def _by_master(plan: Plan, costs: Costs, nbytes: float) -> float:
    """Return what the master takes to add up what came, where it does."""
    return plan.slots[0].threshold * nbytes * costs.combining if costs.plane == "master" else 0.0


def _sampler(
    plan: Plan, laws: list[Delay], links: FloatArray, costs: Costs, nbytes: float, state: float
) -> RoundSampler:
    found = beside(plan, costs, message=nbytes, state=state, added=True)
    return RoundSampler(
        plan, laws, links, beside=found.tasks or 0.0, more=found.more, port=found.port, adding=found.adding
    )


def _small_plans() -> list[CodedPlan]:
    return [coded_rows(uncoded(parts=SMALL), [1] * SMALL), gradient_coding(workers=SMALL, load=2)]


def _small_profile(costs: Costs) -> Profile:
    job = Workload(critical=SMALL, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0))
    workers = [Worker(f"w{p}", mean=0.5 + 0.1 * p, std=0.0, link=0.01 * p) for p in range(SMALL)]
    return Profile(job, workers, costs=costs)


def _off(plane: str, plan: CodedPlan) -> float:
    """Return by how much of its time a stream in virtual time differs from what the evaluators say."""
    profile = _small_profile(replace(_costs(0.01, plane), message=0.001, round=0.02))
    state = np.zeros(SMALL_WEIGHTS, dtype=np.float32)
    pickled, buffers = shipping.pack(state)
    sent = len(pickled) + sum(buffer.nbytes for buffer in buffers)
    sampler = _sampler(plan, task_laws(profile), profile.speeds.link, profile.costs, state.nbytes, sent)
    _, rng = generators(1)
    said = float(sampler.draw(sampler.begin(1, rng), 1, ITERATIONS, rng)[0].times.sum())
    chunks = list(np.ones((SMALL, 1), dtype=np.float32))
    job = SumJob(partial=_gradient, chunks=chunks, update=_next, state=state, iterations=ITERATIONS, plan=plan)
    with Stream("virtual", emulate=profile, patience_s=1e6, progress=False) as stream:
        took = stream.submit(job).delivery()
    if took.error is not None:
        raise took.error
    np.testing.assert_allclose(took.result, _by_one(chunks, state), rtol=1e-4)
    return abs(took.delay / said - 1)


def _gradient(state: np.ndarray, chunk: np.ndarray) -> np.ndarray:
    return state + chunk


def _next(state: np.ndarray, total: np.ndarray) -> np.ndarray:
    return total / np.float32(SMALL)


def _by_one(chunks: list[np.ndarray], state: np.ndarray) -> np.ndarray:
    for _ in range(ITERATIONS):
        state = _next(state, np.sum([_gradient(state, chunk) for chunk in chunks], axis=0))
    return state
