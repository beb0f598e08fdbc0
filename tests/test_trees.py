"""Results of parts as flat memory."""

import sys

import numpy as np

from echelon.trees import flatten, unflatten


def test_segments_are_let_go_as_soon_as_nobody_has_the_result():
    form, segments = flatten({"a": np.ones(3), "b": np.ones(2)})
    before = sys.getrefcount(segments[0])
    unflatten(form, segments)
    after = sys.getrefcount(segments[0])
    assert after == before
