"""Evaluators beside the master: each gives what the master does in virtual time on the same draws, or refuses in words.

A case is a plan with rules, links, and what messages and rounds cost besides. Times of parts are drawn before.
"""

from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
import pytest

from echelon.can import PLAIN, Rules
from echelon.clusters import VirtualCluster, shipping
from echelon.delays import Delay, sample_all
from echelon.errors import ArgumentError, NoClosedForm
from echelon.jobs import HollowJob
from echelon.jobs.hollow import HollowWork
from echelon.plan import Plan
from echelon.ports import through_port
from echelon.profile import Arrivals, Costs, Profile, Worker, Workload
from echelon.search.rehearsal import HISTORIES, Rehearsal, Rehearsed
from echelon.simulation import RoundSampler, simulate_jobs
from echelon.simulation import rounds as kernels
from echelon.simulation.beside import beside as priced
from echelon.simulation.overlapped import Overlapped
from echelon.stream import Stream
from echelon.theory import exact, exact_law
from tests.simulation.in_virtual_time import Log, coded, scripted

ROUNDS, ITERATIONS, GAP = 12, 3, 7.0  # rounds, of jobs with so many iterations, one of which comes every 7 s
JOBS = ROUNDS // ITERATIONS


@dataclass(frozen=True)
class Case:
    """What is evaluated."""

    plan: Plan
    rules: Rules = PLAIN
    message: float = 0.0
    round: float = 0.0
    linked: bool = True
    bandwidth: float = np.inf
    port: float = np.inf
    plane: str = "master"
    numbers: int = 0  # of a message
    state: int = 0  # numbers of the state

    @property
    def costs(self):
        more = {"bandwidth": self.bandwidth, "port": self.port, "plane": self.plane}
        return Costs(message=self.message, round=self.round, combining=1e-9 if self.numbers else 0.0, **more)

    @property
    def ruled(self):
        """Its rules, with what its costs make of them."""
        found = price(self)
        return replace(self.rules, port=bool(found.port), stay=found.adding is not None)

    @property
    def links(self):
        workers = len(self.plan.lanes)
        return np.linspace(0.05, 0.4, workers) if self.linked else np.zeros(workers)

    @property
    def parts(self):
        """Times that one worker may need in a round."""
        lane = max(sum(ceil(task.cost) for task in some) for some in self.plan.lanes)
        every = sum(ceil(task.cost) for some in (*self.plan.lanes, self.plan.pooled) for task in some)
        return lane + 4 * every + 40  # of the next job, too

    def drawn(self, laws, seed=1):
        """Return times of parts, shape (workers, rounds, parts); the same for all parts of a round with one pace."""
        rng = np.random.default_rng(seed)
        size = (1, 4 * ROUNDS, self.parts)
        return np.stack([times[0] for times in sample_all(laws, size, [rng] * len(laws))])


@dataclass(frozen=True, eq=False)
class Played(Delay):
    """A law that gives out times drawn before, from the first round on, to every seed the same."""

    times: np.ndarray = field(repr=False)
    like: Delay

    mean, std = property(lambda self: self.like.mean), property(lambda self: self.like.std)
    one_pace = property(lambda self: self.like.one_pace)
    independent_rounds = property(lambda self: self.like.independent_rounds)

    def begin(self, seeds, rng):
        return 0

    def advance(self, state, size, rng):
        seeds, rounds, parts = size
        some = self.times[state : state + rounds, :parts]
        return np.broadcast_to(some, (seeds, rounds, parts)).copy(), state + rounds

    def sample(self, size, rng):
        return self.advance(0, size, rng)[0]

    @classmethod
    def fit(cls, mean, std):
        raise AssertionError


_known: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}  # by case and times


def master(case, times):
    """Return durations of rounds and departures of jobs, as the master has them in virtual time."""
    key = id(case), hash(times.tobytes())
    if key not in _known:
        _known[key] = _run(case, times)
    return _known[key]


def _run(case, times):
    log = Timed()
    paces = scripted(lambda place, round, i: times[place, round - 1, i], case.links.tolist())
    cluster = log.cluster = VirtualCluster(paces=paces, costs=case.costs)
    plan = coded(case.plan, summed=case.numbers > 0)
    with Stream(cluster, patience_s=1e9, observers=[log], progress=False, overlap=case.rules.overlap) as stream:
        for job in range(JOBS):
            stream.sleep(max(0.0, (1 + job) * GAP - stream.now()))
            stream.submit(SizedJob(case, plan, iterations=ITERATIONS, lend=case.rules.lend))
    return log.durations, np.array(log.departures)


class Timed(Log):
    """Notes when rounds are added up, which may take longer than the last message that was needed."""

    def stepped(self, running, seen, finished):
        self.rounds.append((seen.job, seen.round, seen.start, self.cluster.time))


class SizedJob(HollowJob):
    """A hollow job whose rows and state have sizes, and are added up."""

    added = True

    def __init__(self, case, plan, **settings):
        super().__init__(plan, **settings)
        self._case = case

    def work(self, codes):
        return SizedWork(self._case.numbers)

    def request(self, state):
        return state_of(self._case)


class SizedWork(HollowWork):
    def __init__(self, numbers):
        self._result = np.zeros(numbers)

    def part(self, state, part):
        return self._result


def state_of(case):
    return np.zeros(case.state) if case.state else None


def state_bytes(case):
    pickled, buffers = shipping.pack(state_of(case))
    return len(pickled) + sum(buffer.nbytes for buffer in buffers)


def price(case):
    """Return what its rounds take beside computing, as all evaluators but virtual time have it."""
    return priced(case.plan, case.costs, message=8.0 * case.numbers, state=state_bytes(case), added=True)


