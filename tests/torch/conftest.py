"""Streams that the tests of a module share."""

import pytest

import echelon as ec


@pytest.fixture(scope="module")
def stream():
    with ec.Stream("threads", workers=4, redundancy=1.4) as one:
        yield one


@pytest.fixture(scope="module")
def plain_stream():
    with ec.Stream("threads", workers=3, redundancy=1.0) as one:
        yield one


@pytest.fixture(scope="module")
def processes():
    with ec.Stream("processes", workers=3, redundancy=1.5) as one:
        yield one
