"""Successive halving: who is tried on what, who goes on, and which draws nobody has seen."""

import numpy as np
import pytest

from echelon.search.halving import Stage, halve, thinned

STAGES = (Stage(rounds=10, go_on=4), Stage(rounds=100, go_on=2), Stage(rounds=1000))


def by_size(seen):
    """Return a score of numbers by their size, which takes note of what it is asked."""

    def score(some, stage, seed):
        seen.append((list(some), stage.rounds, seed))
        return [float(number) for number in some]

    return score


def least(_, value):
    return (value,)


def test_the_better_ones_are_tried_on_more_and_every_stage_has_draws_of_its_own():
    seen = []
    found = halve([5, 3, 8, 1, 9, 2], STAGES, by_size(seen), least, seed=7)
    assert seen == [([5, 3, 8, 1, 9, 2], 10, 7), ([1, 2, 3, 5], 100, 8), ([1, 2], 1000, 9)]
    assert found.finalists == ((1, 1.0), (2, 2.0))
    assert found.fresh == 10
    assert found.latest == {number: float(number) for number in (1, 2, 3, 5, 8, 9)}


def test_a_share_goes_on_where_that_is_more():
    seen = []
    halve(range(100), (Stage(rounds=1, go_on=3, share=0.2), Stage(rounds=2)), by_size(seen), least, seed=1)
    assert len(seen[1][0]) == 20


def test_the_best_of_each_kind_go_on_besides_the_best_of_all():
    seen = []
    stages = (Stage(rounds=1, go_on=2, of_each=2), Stage(rounds=2))
    halve(range(9), stages, by_size(seen), least, seed=1, kind=lambda number: number // 4)
    assert seen[1][0] == [0, 1, 4, 5, 8]


def test_of_a_crowd_the_best_few_are_kept_and_the_others_are_in_no_stage():
    seen = []
    crowd = {1: "a", 2: "a", 3: "a", 4: "b"}.get
    found = halve(range(6), STAGES, by_size(seen), least, seed=1, crowd=crowd, few=2)
    assert seen[1][0] == [0, 1, 2, 4]
    assert set(found.latest) == {0, 1, 2, 4, 5}


def test_what_has_no_place_is_left_out_and_progress_ends_with_all():
    seen, said = [], []

    def small(_, value):
        return (value,) if value < 3 else None

    found = halve(range(9), STAGES, by_size(seen), small, seed=1, progress=lambda *some: said.append(some))
    assert [number for number, _ in found.stages[0]] == [0, 1, 2]
    assert [done for done, _ in said] == list(range(1, 15))
    assert said[0] == (1, 9 + 4 + 2)
    assert said[-1] == (14, 14)
    assert halve([5], STAGES, by_size(seen), small, seed=1).finalists == ()


def test_the_best_wins_as_often_as_it_is_not_lost_in_the_first_stage():
    """64 candidates; the best is ahead by 1.5 deviations of the first stage, by 7.5 of the second.

    It is in the best quarter of the first stage with a chance of .796, so it wins fewer than 67 of 100 searches only
    once in a thousand times.
    """
    stages = (Stage(rounds=4, go_on=16), Stage(rounds=100, go_on=4), Stage(rounds=2500))

    def noisy(some, stage, seed):
        rng = np.random.default_rng(seed)
        return [(0.0 if number == 0 else 0.75) + rng.normal() / stage.rounds**0.5 for number in some]

    won = sum(halve(range(64), stages, noisy, least, seed=10 * s).finalists[0][0] == 0 for s in range(100))
    assert won >= 67


@pytest.mark.parametrize(("count", "most"), [(9, 4), (9, 9), (3, 5), (100, 7), (2, 2), (5, None)])
def test_thinned_values_are_in_order_with_both_ends(count, most):
    values = thinned(range(count), most)
    assert values == sorted(set(values))
    assert len(values) == (count if most is None else min(count, most))
    assert (values[0], values[-1]) == (0, count - 1)
    assert max(np.diff(values), default=1) - min(np.diff(values), default=1) <= 1
