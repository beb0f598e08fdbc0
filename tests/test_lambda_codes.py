"""Codes on the recorded Lambda workers: the times that a plain computation on the table gives, by the evaluators."""

import numpy as np
import pytest

from bench import lambda_codes
from bench.lambda_codes import ROUNDS, WORKERS, best_cyclic, in_virtual_time, median, sampled, table, tried

# seconds of 30 rounds
EXPECTED = {
    "uncoded": 48.24,
    "cyclic, any 221 rows": 27.54,
    "fractional repetition, 4 copies, groups apart": 22.64,
    "fractional repetition, 8 copies, groups apart": 20.54,
}
EXACT = 0.005


@pytest.mark.parametrize("name", EXPECTED)
def test_codes_take_what_the_table_says(name):
    one = tried()[name]
    assert sampled(one.plan(), one.parts) == pytest.approx(EXPECTED[name], rel=EXACT)


def test_the_best_cyclic_code_may_miss_35_rows():
    assert best_cyclic() == 36
    assert median() == pytest.approx(19.68, rel=EXACT)


def test_graphs_with_eight_copies_are_near_the_median_worker():
    one = tried()["graph, 8 copies"]
    assert sampled(one.plan(), one.parts) <= 20.8
    assert sampled(one.plan(), one.parts) >= median()


@pytest.mark.parametrize("name", lambda_codes.VIRTUAL[:2])
def test_the_master_takes_as_long_in_virtual_time(name):
    one = tried()[name]
    assert in_virtual_time(one) == pytest.approx(sampled(one.plan(), one.parts), rel=1e-4)


def test_repetition_by_hand():
    """The first of each group in each round, the last of these, over all rounds; no evaluator."""
    times = table().at(0) + table().slope * 8 / WORKERS
    groups = times.reshape(ROUNDS, 8, WORKERS // 8)
    by_hand = float(groups.min(axis=1).max(axis=1).sum())
    one = tried()["fractional repetition, 8 copies, groups apart"]
    assert sampled(one.plan(), one.parts) == pytest.approx(by_hand, rel=1e-9)
    assert np.isclose(by_hand, 20.54, rtol=EXACT)
