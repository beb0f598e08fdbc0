import numpy as np
import pytest

from echelon.codes import CountTracker, Decoder, SpanTracker
from echelon.errors import ArgumentError
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.schemes import sliding_window
from echelon.schemes.coded_plan import LEAST
from echelon.splits import theorem2, uniform


def profile(critical, redundancy, workers):
    job = Workload(critical=critical, redundancy=redundancy, iterations=1, arrivals=Arrivals.poisson(0.01))
    return Profile(job, [Worker(f"w{i}", mean=m, std=s, link=c) for i, (m, s, c) in enumerate(workers)])


EXAMPLES = {
    "two": profile(9, 1.2, [(1, 0.1, 0), (3, 0.3, 0)]),
    "five": profile(20, 1.2, [(1, 0.5, 0), (2, 1, 0.1), (1, 1, 0.3), (4, 1, 0), (0.5, 0.5, 0)]),
    "a worker without rows": profile(12, 1.25, [(1, 0.5, 0), (1, 0.5, 0), (1, 0.5, 500)]),
    "no redundancy": profile(10, 1.0, [(1, 0.5, 0), (2, 0.5, 0)]),
    "one worker": profile(6, 1.5, [(1, 0.5, 0)]),
}


@pytest.mark.parametrize("rule", ["theorem2", "uniform"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_rows_are_split_with_the_cost_of_the_first_one_and_handed_out_in_order(name, rule):
    some = EXAMPLES[name]
    rows, critical = some.workload.tasks, some.workload.critical
    plan = sliding_window(some, rule)
    split = {"theorem2": theorem2, "uniform": uniform}[rule]
    counts = split(some.speeds, rows, some.workload.gamma, first=rows - critical + 1).counts
    assert plan.counts.tolist() == counts.tolist()
    assert [task.row for lane in plan.lanes for task in lane] == list(range(rows))
    assert (plan.slots[0].rows, plan.slots[0].threshold, plan.parts) == (rows, critical, rows)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_lane_of_neighbours_costs_the_losses_and_its_rows(name):
    """kappa + n - K parts, until the window has gone all round."""
    some = EXAMPLES[name]
    rows, spare = some.workload.tasks, some.workload.tasks - some.workload.critical
    for lane in sliding_window(some).lanes:
        costs = [task.cost for task in lane]
        fresh = [spare + 1.0] + [1.0] * (rows - spare - 1)
        assert costs == (fresh + [LEAST] * rows)[: len(costs)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_any_k_rows_give_the_sum_of_real_gradients_and_fewer_do_not(name):
    plan = sliding_window(EXAMPLES[name])
    code, slot = plan.codes[0], plan.slots[0]
    decoder = Decoder(code)
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(code.parts, 5))
    sent = code.encode(gradients)
    for _ in range(30):
        order = rng.permutation(code.rows).tolist()
        rows = order[: slot.threshold]
        value = decoder.decode(rows, [sent[row] for row in rows]).value[0]
        np.testing.assert_allclose(value, gradients.sum(axis=0), rtol=0, atol=1e-8)
        assert not decoder.ready(rows[:-1])
        span, count = SpanTracker(code), CountTracker(rows=slot.rows, threshold=slot.threshold)
        assert [span.add(row) for row in order] == [count.add(row) for row in order]


def test_more_rows_than_a_code_is_made_for_are_refused():
    with pytest.raises(ArgumentError, match=r"^profile: 5500 rows"):
        sliding_window(profile(5000, 1.1, [(1, 1, 0)]))


def test_rules_that_know_equal_tasks_only_are_refused():
    with pytest.raises(ArgumentError, match="rule: 'best' is not allowed"):
        sliding_window(EXAMPLES["two"], "best")
    with pytest.raises(ArgumentError, match=r"^rule: 'fair'"):
        sliding_window(EXAMPLES["two"], "fair")
