"""Values on their way to workers, in memory of their own."""

import numpy as np
import pytest

from echelon.clusters import shipping
from tests.clusters.test_processes import descriptors, opened


def test_packed_values_are_gone_with_their_last_owner():
    before = descriptors()
    packed = [shipping.Packed(np.ones(size)) for size in (3, 5000)]
    values = [one.value for one in packed]
    assert opened(before)
    del packed
    assert [float(value.sum()) for value in values] == [3.0, 5000.0]  # what was opened stays readable
    del values
    assert not opened(before)


def test_packed_values_can_not_be_written():
    value = shipping.Packed(np.ones(5000)).value
    with pytest.raises(ValueError, match="read-only"):
        value[0] = 2.0
