"""Linear algebra on one thread: threads of threads wait for one another, the more the busier a machine is."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="package", autouse=True)
def _one_thread():
    with threadpool_limits(1):
        yield
