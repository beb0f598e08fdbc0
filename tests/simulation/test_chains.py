"""Chains of products in virtual time: the vectorised simulator against the master, against theory, and under faults."""

from dataclasses import replace

import numpy as np
import pytest

from bench.chaos.world import faults as random_faults
from echelon.clusters.faults import Crash, Endless, Faults, Partition, Raise
from echelon.clusters.pace import Pace
from echelon.delays import Delay, Deterministic, Straggler, Trace
from echelon.endings import WAITING
from echelon.errors import ArgumentError
from echelon.jobs import RoundJob
from echelon.jobs.hollow import HollowWork
from echelon.schemes import (
    Window,
    any_k,
    diagonal_interleaved,
    improved_diagonal_interleaved,
    polynomial_products,
    uncoded_products,
)
from echelon.seeds import place_generator
from echelon.simulation.chains import can, simulate_chain
from echelon.stragglers import Arbitrary, Bursts, waited
from echelon.theory import dip_time, idip_time, polynomial_time, uncoded_time
from tests.simulation.in_virtual_time import Log, WatchedStream, scripted

SCHEMES = {
    "polynomial": polynomial_products(4, x=2, y=1),
    "uncoded": uncoded_products(4),
    "DIP": diagonal_interleaved(4, x=2, y=3, delay=3),
    "DIP, mu": diagonal_interleaved(4, x=2, y=3, delay=3, tolerance=0.25),
    "DIP, lambda": diagonal_interleaved(4, x=3, y=3, delay=2, spread=2),
    "DIP, lambda, mu": diagonal_interleaved(4, x=3, y=3, delay=2, spread=2, tolerance=0.25),
    "DIP, no delay": diagonal_interleaved(3, x=2, y=2, delay=0, spread=2),
    "DIP, fastest": diagonal_interleaved(4, x=4, y=4, delay=3, waiting="fastest"),
    "DIP, fastest, mu": diagonal_interleaved(4, x=3, y=3, delay=2, spread=2, tolerance=0.25, waiting="fastest"),
    "DIP, fastest, no delay": diagonal_interleaved(3, x=2, y=2, delay=0, spread=1, waiting="fastest"),
    "IDIP": improved_diagonal_interleaved(4, Arbitrary(count=8, window=4)),
    "IDIP, mu": improved_diagonal_interleaved(4, Arbitrary(count=8, window=4), tolerance=0.25),
    "IDIP, fastest, mu": improved_diagonal_interleaved(
        4, Arbitrary(count=6, window=3), tolerance=0.25, waiting="fastest"
    ),
    "IDIP, bursts, fastest": improved_diagonal_interleaved(
        4, Bursts(workers_at_once=2, length=2, window=4), waiting="fastest"
    ),
    "IDIP, few": improved_diagonal_interleaved(3, Arbitrary(count=1, window=3)),
    "IDIP, bursts": improved_diagonal_interleaved(4, Bursts(workers_at_once=2, length=2, window=4)),
    "IDIP, bursts, mu": improved_diagonal_interleaved(3, Bursts(workers_at_once=1, length=2, window=3), tolerance=0.25),
}
BY_SCHEME = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)


class Rounds(RoundJob):
    """Rounds of a window that only take time; counts each product's rows, and looks at its deadline."""

    parts = 1
    noise_limit = 1e300  # nobody looks at numbers

    def __init__(self, scheme, loads):
        super().__init__(name="rounds", tolerance=1e30)
        self.window, self.loads = Window(scheme), loads
        self.round, self.begun, self.finished, self.came = 0, {}, {}, {}

    def code(self, redundancy, rng):
        return self.window.scheme.code

    @property
    def code_key(self):
        return self.window.scheme.code

    def work(self, codes):
        return HollowWork()

    def request(self, state):
        return None

    def open(self, cluster, state):
        number = self.round if self.round < len(self.loads) else None
        if number is not None:
            self.begun[number] = self.round
        self.plan_now = self.window.open(number, 1.0 if number is None else self.loads[number])
        if self.plan_now is None:  # all are there, but rounds go on to the last: nothing to be done is done at once
            raise AssertionError("a round without products")
        return self.plan_now

    def held(self, state, slot):
        return self.window.rows_of(self.plan_now.products[slot])

    def close(self, state, collected, decide):
        received, settled = collected.messages.keys(), collected.weights.keys()
        for slot, row in received:
            self.came.setdefault(self.plan_now.products[slot], set()).add(row)
        for product in self.window.close(received, settled):
            assert len(self.came[product]) >= self.window.scheme.threshold, "finished by rows that were counted twice"
            self.finished[product] = self.round - self.begun[product]
        self.round += 1
        return self.round >= len(self.loads) and not self.window.products


