import numpy as np
import pytest

import echelon as ec


def test_stretches_fit_into_their_jobs_and_no_worker_does_two_things_at_once(example2):
    plan = ec.schemes.any_k(ec.split_rows(example2).counts, 50)
    seen = ec.timeline(plan, example2.with_job(arrivals=ec.Arrivals.poisson(0.05)), jobs=4, seed=2)
    assert (seen.stop > seen.start).all()
    assert (seen.start >= seen.starts[seen.job]).all()
    assert (seen.stop <= seen.departures[seen.job] + 1e-9).all()
    assert (np.diff(seen.departures) > 0).all()
    assert (seen.starts >= seen.arrivals).all()
    for p in range(5):
        mine = seen.worker == p
        order = np.argsort(seen.start[mine])
        assert (seen.start[mine][order][1:] >= seen.stop[mine][order][:-1] - 1e-9).all()
    assert set(seen.iteration) == set(range(50))


def test_the_timeline_is_the_first_jobs_of_the_simulation(example2):
    plan = ec.schemes.any_k(ec.split_rows(example2).counts, 50)
    seen = ec.timeline(plan, example2, jobs=3, seed=5)
    delays = ec.simulate(plan, example2, jobs=3, seeds=1, seed=5).delays[0]
    np.testing.assert_allclose(seen.departures - seen.arrivals, delays, rtol=1e-9)


def test_no_jobs_are_refused(example2):
    with pytest.raises(ValueError, match="jobs: 0 is not allowed"):
        ec.timeline(ec.schemes.any_k([50, 0, 0, 0, 0], 50), example2, jobs=0)
