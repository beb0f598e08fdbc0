"""Scores of workers' paces, also where workers were away for some rounds."""

import numpy as np
import pytest

from echelon.stream.scores import of_others, scores


@pytest.mark.parametrize("away", [0.0, 0.3])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 8])
def test_the_median_of_others_leaves_one_out(workers, away):
    rng = np.random.default_rng(workers)
    values = rng.integers(0, 6, (40, workers)).astype(float)  # with ties
    values[rng.random(values.shape) < away] = np.nan
    found = of_others(values)
    for row, told in zip(values, found, strict=True):
        for worker in np.flatnonzero(~np.isnan(row)):
            others = np.delete(row, worker)
            others = others[~np.isnan(others)]
            assert told[worker] == (np.median(others) if len(others) else 1.0)


def test_a_worker_that_was_away_is_scored_by_the_rounds_that_it_was_there():
    paces = np.random.default_rng(1).normal(1.0, 0.03, (300, 4))
    paces[:, 1] *= 1.5
    paces[100:, 3] = np.nan
    found = scores(paces)
    assert [one.kind for one in found] == ["on time", "chronic", "on time", "on time"]
    assert found[1].score == pytest.approx(1.5, rel=0.02)
    assert found[3].usual_s == np.median(paces[:100, 3])


def test_a_worker_that_hesitates_in_one_round_of_ten_is_late_at_times():
    paces = np.ones((300, 4))
    paces[::10, 2] = 3.0
    paces[5, 0] = 3.0
    assert [one.kind for one in scores(paces)] == ["once", "on time", "at times", "on time"]
    assert [one.hiccups for one in scores(paces)] == [1, 0, 30, 0]


def test_nothing_is_said_of_workers_that_did_nothing():
    assert scores(np.full((3, 2), np.nan)) == [None, None]
