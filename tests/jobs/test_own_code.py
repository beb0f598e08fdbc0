"""Codes of one's own: the result is the plain sum, and rows are still split by the workers' speeds."""

import numpy as np
import pytest

import echelon as ec
from echelon.clusters.faults import Faults, Slowdown
from echelon.codes import Code, cyclic, fractional_repetition, mds, reed_solomon, uncoded
from echelon.errors import ArgumentError
from echelon.schemes import backups, multi_message, split_code
from echelon.splits import theorem2
from tests.stream.jobs import linear_job, linear_result, sum_job, sum_result

LIMIT_S = 60.0
JOB = ec.Workload(critical=10, redundancy=1.2, iterations=1, arrivals=ec.Arrivals.poisson(0.01))


def with_a_checksum(parts):
    """Return the parts, and twice their sum, which is enough alone."""
    matrix = np.vstack([np.eye(parts), np.full((1, parts), 2.0)])
    return Code(matrix=matrix, target=np.ones((1, parts)), threshold=parts, counting=False)


SUMS = {
    "a code": lambda: cyclic(rows=12, load=4, rng=np.random.default_rng(1)),
    "a name": lambda: "cyclic",
    "a name with arguments": lambda: "fractional_repetition:load=3",
    "a function": lambda: with_a_checksum,
    "short messages": lambda: "short_messages:pieces=2",
}


@pytest.mark.parametrize("cluster", ["threads", "virtual"])
@pytest.mark.parametrize("code", SUMS.values(), ids=SUMS)
def test_a_sum_protected_by_a_code_of_one_s_own_is_the_plain_sum(cluster, code):
    with ec.Stream(cluster, workers=3, redundancy=1.2) as stream:
        handles = [stream.submit(sum_job(seed, code=code())) for seed in (1, 2)]
        for seed, handle in zip((1, 2), handles, strict=True):
            np.testing.assert_allclose(handle.result(LIMIT_S), sum_result(seed), rtol=1e-9)


@pytest.mark.parametrize("cluster", ["threads", "virtual"])
@pytest.mark.parametrize("code", ["mds:parity=circle", lambda parts: mds(parts=parts, rows=parts + 3, rng=rng())])
def test_a_product_protected_by_a_code_of_one_s_own_is_the_plain_product(cluster, code):
    with ec.Stream(cluster, workers=3, redundancy=1.5) as stream:
        found = stream.submit(linear_job(code=code)).result(LIMIT_S)
    np.testing.assert_allclose(found, linear_result(), rtol=1e-6)


def rng():
    return np.random.default_rng(1)


def test_rows_of_a_code_are_split_by_what_they_cost_in_a_lane():
    """A cyclic code as before, by its first row; others by the mean of what rows cost, alone and one after another."""
    speeds = unequal([1.0, 2.0, 3.0]).speeds
    made = cyclic(rows=24, load=4, rng=rng())
    assert made.mean_costs == (4.0, 1.0)
    assert split_code(made, speeds).counts.tolist() == theorem2(speeds, 24, first=4.0).counts.tolist()
    groups = fractional_repetition(rows=24, load=4)
    alone = [groups.cost(row) for row in range(24)]
    after = [groups.cost(row, after=row - 1) for row in range(1, 24)]
    assert groups.mean_costs == (np.mean(alone), np.mean(after))
    assert mds(parts=3, rows=5, rng=rng()).mean_costs == uncoded(parts=1).mean_costs == (1.0, 1.0)
    same = fractional_repetition(rows=4, load=4)  # all rows are one: after the first, a lane costs next to nothing
    assert same.mean_costs == (4.0, 0.0)
    assert split_code(same, speeds).counts.sum() == 4


class Lanes(ec.Observer):
    """Notes the plan of every round."""

    def __init__(self):
        self.plans = []

    def round_over(self, seen):
        self.plans.append(seen.plan)


def unequal(means):
    return ec.Profile(JOB, [ec.Worker(f"w{p}", mean=mean, std=0.1 * mean) for p, mean in enumerate(means)])


