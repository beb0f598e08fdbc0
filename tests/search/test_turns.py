"""Chains of gradients in the advice: for several models in turn, with the rounds of all other strategies."""

import numpy as np
import pytest

from echelon.delays import Recorded
from echelon.errors import ArgumentError
from echelon.schemes import GradientChain
from echelon.search import advise
from echelon.search.handling import Sizes
from echelon.search.turns import turns
from echelon.simulation import simulate_gradients
from tests.search.clusters import cluster

WORKERS, PARTS = 8, 96


def recorded():
    """Return laws of rounds in which one worker in turn is slow, and the rest take a second and what parts take."""
    slow = np.ones((WORKERS, WORKERS)) + 8 * np.eye(WORKERS)
    return [Recorded(times=column, part=0.05) for column in slow.tolist()]


def profile(**costs):
    return cluster([1.0] * WORKERS, critical=PARTS, **costs)


def test_chains_are_tried_where_models_are_trained_in_turn():
    alone, several = (advise(profile(), laws=recorded(), models=models) for models in (1, 4))
    assert not [one for one in alone.ranked if one.strategy.job == "TurnJob"]
    found = [one for one in several.ranked if one.strategy.job == "TurnJob"]
    assert {one.name.partition(",")[0] for one in found} == {"M-SGC", "SR-SGC"}
    assert several.best_for("SumJob").name == alone.best_for("SumJob").name
    base = next(one for one in several.ranked if one.name == "uncoded, uniform")
    for one in found:
        assert isinstance(one.plan(), GradientChain)
        assert one.plan().delay < 4
        assert one.gain == pytest.approx(1 - one.iteration / base.iteration)


def test_a_chain_takes_what_its_simulation_says():
    found, refused = turns(profile(), recorded(), Sizes(), 4, 10.0, 1)
    assert refused == ()
    one = next(one for one in found if one.name == "M-SGC, 2 at once, B = 1, W = 2")
    seen = simulate_gradients(one.plan(), recorded(), gradients=WORKERS, cost=float(PARTS), seeds=3, seed=1)
    assert one.iteration == pytest.approx(seen.durations[:, :WORKERS].mean())
    # one worker is slow in each round, another one in the next, and nobody waits for it: a second, and for its parts
    assert one.iteration == pytest.approx(1 + 0.05 * one.plan().load * PARTS, rel=0.1)


def test_only_chains_that_so_many_models_keep_busy_are_tried():
    names = [[one.name for one in turns(profile(), recorded(), Sizes(), models, 1.0, 1)[0]] for models in (1, 2, 4)]
    assert names[0] == []
    assert set(names[1]) < set(names[2])
    assert all("B = 1, W = 2" in name for name in names[1])


def test_what_is_not_simulated_is_refused_in_words():
    found, refused = turns(profile(bandwidth=1e6), recorded(), Sizes(message=1e6), 4, 1.0, 1)
    assert not found
    assert {why for _, why in refused} == {"what messages and states take is not simulated for chains of gradients"}
    found, refused = turns(cluster([1.0] * WORKERS, critical=8), recorded(), Sizes(), 4, 1.0, 1)
    assert {name.partition(",")[0] for name, _ in refused} == {"M-SGC"}
    assert {why for _, why in refused} == {
        "its tasks are less than a part, and calls cost something: let parts be smaller"
    }
    with pytest.raises(ArgumentError, match="models: 2 is not allowed for linear; must be 1"):
        advise(profile(), work="linear", models=2)
    with pytest.raises(ArgumentError, match="models: 0 is not allowed"):
        advise(profile(), models=0)