def in_virtual_time(scheme, paces, loads, links=None, **options):
    """Run a chain by the master; paces: one per round and worker, or one per round, worker and task of its lane."""

    def times(place, round, i):
        pace = paces[min(round, len(paces)) - 1, place]
        return pace[i] if pace.ndim else pace

    log, rounds = Log(), Rounds(scheme, loads)
    with WatchedStream(scripted(times, links or [0.0] * scheme.workers), observers=[log], **options) as stream:
        stream.submit(rounds).result()
    return log, rounds


def drawn(kind, scheme, rounds, seed):
    rng = np.random.default_rng(seed)
    shape = (rounds, scheme.workers)
    # 1.25 times four tasks is what a slow worker takes for its first one: such ties count as in time
    return np.where(rng.random(shape) < 0.35, 5.0, 1.0) if kind == "slow" else rng.exponential(1.0, shape) + 0.01


@BY_SCHEME
@pytest.mark.parametrize("kind", ["slow", "exponential"])
@pytest.mark.parametrize("linked", [False, True])
def test_the_vectorised_simulator_takes_the_times_of_the_master(scheme, kind, linked):
    """On the same paces, with loads that differ, every round takes the same time and products end in the same round."""
    rng = np.random.default_rng(3)
    # tasks of a slow kind cost one, so that what comes at the same time does so to the last digit
    loads = rng.uniform(0.5, 2.0, 40) if kind == "exponential" else np.full(40, 1 / scheme.share)
    links = rng.uniform(0, 0.3, scheme.workers).tolist() if linked else None
    for seed in range(3):
        paces = drawn(kind, scheme, 40 + scheme.delay, seed)
        found = simulate_chain(scheme, paces=paces, loads=loads, links=links)
        log, rounds = in_virtual_time(scheme, paces, loads, links)
        durations = log.durations
        # rounds after the last product was there take no time in the simulator, and are not opened by the master
        np.testing.assert_allclose(found.durations[0, : len(durations)], durations, rtol=1e-11, atol=1e-12)
        assert (found.durations[0, len(durations) :] == 0).all()
        assert [rounds.finished[i] for i in range(40)] == found.finished[0].tolist()


class Table(Delay):
    """A law that has the same times for every seed, as a table says: rounds, and tasks of a lane."""

    mean = std = 1.0

    def __init__(self, times):
        self._times = times

    def begin(self, seeds, rng):
        return 0

    def advance(self, state, size, rng):
        _seeds, rounds, tasks = size
        return np.broadcast_to(self._times[state : state + rounds, :tasks], size), state + rounds

    def sample(self, size, rng):
        raise AssertionError("rounds are told apart")

    @classmethod
    def fit(cls, mean, std):
        raise AssertionError("never asked")


@BY_SCHEME
def test_with_a_time_for_every_task_the_simulator_takes_the_times_of_the_master(scheme):
    """The j-th time of a round is for the j-th task that a worker has in it, in both."""
    tasks = scheme.delay + scheme.due_tasks(scheme.threshold)
    drawn = np.random.default_rng(6).exponential(1.0, (30 + scheme.delay, scheme.workers, tasks))
    laws = [Table(drawn[:, place]) for place in range(scheme.workers)]
    found = simulate_chain(scheme, laws, products=30)
    log, rounds = in_virtual_time(scheme, drawn, np.ones(30))
    np.testing.assert_allclose(found.durations[0, : len(log.durations)], log.durations, rtol=1e-11, atol=1e-12)
    assert [rounds.finished[i] for i in range(30)] == found.finished[0].tolist()


