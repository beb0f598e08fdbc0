"""The same stream of jobs as a straightforward SimPy model: the reference for the vectorised paths.

One process per worker and iteration, a shared counter, an event when enough results are in, interrupts as purge,
and the same record as ours: delay of every job, service time, computing time of every worker.
"""

import random
from dataclasses import dataclass, field

import simpy

from echelon.profile import Profile


@dataclass
class Seen:
    delays: list[float] = field(default_factory=list)
    services: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)


class Round:
    def __init__(self, env: simpy.Environment, critical: int) -> None:
        self.missing = critical
        self.recovered = env.event()

    def result(self) -> None:
        self.missing -= 1
        if self.missing == 0:
            self.recovered.succeed()


def worker(env, current, seen, p, link, count, rate, rng):
    start = None
    try:
        yield env.timeout(link)
        start = env.now
        for _ in range(count):
            yield env.timeout(rng.expovariate(rate))
            current.result()
    except simpy.Interrupt:
        pass
    if start is not None:
        seen.busy[p] += env.now - start


def job(env, master, profile, counts, seen, rng):
    arrival = env.now
    with master.request() as turn:
        yield turn
        start = env.now
        lanes = list(zip(range(len(counts)), profile.speeds.link, counts, 1 / profile.speeds.mean, strict=True))
        for _ in range(profile.workload.iterations):
            current = Round(env, profile.workload.critical)
            running = [env.process(worker(env, current, seen, *lane, rng)) for lane in lanes if lane[2]]
            yield current.recovered
            for process in running:
                if process.is_alive:
                    process.interrupt()
        seen.services.append(env.now - start)
    seen.delays.append(env.now - arrival)


def arrivals(env, master, profile, counts, jobs, seen, rng):
    for _ in range(jobs):
        yield env.timeout(rng.expovariate(profile.workload.arrivals.rate))
        env.process(job(env, master, profile, counts, seen, rng))


def run(profile: Profile, counts: list[int], jobs: int, seed: int) -> Seen:
    """Simulate one stream, task by task, event by event."""
    env = simpy.Environment()
    seen = Seen(busy=[0.0] * len(counts))
    master = simpy.Resource(env, capacity=1)
    env.process(arrivals(env, master, profile, counts, jobs, seen, random.Random(seed)))
    env.run()
    return seen
