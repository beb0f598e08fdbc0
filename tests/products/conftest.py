"""Streams of products that tests share."""

import pytest

from echelon.products import MatmulStream
from tests.products.works import (
    COUNTED,
    SCHEMES,
)


@pytest.fixture(params=sorted(COUNTED), scope="module")
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def stream(kind):
    """A stream that many tests share: whatever they do, it goes on."""
    made = MatmulStream(kind, SCHEMES["DIP"])
    yield made
    made.close(wait=False)


@pytest.fixture(autouse=True)
def quiet(caplog):
    """No callback of a future may fail: that would be logged, and somebody would wait for ever."""
    yield
    assert not [record for record in caplog.records if "exception calling callback" in record.getMessage()]