@BY_SCHEME
@pytest.mark.parametrize("least", [0.2, 1.5])
def test_a_task_of_several_parts_takes_the_sum_of_their_times_as_with_the_master(scheme, least):
    """Loads above what a product is cut into: tasks of up to five parts, of which the last may be a share."""
    rng = np.random.default_rng(7)
    loads = np.concatenate([rng.uniform(least, 5.0, 20), [2.0, 3.0, 1.0]]) / scheme.share
    parts = 5 * (scheme.delay + scheme.due_tasks(scheme.threshold))
    drawn = rng.exponential(1.0, (23 + scheme.delay, scheme.workers, parts))
    found = simulate_chain(scheme, [Table(drawn[:, place]) for place in range(scheme.workers)], loads=loads)
    log, rounds = in_virtual_time(scheme, drawn, loads)
    np.testing.assert_allclose(found.durations[0, : len(log.durations)], log.durations, rtol=1e-11, atol=1e-12)
    assert [rounds.finished[i] for i in range(23)] == found.finished[0].tolist()


def test_a_round_of_one_pace_takes_its_cost_times_that_pace():
    """Table and paces of the same times agree where all parts of a round take the same."""
    scheme, rng = SCHEMES["DIP, lambda, mu"], np.random.default_rng(9)
    loads, paces = rng.uniform(1.0, 30.0, 20), rng.exponential(1.0, (22, 4))
    laws = [Table(np.broadcast_to(paces[:, place, None], (22, 99))) for place in range(4)]
    by_part, by_pace = simulate_chain(scheme, laws, loads=loads), simulate_chain(scheme, paces=paces, loads=loads)
    np.testing.assert_allclose(by_part.durations, by_pace.durations, rtol=1e-11)


@pytest.mark.parametrize("load", [1.0, 15.0])
@pytest.mark.parametrize("waiting", ["due", "fastest"])
def test_a_recorded_trace_goes_on_from_part_to_part_as_in_virtual_time(waiting, load):
    """What a round does not need is not used up: records of 97 and more times, over 30 rounds."""
    scheme = diagonal_interleaved(3, x=2, y=3, delay=2, waiting=waiting)
    rng = np.random.default_rng(8)
    laws = [Trace(times=rng.exponential(1.0, 97 + place)) for place in range(3)]
    found = simulate_chain(scheme, laws, loads=np.full(30, load), seed=5)
    log, rounds = Log(), Rounds(scheme, np.full(30, load))
    paces = [Pace(law, 0.0, place_generator(5, place)) for place, law in enumerate(laws)]
    with WatchedStream(paces, observers=[log]) as stream:
        stream.submit(rounds).result()
    np.testing.assert_allclose(found.durations[0, : len(log.durations)], log.durations, rtol=1e-11)


def test_ours_and_the_papers_rule_take_what_is_told_of_them():
    """P = 4, xy = 16, T = 3, lambda = 1, delta = .3, alpha = 5: .375 and .578, at 99.9 %."""
    for waiting, stated in (("due", 0.375262), ("fastest", 0.578309)):
        scheme = diagonal_interleaved(4, x=4, y=4, delay=3, waiting=waiting)
        found = simulate_chain(scheme, LAW, products=2000, seeds=40, seed=2)
        means = found.durations[:, 6:2000].mean(axis=1)
        assert abs(means.mean() - stated) < 3.29 * means.std(ddof=1) / 40**0.5


def test_what_can_not_be_simulated_is_refused_in_words(monkeypatch):
    scheme = diagonal_interleaved(2, x=1, y=3, delay=1)
    assert can(scheme, [LAW, LAW])
    assert can(any_k([1, 1], 1), [LAW, LAW]).why_not.startswith("Plan is no scheme for a chain of products")
    assert can(scheme, [LAW]).why_not == "it is for 2 workers, and there are laws for 1"
    monkeypatch.setitem(WAITING, "grace", WAITING["due"])
    other = diagonal_interleaved(2, x=1, y=3, delay=1, waiting="grace")
    assert can(other, [LAW, LAW]).why_not == (
        "rounds of due, fastest can be simulated, and not those that wait by 'grace'"
    )
    with pytest.raises(ArgumentError, match=r"scheme: .* is not allowed; Plan is no scheme"):
        simulate_chain(any_k([1, 1], 1), LAW, products=5)
    for given in ({"law": LAW}, {"paces": np.ones((9, 2))}):
        with pytest.raises(ArgumentError, match=r"scheme: .* is not allowed; rounds of due, fastest"):
            simulate_chain(other, products=5, **given)


