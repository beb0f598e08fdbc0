"""What checked results cost, as advice tells it and as a stream in virtual time has it."""

import numpy as np
import pytest

import echelon as ec
from echelon.search import checks_cost

WORKERS = [ec.Worker(f"w{i}", mean=1.0, std=1.0) for i in range(6)]


def profile(critical=18, redundancy=1.5):
    job = ec.Workload(critical=critical, redundancy=redundancy, iterations=1, arrivals=ec.Arrivals.poisson(0.001))
    return ec.Profile(job, WORKERS)


def iteration(verify, redundancy):
    job = ec.LinearJob(
        matrix=np.eye(18), parts=18, state=np.ones(18), update=lambda old, new: new, iterations=400, verify=verify
    )
    with ec.Stream("virtual", emulate=profile(), profile=profile(), adapt=False, redundancy=redundancy) as stream:
        return stream.submit(job).delivery().delay / 400


def test_what_is_predicted_is_what_a_stream_takes():
    """A row more now and then comes on top, where one row does not check every other one well."""
    cost = checks_cost(profile(), "linear")
    assert (cost.needed, cost.rows) == (18, 27)
    # 400 rounds each: a relative deviation of about 0.015 of a ratio
    assert iteration("spare", 1.5) / iteration(None, 1.5) == pytest.approx(cost.spare, abs=0.05)
    assert iteration("vote", 1.0) / iteration(None, 1.0) == pytest.approx(cost.vote, abs=0.1)


@pytest.mark.parametrize(("critical", "redundancy"), [(2, 1.0), (12, 1.0), (12, 3.0)])
@pytest.mark.parametrize("work", ["gradient", "linear"])
def test_there_is_always_a_row_to_spare(work, critical, redundancy):
    cost = checks_cost(profile(critical, redundancy), work)
    assert cost.needed < cost.rows
    assert 1.0 < cost.spare < 3.0


def test_products_are_refused():
    with pytest.raises(ec.errors.ArgumentError, match="work"):
        checks_cost(profile(), "product")
