"""Trackers whose copies go their own way; when enough is enough is checked against ranks with the codes."""

import numpy as np
import pytest

from echelon.codes import CountTracker, SpanTracker, fractional_repetition, mds, tracker


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (mds(parts=3, rows=5, rng=np.random.default_rng(1)), CountTracker),
        (fractional_repetition(rows=6, load=2), SpanTracker),
    ],
)
def test_a_copy_knows_what_came_before_it_and_goes_its_own_way(code, kind):
    first = tracker(code)
    assert isinstance(first, kind)
    first.add(4)
    other = first.copy()
    assert other.received == [4]
    assert [other.add(row) for row in (0, 2)] == [False, True]
    assert first.received == [4]
    assert [first.add(row) for row in (1, 3)] == [False, True]
    assert other.received == [4, 0, 2]
