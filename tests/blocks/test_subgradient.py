import numpy as np
import pytest

from echelon.blocks import optimise_subgradient
from echelon.blocks.subgradient import project
from echelon.errors import ArgumentError
from tests.blocks.setting import LAW


def test_the_projection_is_the_nearest_point_of_the_simplex():
    rng = np.random.default_rng(2)
    for _ in range(50):
        point = rng.normal(size=5)
        found = project(point, 2.0)
        assert found.sum() == pytest.approx(2.0)
        assert found.min() >= 0
        # nearest iff (point - found) . (y - found) <= 0 at every corner y
        corners = 2.0 * np.eye(5)
        assert ((corners - found) @ (point - found)).max() <= 1e-12


def test_what_is_not_allowed_is_named():
    with pytest.raises(ArgumentError, match="law: "):
        optimise_subgradient(4, 10, [LAW] * 3)
    with pytest.raises(ArgumentError, match="steps: "):
        optimise_subgradient(4, 10, LAW, steps=0)
    with pytest.raises(ArgumentError, match="point: "):
        project(np.array([np.nan]))
