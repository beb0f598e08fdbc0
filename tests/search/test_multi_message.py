"""The search over designs against an evaluation of all of them from the definitions, by sorting of plain draws."""

from itertools import combinations

import numpy as np
import pytest

import echelon.search.multi_message as module
from echelon.delays import Exponential, RoundPace, ShiftedExponential
from echelon.errors import ArgumentError
from echelon.plan import Plan
from echelon.search.halving import Stage
from echelon.search.multi_message import Design, multi_message_designs, optimise_multi_message
from echelon.simulation import simulate_rounds

LAW = RoundPace(base=ShiftedExponential(shift=0.01, rate=10.0))
Z = 3.2905267314919255  # 99.9 %


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "STAGES", (Stage(rounds=300, go_on=40, of_each=40), Stage(rounds=4000)))
    monkeypatch.setattr(module, "FRESH", Stage(rounds=20_000))


def all_designs(workers, load, most=4):
    """Return (clusters, order, orders, hybrid) of every design that there is."""
    found = []
    for clusters in range(1, workers + 1):
        if workers % clusters or load > workers // clusters:
            continue
        sets = [some for count in range(1, most + 1) for some in combinations(range(1, load + 1), count)]
        for hybrid in [False, True] if load == workers // clusters else [False]:
            found += [(clusters, order, None, hybrid) for order in range(1, load + 1)]
            found += [(clusters, None, some, hybrid) for some in sets if not hybrid or max(some) == load]
    return found


def evaluate(paces, load, design):
    """Return completion times and loads from the definition of a design; paces have shape (rounds, workers)."""
    clusters, order, orders, hybrid = design
    size = paces.shape[1] // clusters
    ends, sent = np.zeros(len(paces)), []
    for first in range(0, paces.shape[1], size):
        own = paces[:, first : first + size]
        steps = range(order, load + 1) if orders is None else orders
        lanes = np.stack([own * step for step in steps], axis=2)
        sent.append(lanes.reshape(len(paces), -1))
        if orders is None:
            rows = [
                np.min([own[:, (j - i) % size] * (order + i) for i in range(load - order + 1)], axis=0)
                for j in range(size)
            ]
            threshold = size - order + 1
        else:
            rows = list(sent[-1].T)
            threshold = size * len(orders) - sum(orders) + 1
        end = np.sort(rows, axis=0)[threshold - 1]
        ends = np.maximum(ends, np.minimum(end, load * own.min(axis=1)) if hybrid else end)
    return ends, (np.concatenate(sent, axis=1) <= ends[:, None]).sum(axis=1)


def arguments(design):
    return (design.clusters, design.order, design.orders, design.hybrid)


@pytest.fixture(scope="module")
def evaluated():
    """Times and loads of all designs of 6 workers with 3 chunks each, on the same 40 000 rounds."""
    paces = 0.01 + np.random.default_rng(1).exponential(0.1, (40_000, 6))
    return {design: evaluate(paces, 3, design) for design in all_designs(6, 3)}


@pytest.mark.parametrize("message_cost", [0.0, 0.003, 0.01, 0.03, 1.0])
def test_the_winner_is_the_best_of_all_designs_or_within_noise_of_it(evaluated, message_cost):
    """The difference to the best is at most what 4000 rounds of both on the same draws leave open at 99.9 %."""
    found = optimise_multi_message(6, 3, LAW, message_cost=message_cost)
    scores = {design: times + message_cost * loads for design, (times, loads) in evaluated.items()}
    best = min(scores.values(), key=np.mean)
    more = scores[arguments(found.design)] - best
    assert more.mean() <= Z * more.std() / 4000**0.5


def test_the_winners_figures_are_those_of_fresh_draws(evaluated):
    found = optimise_multi_message(6, 3, LAW, message_cost=0.01)
    times, loads = evaluated[arguments(found.design)]
    assert abs(found.score.mean - times.mean()) < Z * np.hypot(found.score.error, times.std() / 200)
    assert abs(found.score.load - loads.mean()) < Z * np.hypot(found.score.load_error, loads.std() / 200)
    assert len(found.score.times) == 20_000
    assert all(len(score.times) == 4000 for _, score in found.finalists)
    assert found.finalists[0][0] == found.design