@pytest.mark.parametrize(
    "code",
    [
        lambda: cyclic(rows=24, load=3, rng=rng()),
        lambda: fractional_repetition(rows=24, load=3),
        lambda: uncoded(parts=24),
    ],
    ids=["cyclic", "groups", "uncoded"],
)
def test_rows_of_one_s_own_code_follow_the_speeds_of_the_workers(code):
    """From an even first round to the split of the true speeds, to a row: what a fixed plan can't do."""
    made, means, lanes = code(), [1.0, 1.0, 4.0], Lanes()
    with ec.Stream("virtual", emulate=unequal(means), observers=[lanes]) as stream:
        found = stream.submit(sum_job(chunks=24, iterations=30, code=made)).result()
    np.testing.assert_allclose(found, sum_result(chunks=24, iterations=30), rtol=1e-9)
    assert all(plan.codes == (made,) for plan in lanes.plans)
    assert lanes.plans[0].counts.tolist() == [8, 8, 8]
    wanted = split_code(made, unequal(means).speeds).counts
    np.testing.assert_allclose(lanes.plans[-1].counts, wanted, atol=1)
    assert lanes.plans[-1].counts[2] <= 4


def test_a_worker_that_slows_down_loses_rows_of_one_s_own_code():
    lanes, means = Lanes(), [1.0, 1.0, 1.0]
    slow = Faults(rng(), incidents=(Slowdown(time=200.0, place=0, length=1e9, factor=5.0),))
    cluster = ec.clusters.VirtualCluster(emulate=unequal(means), faults=slow)
    with ec.Stream(cluster, profile=unequal(means), observers=[lanes]) as stream:
        found = stream.submit(sum_job(chunks=24, iterations=80, code="cyclic:load=3")).result()
    np.testing.assert_allclose(found, sum_result(chunks=24, iterations=80), rtol=1e-9)
    assert lanes.plans[0].counts.tolist() == [8, 8, 8]
    assert lanes.plans[-1].counts[0] <= 4


def test_jobs_with_one_s_own_code_keep_it_where_the_rest_runs_by_advice():
    lanes = Lanes()
    with ec.Stream("virtual", profile=unequal([1.0, 2.0, 3.0]), strategy="auto", observers=[lanes]) as stream:
        stream.submit(sum_job(code="cyclic:load=5", iterations=1)).result()
        stream.submit(sum_job(code="cyclic:load=4", iterations=1)).result()
    assert [plan.slots[0].threshold for plan in lanes.plans] == [8, 9]


def test_the_redundancy_completes_a_name_and_leaves_a_code_alone():
    assert sum_job(code="cyclic").code(1.2, rng()).threshold == 10
    assert sum_job(code="cyclic:load=2").code(1.2, rng()).threshold == 11
    assert linear_job(code="mds").code(1.5, rng()).rows == 9
    made = uncoded(parts=12)
    assert sum_job(code=made).code(1.2, rng()) is made


def test_a_journal_goes_on_with_one_s_own_code(tmp_path):
    with ec.Stream("threads", workers=2, journal=tmp_path / "jobs.db") as stream:
        stream.submit(sum_job(code="fractional_repetition:load=4"))
        stream.close(wait=False)
    with ec.Stream("threads", workers=2, journal=tmp_path / "jobs.db") as stream:
        (done,) = list(stream.deliveries())
    np.testing.assert_allclose(done.result, sum_result(), rtol=1e-9)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (3, "code: 3 is not allowed; must be a Code, a name such as"),
        ("round", "code: 'round' is not allowed; must be one of balanced, cyclic"),
        ("cyclic:lod=3", "code: 'lod' is not allowed; cyclic takes rows, load, rng"),
        ("cyclic:load=two", "code: load=two is not allowed; must be a whole number"),
        ("fractional_repetition:load=5", "load: 5 is not allowed; must divide the number of rows, 12"),
        (uncoded(parts=5), "code: 5 parts are not allowed; must be 12, as the job has"),
        (lambda parts: parts, "code: it gave int, which is not allowed; must give a Code"),
        (mds(parts=12, rows=14, rng=rng()), "code: not allowed; must give a sum of partial results"),
        (reed_solomon(np.eye(12, dtype=bool)), "code: not allowed; must give a sum of partial results"),
    ],
)
def test_what_is_no_code_of_a_sum_is_refused(code, said):
    with ec.Stream("virtual", workers=2) as stream, pytest.raises(ArgumentError, match=said):
        stream.submit(sum_job(code=code))


def test_a_code_beside_a_plan_and_one_that_hides_the_blocks_are_refused():
    plan = multi_message(workers=3, load=2, order=1)
    with pytest.raises(ArgumentError, match="code: not allowed together with a plan"):
        sum_job(chunks=3, plan=plan, code="cyclic")
    with pytest.raises(ArgumentError, match="code: not allowed together with a plan"):
        linear_job(plan=backups(workers=2, parts=6), code="mds")
    with ec.Stream("virtual", workers=2) as stream, pytest.raises(ArgumentError, match="first rows must be the blocks"):
        stream.submit(linear_job(code=lambda parts: cyclic(rows=parts, load=2, rng=rng())))