@BY_SCHEME
def test_every_product_is_there_in_time_whatever_the_stragglers_do(scheme):
    """Most patterns do not conform: the master waits, and no product takes more than delay + 1 rounds."""
    for seed, chance in enumerate((0.2, 0.5, 0.8, 1.0)):
        rng = np.random.default_rng(seed)
        paces = np.where(rng.random((40, scheme.workers)) < chance, rng.uniform(2, 9, (40, scheme.workers)), 1.0)
        _, rounds = in_virtual_time(scheme, paces, np.ones(30))
        assert sorted(rounds.finished) == list(range(30))
        assert max(rounds.finished.values()) <= scheme.delay


def test_rounds_that_wait_leave_the_stragglers_that_the_patterns_say():
    """Stragglers of one slowness all return together: as `waited` has it, where nothing is finished early."""
    model = Arbitrary(count=4, window=3)
    scheme = improved_diagonal_interleaved(4, model)
    slow = np.random.default_rng(4).random((60, 4)) < 0.3
    left = waited(slow, model, np.arange(4), together=True)
    found = simulate_chain(scheme, paces=np.where(slow, 5.0, 1.0), products=58)
    waits = slow.any(axis=1) & ~left.any(axis=1)
    tasks = found.loads[0] / scheme.share
    full = tasks[:58] == 3
    # each task of a full round costs its share, five times as much where stragglers are waited for
    expected = 3 * scheme.share * np.where(waits, 5.0, 1.0)[:58]
    same = np.isclose(found.durations[0, :58], expected)
    assert full.sum() > 20
    assert same[full].mean() > 0.9  # a product that is there early lets some stragglers off


@pytest.mark.parametrize(
    "name",
    [
        "DIP",
        "DIP, lambda, mu",
        "DIP, fastest",
        "DIP, fastest, no delay",
        "IDIP",
        "IDIP, bursts, mu",
        "IDIP, fastest, mu",
        "polynomial",
    ],
)
def test_under_faults_every_product_is_found_and_every_promise_kept(name):
    """Crashes, partitions, slow spells, stops, lost, late and repeated messages; the watcher looks on."""
    scheme = SCHEMES[name]
    for seed in range(60):
        rng = np.random.default_rng(seed)
        paces = drawn("exponential", scheme, 30, seed)
        faults = random_faults(rng, places=scheme.workers, horizon=15.0, crashes=False)
        kept = tuple(i for i in faults.incidents if not isinstance(i, Raise | Endless))
        calm = replace(faults, lose=faults.lose / 4, incidents=kept)
        try:
            _, rounds = in_virtual_time(
                scheme, paces, np.ones(15), [0.05] * scheme.workers, faults=calm, patience_s=3.0
            )
        except Exception as error:
            raise AssertionError(f"seed {seed}: {calm}") from error
        assert sorted(rounds.finished) == list(range(15)), f"seed {seed}"
        assert max(rounds.finished.values()) <= scheme.delay, f"seed {seed}"


def test_all_workers_may_be_cut_off_at_once():
    """Nothing is due in the first round and no message of it comes: silence has it given out again."""
    scheme = diagonal_interleaved(2, x=1, y=5, delay=2)
    cuts = tuple(Partition(time=0.1, place=place, length=20.0, reported=False) for place in (0, 1))
    faults = Faults(np.random.default_rng(1), incidents=cuts)
    _, rounds = in_virtual_time(scheme, np.ones((9, 2)), np.ones(3), faults=faults, patience_s=3.0)
    assert sorted(rounds.finished) == [0, 1, 2]


def test_all_workers_may_die_at_once():
    scheme = diagonal_interleaved(2, x=1, y=5, delay=2, spread=2)
    for time in (0.1, 0.3, 0.5, 0.7, 0.9):
        deaths = tuple(Crash(time=time, place=place, notice=0.05 * (1 + place), restart=2.0) for place in (0, 1))
        log, rounds = in_virtual_time(
            scheme, np.ones((9, 2)), np.ones(3), faults=Faults(np.random.default_rng(1), incidents=deaths)
        )
        assert log.starved_times >= 1
        assert sorted(rounds.finished) == [0, 1, 2]


LAW = Straggler(base=Deterministic(time=1.0), probability=0.3, slowdown=5.0)


@pytest.mark.parametrize(
    ("scheme", "expected", "stated"),
    [
        (
            polynomial_products(4, x=2, y=1),
            polynomial_time(slowdown=5, stragglers=2, workers=4, probability=0.3),
            0.6674,
        ),
        (uncoded_products(4), uncoded_time(slowdown=5, workers=4, probability=0.3), 1.0099),
    ],
    ids=["polynomial", "uncoded"],
)
def test_means_without_delay_are_those_of_section_4(scheme, expected, stated):
    """At 99.9 %, over 100 runs of 2000 products."""
    assert expected == pytest.approx(stated, abs=5e-5)
    found = simulate_chain(scheme, LAW, products=2000, seeds=100, seed=2)
    assert abs(found.mean - expected) < 3.29 * found.error