def test_all_finalists_are_scored_as_their_definitions_say(evaluated):
    found = optimise_multi_message(6, 3, LAW)
    assert len(found.finalists) == found.tried
    for design, score in found.finalists:
        times, loads = evaluated[arguments(design)]
        if design.spans:  # fewer rows than the definition counts may be enough
            true = simulate_rounds(design.plan, LAW, rounds=4000, seed=2)
            np.testing.assert_array_equal(score.times, true.times)
            assert score.mean < times.mean() + 5 * np.hypot(score.error, times.std() / 200)
            continue
        # some fifty statements at once: five deviations
        assert abs(score.mean - times.mean()) < 5 * np.hypot(score.error, times.std() / 200)
        assert abs(score.load - loads.mean()) < 5 * np.hypot(score.load_error, loads.std() / 200) + 1e-9
    means = [score.mean for _, score in found.finalists]
    assert means == sorted(means)


@pytest.mark.parametrize("most", [3, 4, 5, 6, 8, 9, 12])
def test_no_more_messages_than_allowed_are_received_on_fresh_draws(evaluated, most):
    found = optimise_multi_message(6, 3, LAW, max_messages=most)
    assert found.score.load <= most
    times, loads = evaluated[arguments(found.design)]
    assert loads.mean() <= most + Z * np.hypot(loads.std() / 200, found.score.load_error)
    # those that are allowed beyond doubt are no better than noise explains
    allowed = [own for own, sent in evaluated.values() if sent.mean() + 5 * sent.std() / 20_000**0.5 <= most]
    best = min(allowed, key=np.mean, default=times)
    assert (times - best).mean() <= Z * (times - best).std() / 4000**0.5


def test_fewer_messages_than_any_design_needs_are_refused():
    """Two clusters need a message each at least."""
    with pytest.raises(ArgumentError, match=r"^max_messages: 1.5 is not allowed; no design of"):
        optimise_multi_message(6, 3, LAW, max_messages=1.5)


def test_fewer_messages_never_make_a_round_quicker():
    means = [optimise_multi_message(6, 3, LAW, max_messages=most).score.mean for most in (3, 5, 8, 20)]
    assert means == sorted(means, reverse=True)


def test_workers_may_have_laws_of_their_own():
    """Every other worker takes twice as long; all designs once more, with a bit less than the allowed load."""
    laws = [RoundPace(base=ShiftedExponential(shift=0.01 * (1 + p % 2), rate=10.0 / (1 + p % 2))) for p in range(6)]
    found = optimise_multi_message(6, 3, laws, max_messages=8)
    rng = np.random.default_rng(2)
    slow = 1 + np.arange(6) % 2
    paces = (0.01 + rng.exponential(0.1, (40_000, 6))) * slow
    times, loads = evaluate(paces, 3, arguments(found.design))
    assert abs(found.score.mean - times.mean()) < Z * np.hypot(found.score.error, times.std() / 200)
    scores = [own for own, sent in (evaluate(paces, 3, design) for design in all_designs(6, 3)) if sent.mean() < 7.9]
    best = min(scores, key=np.mean)
    assert (times - best).mean() <= Z * (times - best).std() / 4000**0.5
    assert loads.mean() < 8.1


def test_independent_tasks_are_searched_as_well():
    """Two workers, a chunk each: both are needed, and the later of two exponentials comes at 1.5."""
    found = optimise_multi_message(2, 1, Exponential(rate=1.0))
    assert abs(found.score.mean - 1.5) < Z * (1.25 / 20_000) ** 0.5
    assert found.score.load == 2


def test_the_same_seed_gives_the_same_answer():
    once, again = (optimise_multi_message(6, 3, LAW, max_messages=7, seed=5) for _ in range(2))
    assert once.design == again.design
    np.testing.assert_array_equal(once.score.times, again.score.times)
    assert [design for design, _ in once.finalists] == [design for design, _ in again.finalists]
    other = optimise_multi_message(6, 3, LAW, max_messages=7, seed=6)
    assert not (other.score.times == once.score.times).any()


@pytest.mark.parametrize(("workers", "load"), [(1, 1), (4, 4), (6, 2), (12, 3), (7, 3)])
def test_every_design_there_is_gets_tried_or_one_that_does_the_same(workers, load, monkeypatch):
    monkeypatch.setattr(module, "STAGES", (Stage(rounds=50),))
    monkeypatch.setattr(module, "FRESH", Stage(rounds=50))
    paces = np.random.default_rng(3).exponential(1.0, (200, workers))

    def doings(designs):
        results = (evaluate(paces, load, design) for design in designs)
        return {(tuple(np.round(times, 9)), tuple(loads)) for times, loads in results}

    for most in (1, 2, 4):
        found = optimise_multi_message(workers, load, LAW, max_orders=most)
        tried = {arguments(design) for design, _ in found.finalists}
        assert len(tried) == len(found.finalists) == found.tried
        assert tried <= set(all_designs(workers, load, most))
        assert doings(tried) == doings(all_designs(workers, load, most))


