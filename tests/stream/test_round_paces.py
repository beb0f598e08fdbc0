"""The pace of rounds, on tasks whose paces are known."""

import numpy as np
import pytest

from echelon.stream.round_paces import longer, round_paces


def tasks(paces, shape, count, rng, *, until=np.inf):
    """Return tasks of one part in rounds of these paces, the last of each cut short at a time after its beginning."""
    at, seconds, finished = [], [], []
    for number, pace in enumerate(paces):
        now = 0.0
        for took in pace * rng.gamma(shape, 1 / shape, count):
            at.append(number)
            finished.append(now + took <= until)
            seconds.append(min(took, until - now))
            now += took
            if not finished[-1]:
                break
    return np.array(at), np.ones(len(at)), np.array(seconds), np.array(finished)


def test_rounds_that_have_one_pace_get_just_that():
    paces = np.array([1.0, 4.0, 2.0] * 10)
    at = np.repeat(np.arange(30), 3)
    found = round_paces(at, np.ones(90), paces[at], np.ones(90, dtype=bool), 30, np.random.default_rng(1))
    assert found == pytest.approx(paces)


def test_rounds_of_one_task_have_its_pace():
    seconds = np.array([3.0, 6.0, 1.5])
    found = round_paces(np.arange(3), np.full(3, 3.0), seconds, np.ones(3, dtype=bool), 3, np.random.default_rng(1))
    assert found.tolist() == [1.0, 2.0, 0.5]


def test_rounds_that_do_not_differ_get_one_pace():
    rng = np.random.default_rng(2)
    found = round_paces(*tasks(np.full(400, 2.0), 1.0, 4, rng), 400, rng)
    assert len(set(found.tolist())) == 1


@pytest.mark.parametrize("until", [np.inf, 16.0])
def test_slow_rounds_are_told_also_where_their_tasks_were_cut_short(until):
    """Of rounds of pace 8 and of pace 1, five gamma tasks each: those of each kind get the right mean to 10 %."""
    rng = np.random.default_rng(3)
    paces = np.where(rng.random(800) < 0.2, 8.0, 1.0)
    found = round_paces(*tasks(paces, 4.0, 5, rng, until=until), 800, rng)
    # the law within a round may be off by a factor that is the same for all
    ratio = found[paces == 8].mean() / found[paces == 1].mean()
    assert ratio == pytest.approx(8.0, rel=0.1)


def test_a_round_of_one_pace_that_was_cut_short_is_drawn_beyond_what_was_seen():
    at, seconds = np.array([0, 1, 2, 3]), np.array([1.0, 2.0, 5.0, 1.5])
    finished = np.array([True, True, True, False])
    for seed in range(20):
        found = round_paces(at, np.ones(4), seconds, finished, 4, np.random.default_rng(seed))
        assert found[:3].tolist() == [1.0, 2.0, 5.0]
        assert found[3] in (2.0, 5.0)


def test_draws_beyond_a_bound_have_the_law_given_that():
    values, masses = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.4, 0.3, 0.2, 0.1])
    drawn = longer(values, masses, np.full(30_000, 1.0), np.random.default_rng(1))
    shares = [float((drawn == value).mean()) for value in (2.0, 3.0, 4.0)]
    for share, expected in zip(shares, (1 / 2, 1 / 3, 1 / 6), strict=True):
        assert abs(share - expected) < 3.29 * (expected * (1 - expected) / 30_000) ** 0.5  # 99.9 %
    assert sum(shares) == pytest.approx(1.0)