def test_dip_with_a_long_delay_takes_what_section_4_says():
    """R_DIP for T = infinity is .4236 with x y = 6; with T = 30 within .002, at 99.9 %."""
    expected = dip_time(slowdown=5, results=6, workers=4, probability=0.3)
    assert expected == pytest.approx(0.4236, abs=5e-5)
    found = simulate_chain(diagonal_interleaved(4, x=2, y=3, delay=30), LAW, products=4000, seeds=20, seed=3)
    assert abs(found.mean - expected) < 0.002
    assert 3.29 * found.error < 0.002


def test_idip_takes_no_longer_than_the_exact_chain_says():
    """99.9 %: `idip_time` counts the full load in every round; finished products only make it less."""
    expected = idip_time(slowdown=5, count=8, window=4, workers=4, probability=0.3)
    found = simulate_chain(SCHEMES["IDIP"], LAW, products=2000, seeds=50, seed=4)
    assert found.mean < expected + 3.29 * found.error


def test_loads_scale_times_and_are_reported():
    scheme = polynomial_products(3, x=2, y=1)
    one = simulate_chain(scheme, paces=np.ones((4, 3)), products=4)
    two = simulate_chain(scheme, paces=np.ones((4, 3)), loads=[2.0, 4.0, 2.0, 6.0])
    assert one.durations.tolist() == [[0.5] * 4]
    assert two.durations.tolist() == [[1.0, 2.0, 1.0, 3.0]]
    assert two.loads.tolist() == two.durations.tolist()
    assert two.times.tolist() == [7.0 / 4]
    assert np.isnan(two.error)


def test_runs_are_independent_and_come_from_the_seed():
    scheme = SCHEMES["DIP"]
    first, again, other = (simulate_chain(scheme, LAW, products=50, seeds=4, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.durations, again.durations)
    assert (first.durations != other.durations).any()
    assert len({row.tobytes() for row in first.durations}) == 4


def test_several_patterns_at_once_are_what_each_is_alone():
    scheme = SCHEMES["IDIP, bursts"]
    paces = np.stack([drawn("exponential", scheme, 25, seed) for seed in range(5)])
    together = simulate_chain(scheme, paces=paces, products=20)
    for i, alone in enumerate(paces):
        one = simulate_chain(scheme, paces=alone, products=20)
        np.testing.assert_array_equal(together.durations[i, :23], one.durations[0])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"products": 5}, "law, paces: one of them must be given"),
        ({"law": LAW, "paces": np.ones((9, 4)), "products": 5}, "law, paces: one of them must be given"),
        ({"law": LAW}, "products: None is not allowed"),
        ({"law": LAW, "products": 0}, "products: 0 is not allowed"),
        ({"law": LAW, "products": 5, "loads": [1.0]}, "products: 5 is not allowed; must be 1"),
        ({"law": LAW, "loads": []}, "loads: must be a row"),
        ({"law": LAW, "loads": [1.0, -1.0]}, "loads: must be a row"),
        ({"law": [LAW], "products": 5}, "law"),
        ({"law": LAW, "products": 5, "seeds": 0}, "seeds: 0 is not allowed"),
        ({"law": LAW, "products": 5, "links": [0.0]}, "links: must be 4 finite numbers"),
        ({"law": LAW, "products": 5, "links": [0.0, 0.0, 0.0, -1.0]}, "links: must be 4 finite numbers"),
        ({"paces": np.ones((7, 4)), "products": 5}, "for 8 rounds at least"),
        ({"paces": np.ones((8, 3)), "products": 5}, "paces: shape"),
        ({"paces": np.zeros((8, 4)), "products": 5}, "paces: must be > 0"),
        ({"paces": np.full((8, 4), np.nan), "products": 5}, "must be finite times"),
        ({"paces": np.ones((0, 8, 4)), "products": 5}, "paces: must be > 0"),
    ],
)
def test_wrong_arguments_are_named(arguments, said):
    with pytest.raises(ArgumentError, match=said):
        simulate_chain(SCHEMES["DIP"], **arguments)