def test_the_best_designs_whose_rows_are_followed_go_on_beside_those_whose_rows_are_counted(monkeypatch):
    """By counting, none of them is among the best three."""
    first = Stage(rounds=2000, go_on=2, of_each=3)
    monkeypatch.setattr(module, "STAGES", (first, Stage(rounds=2000)))
    designs = [design for design, _ in optimise_multi_message(6, 3, LAW).finalists]
    counted = {design: simulate_rounds(Plan(design.plan.slots, design.plan.lanes), LAW).mean for design in designs}
    assert [design.spans for design in sorted(designs, key=counted.__getitem__)] == [False] * 3 + [True] * 3


def test_a_design_that_needs_too_many_messages_only_by_counting_is_not_left_out(monkeypatch):
    """One cluster of three with orders 1, 2 and 3: of its messages some are enough that a count knows nothing of."""
    asked = Design(workers=3, load=3, clusters=1, order=None, orders=(1, 2, 3), hybrid=False)
    assert asked.spans
    true = simulate_rounds(asked.plan, LAW, rounds=20_000)
    counted = simulate_rounds(Plan(asked.plan.slots, asked.plan.lanes), LAW, rounds=20_000)
    most = (true.load + counted.load) / 2
    assert true.load + 5 * true.load_error < most < counted.load - 5 * counted.load_error
    found = optimise_multi_message(3, 3, LAW, max_messages=most)
    assert asked in [design for design, _ in found.finalists]


def test_progress_never_falls_and_ends_with_all():
    said = []
    found = optimise_multi_message(6, 3, LAW, progress=lambda done, of: said.append((done, of)))
    assert [done for done, _ in said] == list(range(1, len(said) + 1))
    assert said[-1][0] == said[-1][1] > found.tried


def test_a_design_says_what_it_is_and_makes_its_plan():
    design = Design(workers=6, load=3, clusters=2, order=None, orders=(2, 3), hybrid=True)
    assert str(design) == "2 clusters, orders [2, 3], hybrid"
    assert len(design.plan.slots) == 2
    assert [task.cost for task in design.plan.lanes[0]] == [2.0, 1.0]
    assert str(Design(workers=6, load=3, clusters=1, order=2, orders=None, hybrid=False)) == "1 cluster, order 2"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": 6.0}, "workers"),
        ({"workers": 5001}, "workers"),
        ({"load": 0}, "load"),
        ({"load": 7}, "load"),
        ({"message_cost": -1.0}, "message_cost"),
        ({"message_cost": np.inf}, "message_cost"),
        ({"max_messages": 0}, "max_messages"),
        ({"max_messages": np.nan}, "max_messages"),
        ({"max_orders": 0}, "max_orders"),
        ({"max_orders": 1.5}, "max_orders"),
        ({"seed": -1}, "seed"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_by_name(changed, named):
    chosen = {"workers": 6, "load": 3, "delay": LAW, **changed}
    with pytest.raises(ArgumentError, match=f"^{named}: "):
        optimise_multi_message(**chosen)


def test_laws_that_do_not_fit_the_workers_are_refused():
    with pytest.raises(ArgumentError, match="5 given; must be one Delay, or 6 of them"):
        optimise_multi_message(6, 3, [LAW] * 5)


def test_more_designs_than_can_be_looked_at_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_DESIGNS", optimise_multi_message(6, 3, LAW).tried - 1)
    with pytest.raises(ArgumentError, match=r"^max_orders: 4 "):
        optimise_multi_message(6, 3, LAW)


@pytest.mark.parametrize(("workers", "load"), [(6, 3), (12, 4), (24, 2)])
def test_the_thin_grid_of_the_advice_is_some_of_all_designs(workers, load):
    thin = list(multi_message_designs(workers, load, max_orders=2, grid=3))
    assert set(thin) <= set(multi_message_designs(workers, load, max_orders=4))
    fits = [clusters for clusters in range(1, workers // load + 1) if workers % clusters == 0]
    tried = sorted({design.clusters for design in thin})
    assert (tried[0], tried[-1], len(tried)) == (fits[0], fits[-1], min(3, len(fits)))
    assert {1, load} <= {design.order for design in thin}
