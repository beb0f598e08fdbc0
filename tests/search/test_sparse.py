"""Sparse placements in the advice: what there is for some workers, and what wins on recorded rounds."""

import numpy as np
import pytest

from echelon.delays import Exponential, Recorded
from echelon.files import read_profile
from echelon.search import advise
from echelon.search.sparse import sparse
from tests.conftest import ROOT
from tests.search.clusters import cluster

SPARSE = ("fractional repetition", "graph", "balanced")


def names(workers, parts, law=None):
    laws = [Exponential(rate=1.0) if law is None else law] * workers
    return [one.name for one in sparse(cluster([1.0] * workers, critical=parts), laws)]


def test_there_are_placements_for_any_number_of_workers_and_parts():
    assert names(1, 10) == []
    assert names(6, 3) == [f"balanced, {copies} copies of 3 chunks" for copies in (3, 4)]
    assert "fractional repetition, groups of 3, apart" in names(12, 12)
    assert "fractional repetition, groups of 8" not in names(12, 12)
    # where rounds do not come again, what any set of many rows spans would take too long
    assert not [name for name in names(32, 32) if name.startswith("balanced")]
    assert "balanced, 8 copies of 8 chunks" in names(32, 32, Recorded(times=[1.0, 2.0]))


@pytest.fixture(scope="module")
def advice():
    return advise(read_profile(ROOT / "examples" / "lambda" / "cnn.toml"))


def test_a_sparse_placement_is_named_on_recorded_workers(advice):
    """Of 256 workers, within 2 % of the best of all that is known; and better than anything with more copies."""
    best = min(outcome.iteration for outcome in advice.ranked)
    assert advice.best.name.startswith(SPARSE)
    assert advice.best.iteration <= 1.02 * best
    assert advice.coding_pays
    assert advice.refused == ()


def test_on_recorded_rounds_the_advice_is_what_the_table_says(advice):
    """Eight copies apart, by hand: the first of each group, the last of these, and the mean of all rounds."""
    found = {outcome.name: outcome for outcome in advice.ranked}["fractional repetition, groups of 8, apart"]
    workers = read_profile(ROOT / "examples" / "lambda" / "cnn.toml").workers
    times = np.array([worker.parameters["times"] for worker in workers]).T
    by_hand = (times.reshape(30, 8, 32).min(axis=1).max(axis=1) + 8 * workers[0].parameters["part"]).mean()
    assert (found.iteration, found.error, found.method) == (pytest.approx(by_hand), 0.0, "exact")
    assert 30 * by_hand == pytest.approx(20.540, abs=1e-3)
