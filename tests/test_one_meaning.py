"""What evaluators once answered differently, or not at all: one plan, one law, one answer."""

import numpy as np
import pytest

import echelon as ec
from echelon.delays import Deterministic, Exponential, GilbertElliott
from echelon.endings import Due
from echelon.plan import Plan, Slot, Task
from echelon.schemes import Window, diagonal_interleaved, improved_diagonal_interleaved
from echelon.search import STRATEGIES
from echelon.search.sparse import sparse
from echelon.search.strategies import BASELINE, for_linear
from echelon.stragglers import Arbitrary
from tests.search.clusters import cluster, named
from tests.simulation.in_virtual_time import every_second, run


def test_a_plan_with_an_ending_takes_as_long_as_the_master_takes():
    """The due slot is there after one second; the other would take five."""
    lanes = [[Task(slot=0, row=0)], [Task(slot=1, row=0, cost=5.0)]]
    plan = Plan([Slot(rows=1, threshold=1)] * 2, lanes, ending=Due(due=(0,)))
    assert run(plan, every_second(2), [0.0], 1).durations.tolist() == [1.0]
    law = Deterministic(time=1.0)
    assert ec.simulate_rounds(plan, law, rounds=3).times.tolist() == [1.0] * 3
    assert ec.predict_rounds(plan, law).mean == 1.0


@pytest.mark.parametrize(
    "scheme",
    [
        diagonal_interleaved(4, x=2, y=2, delay=2),
        diagonal_interleaved(4, x=3, y=4, delay=2),
        improved_diagonal_interleaved(4, Arbitrary(count=1, window=3)),
        improved_diagonal_interleaved(4, Arbitrary(count=3, window=2)),
    ],
    ids=["DIP, all done", "DIP", "IDIP", "IDIP, many stragglers"],
)
def test_plans_of_a_window_are_evaluated(scheme):
    """All but the first crashed, with an `IndexError` or a `ValueError` of NumPy's."""
    window = Window(scheme)
    for product in range(4):
        plan = window.open(product)
        longest = max(sum(task.cost for task in lane) for lane in plan.lanes)
        seen = ec.simulate_rounds(plan, Deterministic(time=1.0), rounds=3)
        assert (seen.times <= longest + 1e-12).all()
        assert ec.predict_rounds(plan, Deterministic(time=1.0)).mean == pytest.approx(seen.mean)
        assert seen.mean == pytest.approx(run(plan, every_second(4), [0.0], 1).durations[0])
        window.close([(task.slot, task.row) for lane in plan.lanes for task in lane], plan.ending.due)


def test_a_task_of_several_parts_takes_the_sum_of_their_times_everywhere():
    """Fractional repetition in groups of 3, six exponential workers, 48 parts; at 99.9 % for what is sampled."""
    name = "fractional repetition, groups of 3"
    profile = cluster([0.1] * 6, std=1.0, critical=48)
    plan = next(strategy.plan() for strategy in sparse(profile, []) if strategy.name == name)
    law = Exponential(rate=10.0)
    exact = ec.predict_rounds(plan, law)
    assert exact.method == "exact"
    by_hand = np.random.default_rng(1).gamma(24, 0.1, (200_000, 2, 3)).min(axis=2).max(axis=1)
    assert abs(exact.mean - by_hand.mean()) < 3.3 * by_hand.std() / len(by_hand) ** 0.5
    seen = ec.simulate_rounds(plan, law, rounds=20_000)
    assert abs(seen.mean - exact.mean) < 3.3 * seen.error
    advised = named(ec.advise(profile))[name]
    assert advised.iteration == pytest.approx(exact.mean, abs=1.3 * advised.error + 1e-6)


def test_gradient_codes_are_priced_by_the_sum_of_their_parts():
    """Six exponential workers, 48 parts: one draw, scaled, made rows of 8 parts 40 % too expensive; at 99.9 %."""
    advice, draw = named(ec.advise(cluster([0.1] * 6, std=1.0, critical=48))), np.random.default_rng(1)
    for parts in (2, 8):
        one = advice[f"gradient code, {parts} parts a row"]
        plan = one.plan()
        arrivals = [
            draw.gamma([task.cost for task in lane], 0.1, (20_000, len(lane))).cumsum(axis=1) for lane in plan.lanes
        ]
        by_hand = np.sort(np.concatenate(arrivals, axis=1), axis=1)[:, plan.slots[0].threshold - 1]
        assert abs(one.iteration - by_hand.mean()) < 1.3 * one.error + 3.3 * by_hand.std() / len(by_hand) ** 0.5


def mds_or_equal_shares(profile, laws, coordinates):
    """Yield two strategies, so that both are simulated."""
    yield from (one for one in for_linear(profile, laws, coordinates) if one.name in (BASELINE, "MDS, 96 rows"))


@pytest.mark.parametrize("burst", [100, 500])
def test_advice_knows_that_bursts_outlast_a_job(burst, monkeypatch):
    """Six Gilbert-Elliott workers, "MDS, 96 rows", a job every 20 s: the delay is that of `predict_jobs`."""
    monkeypatch.setitem(STRATEGIES, "linear", mds_or_equal_shares)
    monkeypatch.setattr("echelon.job_delay._STREAM_SEEDS", 4)  # the same streams for both, so few will do
    monkeypatch.setattr("echelon.prediction.SAMPLED_ROUNDS", 20_000)
    law = GilbertElliott(base=Exponential(rate=8.0), enter=0.25 / burst, leave=1 / burst, slowdown=3.0)
    workload = ec.Workload(critical=80, redundancy=1.2, iterations=4, arrivals=ec.Arrivals.poisson(1 / 20))
    profile = ec.Profile(workload, [ec.Worker(f"w{i}", mean=law.mean, std=law.std) for i in range(6)])
    one = named(ec.advise(profile, work="linear", laws=law))["MDS, 96 rows"]
    expected = ec.predict_jobs(one.plan(), profile, laws=law)
    assert one.delay_method == expected.delay_method == "sampled"
    assert one.delay == pytest.approx(expected.delay, rel=1e-9)  # the same streams
