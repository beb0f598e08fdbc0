"""Rounds by what rows span, against matrix ranks of all rows that have come."""

import numpy as np
import pytest

from echelon.codes import balanced, graph
from echelon.delays import Deterministic, RoundPace, ShiftedExponential
from echelon.plan import Plan
from echelon.prediction import predict_rounds
from echelon.schemes import coded_rows, multi_message
from echelon.simulation import simulate_rounds
from echelon.simulation.spans import FirstSpan

EXAMPLE1 = multi_message(workers=6, load=3, orders=[3, 2])


def by_rank(plan, times):
    """Return when the sum first lies in the span of the rows that have come, for one slot and constant paces."""
    (code,) = plan.codes
    arrivals = sorted(
        (sum(task.cost for task in lane[: i + 1]) * time, lane[i].row)
        for lane, time in zip(plan.lanes, times, strict=True)
        for i in range(len(lane))
    )
    rows = []
    for at, row in arrivals:
        rows.append(row)
        held = code.matrix[rows]
        if np.linalg.matrix_rank(np.vstack([held, code.target]), tol=1e-8) == np.linalg.matrix_rank(held, tol=1e-8):
            return at
    raise AssertionError("never")


@pytest.mark.parametrize("seed", range(30))
def test_a_round_ends_when_the_sum_is_in_the_span_of_what_has_come(seed):
    times = np.random.default_rng(seed).uniform(0.5, 2.0, 6)
    laws = [Deterministic(time=time) for time in times]
    found = simulate_rounds(EXAMPLE1, laws, rounds=2)
    assert found.times == pytest.approx(by_rank(EXAMPLE1, times), rel=1e-12)


def test_a_slot_says_whether_fewer_rows_may_do():
    assert not EXAMPLE1.slots[0].counting
    assert multi_message(workers=6, load=3, order=2).slots[0].counting
    hybrid = multi_message(workers=10, load=10, orders=[6, 8, 10], hybrid=True).slots[0]
    assert hybrid.counting
    assert hybrid.alone == (20,)


def test_where_fewer_rows_may_do_the_prediction_is_sampled_and_below_the_counting_rule():
    law = RoundPace(base=ShiftedExponential(shift=0.01, rate=10.0))
    counted = Plan(EXAMPLE1.slots, EXAMPLE1.lanes)  # without its code nobody knows what rows span
    seen, by_span, by_count = (
        predict_rounds(EXAMPLE1, law),
        simulate_rounds(EXAMPLE1, law, rounds=20_000, seed=3),
        simulate_rounds(counted, law, rounds=20_000, seed=3),
    )
    assert seen.method == "sampled"
    assert abs(seen.mean - by_span.mean) < 4 * (seen.error / 2.576 + by_span.error)
    assert seen.mean + seen.error < by_count.mean - 3 * by_count.error


@pytest.mark.parametrize("rows", [24, 26])
def test_codes_of_few_and_of_many_rows_are_recovered_by_the_first_rows_that_span(rows):
    """Set by set or row by row, against ranks; some rows never come."""
    code = balanced(rows=rows, parts=8, load=5, rng=np.random.default_rng(1))
    draw = np.random.default_rng(2)
    earliest = draw.uniform(1.0, 2.0, (rows, 25))
    earliest[draw.random(earliest.shape) < 0.3] = np.inf
    earliest[:, -1] = np.inf
    found = FirstSpan(code).times(earliest)
    for arrived, seen in zip(earliest.T, found, strict=True):
        order = [row for row in np.argsort(arrived).tolist() if arrived[row] < np.inf]
        expected = np.inf
        for count in range(1, len(order) + 1):
            held = code.matrix[order[:count]]
            if np.linalg.matrix_rank(np.vstack([held, code.target])) == np.linalg.matrix_rank(held):
                expected = arrived[order[count - 1]]
                break
        assert seen == expected


def test_slots_of_graphs_do_not_count_even_where_the_rank_is_the_threshold():
    """K4: any four of six edges, but two that are apart are enough, too."""
    code = graph(parts=4, load=3, rng=np.random.default_rng(1))
    assert (code.threshold, np.linalg.matrix_rank(code.matrix)) == (4, 4)
    slot = coded_rows(code, [3, 3]).slots[0]
    assert (slot.counting, slot.alone, slot.threshold) == (False, (), 4)
