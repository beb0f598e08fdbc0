"""Shared by all tests: examples are drawn the same way every time, so that a failure is never luck."""

from pathlib import Path

import pytest
from hypothesis import settings

import echelon as ec

settings.register_profile("echelon", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("echelon")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def example2() -> ec.Profile:
    return ec.read_profile(ROOT / "examples" / "example2.toml")
