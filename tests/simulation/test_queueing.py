import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from echelon.simulation.simulated_jobs import departures

pairs = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=30)


@given(jobs=pairs)
def test_departures_agree_with_serving_one_job_after_another(jobs):
    arrivals = np.cumsum([gap for gap, _ in jobs])
    services = np.array([service for _, service in jobs])
    free, expected = 0.0, []
    for arrival, service in zip(arrivals, services, strict=True):
        free = max(free, arrival) + service
        expected.append(free)
    both = departures(np.stack([arrivals, arrivals]), np.stack([services, services]))
    np.testing.assert_allclose(both, [expected, expected], rtol=1e-12, atol=1e-9)
