"""Trackers whose copies go their own way; when enough is enough is checked against ranks with the codes."""

import numpy as np
import pytest

from echelon.codes import Code, CountTracker, PairTracker, SpanTracker, fractional_repetition, mds, tracker


def halved(code):
    """Return the code with rows of half the size, so that they are plain sums no more."""
    return Code(matrix=code.matrix / 2, target=code.target, threshold=code.threshold, counting=False)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (mds(parts=3, rows=5, rng=np.random.default_rng(1)), CountTracker),
        (fractional_repetition(rows=6, load=2), PairTracker),
        (halved(fractional_repetition(rows=6, load=2)), SpanTracker),
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
