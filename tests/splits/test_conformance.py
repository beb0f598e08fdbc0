"""Every split rule in the registry keeps the sum and stays close to its real-valued self."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.profile import Speeds
from echelon.splits import SPLITS, largest_remainder

numbers = st.floats(1e-6, 1e6)


@st.composite
def clusters(draw):
    count = draw(st.integers(1, 12))
    column = st.lists(numbers, min_size=count, max_size=count)
    zeros = st.lists(st.sampled_from([0.0, 1e-3, 1.0, 50.0]), min_size=count, max_size=count)
    return Speeds(np.array(draw(column)), np.array(draw(zeros)), np.array(draw(zeros)))


@pytest.mark.parametrize("rule", sorted(SPLITS))
@given(speeds=clusters(), tasks=st.integers(1, 2000), gamma=st.sampled_from([0.0, 1e-9, 0.5, 1.0, 100.0]))
def test_rows_are_whole_sum_up_and_stay_within_one_of_the_real_split(rule, speeds, tasks, gamma):
    split = SPLITS[rule](speeds, tasks, gamma)
    assert split.counts.dtype == np.int64
    assert (split.counts >= 0).all()
    assert split.tasks == tasks
    assert split.active == np.count_nonzero(split.counts)
    assert split.real.sum() == pytest.approx(tasks)
    assert (np.abs(split.counts - split.real) < 1 + 1e-9 * tasks).all()


@pytest.mark.parametrize("rule", sorted(SPLITS))
def test_no_tasks_and_negative_gamma_are_refused(rule):
    speeds = Speeds(np.ones(2), np.ones(2), np.zeros(2))
    with pytest.raises(ValueError, match="tasks: 0 is not allowed"):
        SPLITS[rule](speeds, 0, 1.0)
    with pytest.raises(ValueError, match="gamma: -1 is not allowed"):
        SPLITS[rule](speeds, 1, -1)


@given(
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=30).filter(lambda s: sum(s) > 0), total=st.integers(1, 500)
)
def test_largest_remainder_keeps_any_sum(shares, total):
    real = np.array(shares) / np.sum(shares) * total
    counts = largest_remainder(real, total)
    assert counts.sum() == total
    assert (np.abs(counts - real) < 1 + 1e-9 * total).all()


def test_speeds_that_are_no_speeds_are_refused():
    with pytest.raises(ValueError, match=r"mean: .* is not allowed; must be finite and > 0"):
        Speeds(np.array([0.0]), np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="link: shape"):
        Speeds(np.ones(2), np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match=r"std: .* is not allowed"):
        Speeds(np.ones(1), np.array([np.nan]), np.ones(1))
