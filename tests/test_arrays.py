"""Whose memory an array lies in."""

import numpy as np

from echelon.arrays import private


def test_an_array_that_nobody_holds_but_its_flat_view_is_private():
    segments = [np.ones((2, 3)).ravel(), np.ones((2, 3))[0].ravel(), np.ones(6)[::2].ravel(), np.ones(3)]
    assert [private(segment) for segment in segments] == [True] * 4


def test_an_array_that_somebody_else_holds_is_not():
    held = np.ones((2, 3))
    row = held[0]
    for segment in (held.ravel(), row.ravel(), held[1].ravel()):
        assert not private(segment)
    del held
    assert not private(row.reshape(-1))  # the row itself still leads there


def test_the_same_segment_may_be_held_by_many():
    segment = np.ones((2, 3)).ravel()
    kept = [segment, segment]
    assert all(private(one) for one in kept)


def test_memory_that_no_plain_array_owns_is_not(tmp_path):
    np.save(tmp_path / "ones.npy", np.ones(3))
    assert not private(np.frombuffer(bytearray(24)).ravel())
    assert not private(np.asarray(np.load(tmp_path / "ones.npy", mmap_mode="r")).ravel())