def profile_of(case):
    workload = Workload(critical=1, redundancy=1.0, iterations=ITERATIONS, arrivals=Arrivals.recorded([GAP]))
    workers = [Worker(f"w{i}", mean=1.0, std=1.0, link=float(link)) for i, link in enumerate(case.links)]
    return Profile(workload, workers, costs=case.costs)


def beside(case):
    if case.numbers:
        return price(case).tasks
    return [np.full(len(lane) + len(case.plan.pooled), case.message) for lane in case.plan.lanes]


def _by_kernel(name):
    def evaluate(case, laws):
        found = price(case)
        before, after = (found.more, 0.0) if case.plan.pool is None else (0.0, found.more)
        kernel = kernels.KERNELS[name](case.plan, case.links + before, beside(case), case.ruled)
        arrivals = kernel.empty(ROUNDS)
        for p, law in enumerate(laws):
            if case.plan.pool is None and not case.plan.lanes[p]:
                continue
            if law.one_pace:
                kernel.arrive_paced(p, law.times[:ROUNDS, 0].copy(), arrivals)
            else:
                times, _ = law.advance_tasks(0, kernel.costs(p), (1, ROUNDS), None)
                kernel.arrive(p, times[0] + (beside(case)[p] if case.plan.pool is None else 0.0), arrivals)
        passed = through_port(arrivals, np.concatenate(found.port)) if found.port else arrivals
        ends = kernel.over(passed)[0]
        return ends + after + (0.0 if found.adding is None else found.adding(kernel.seen(arrivals, ends)[1])), None

    return evaluate


def _by_sampler(case, laws):
    found = price(case)
    sampler = RoundSampler(
        case.plan, laws, case.links, purge=case.rules.purge, beside=found.tasks or 0.0, more=found.more,
        port=found.port, adding=found.adding,
    )  # fmt: skip
    return sampler.draw(sampler.begin(1, None), 1, ROUNDS, None)[0].times[0], None


def _by_rehearsal(case, laws):
    cost = price(case)
    tried = Rehearsed(case.plan, tuple(beside(case)), cost.more, cost.port, cost.adding)
    found = Rehearsal(laws, case.links, rounds=ROUNDS * HISTORIES, seed=1).times([tried])[0]
    assert (found == found[0]).all()
    return found[0], None


def _by_jobs(case, laws):
    seen = simulate_jobs(
        case.plan, profile_of(case), jobs=JOBS, seeds=1, laws=laws, purge=case.rules.purge, overlap=case.rules.overlap,
        bytes_per_message=8.0 * case.numbers, bytes_of_state=state_bytes(case),
    )  # fmt: skip
    return None, seen.delays[0] + GAP * np.arange(1, JOBS + 1)


def _by_overlap(case, laws):
    arrivals = GAP * np.arange(1.0, JOBS + 1)[None]
    return None, Overlapped(case.plan, laws, case.links).departures(arrivals, ITERATIONS, None, overlap=True)[0]


def _free(case):
    """Return whether nothing costs time but computing and links."""
    return not case.message and not case.round and not case.numbers


# name: whether it can do a case under laws, and what gives durations of rounds, or departures of jobs
EVALUATORS = {
    **{
        f"kernel: {name}": (lambda case, laws, kernel=kernel: kernel.can(case.plan, laws, case.ruled), _by_kernel(name))
        for name, kernel in kernels.KERNELS.items()
    },
    "sampler": (lambda case, laws: kernels.can(case.plan, laws, case.ruled), _by_sampler),
    "rehearsal": (lambda case, laws: kernels.can(case.plan, laws, case.ruled), _by_rehearsal),
    "jobs": (
        lambda case, laws: (
            Overlapped.can(case.plan, laws, case.rules) and _free(case)
            if case.rules.overlap
            else kernels.can(case.plan, laws, case.ruled)
        ),
        _by_jobs,
    ),
    "overlapped": (
        lambda case, laws: case.rules.overlap and Overlapped.can(case.plan, laws, case.rules) and _free(case),
        _by_overlap,
    ),
}
RAISES = {"sampler", "rehearsal", "jobs"}  # what is asked for without being asked whether it can


def agrees(name, case, laws):
    """Check one evaluator against the master on the same draws; return whether it could."""
    can, evaluate = EVALUATORS[name]
    times = case.drawn(laws)
    played = [Played(times[p], law) for p, law in enumerate(laws)]
    if not can(case, played):
        if name in RAISES and not case.rules.lend and not (case.rules.overlap and name != "jobs"):
            with pytest.raises(ArgumentError, match=r"can't be simulated|not allowed"):
                evaluate(case, played)
        return False
    durations, departures = evaluate(case, played)
    expected = master(case, times)
    if durations is not None:
        np.testing.assert_allclose(durations, expected[0], rtol=1e-11)
    if departures is not None:
        np.testing.assert_allclose(departures, expected[1], rtol=1e-11)
    return True


def exactly(case, laws):
    """Check the exact law against the master; return whether there is one.

    Where times are constant, it is the duration of every round; otherwise the mean of many, to six deviations.
    """
    if not exact.can(case.plan, laws, case.rules) or not _free(case):
        if _free(case) and case.rules == PLAIN:
            with pytest.raises(NoClosedForm, match="no exact law, since"):
                exact_law(case.plan, laws, case.links)
        return False
    law = exact_law(case.plan, laws, case.links)
    seen = np.concatenate([master(case, case.drawn(laws, seed))[0] for seed in range(8)])
    std = max(law.second - law.mean**2, 0.0) ** 0.5
    assert abs(seen.mean() - law.mean) <= 6 * std / len(seen) ** 0.5 + 1e-9 * law.mean
    return True
