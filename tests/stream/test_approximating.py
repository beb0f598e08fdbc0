"""Streams whose rounds end by policies: what jobs are given, and what is said of it.

The parts are the unit vectors, so that a round's sum is the weights alpha of its parts.
"""

import json
from functools import partial

import numpy as np
import pytest

import echelon as ec
from echelon import schemes
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Crash, Faults
from echelon.clusters.pace import Pace
from echelon.delays import Exponential
from echelon.endings import Deadline, Exact, Quorum, Residual
from echelon.errors import ArgumentError
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.seeds import place_generator
from echelon.stream import Journal, read_record

WORKERS, PARTS, ROUNDS = 6, 12, 40
JOB = Workload(critical=PARTS, redundancy=1.0, iterations=ROUNDS, arrivals=Arrivals.poisson(0.01))
VARIED = Profile(JOB, [Worker(f"w{p}", mean=0.5 + (p == 5), std=0.4) for p in range(WORKERS)])
FAST = Profile(JOB, [Worker(f"w{p}", mean=0.01 + 0.02 * (p == 5), std=0.008) for p in range(WORKERS)])
POLICIES = [
    Residual(0.4),
    Deadline(1.5),
    Quorum(0.8, grace=0.2),
    Quorum(0.6, grace="auto"),
    Deadline("auto"),
    Deadline(1.0) & Quorum(0.9),
    Residual(0.3) | Deadline(1.5),
]
PLANS = {
    "by default": {},
    "groups": {"plan": schemes.fractional_repetition(workers=WORKERS, load=2)},
    "orders": {"plan": schemes.multi_message(workers=WORKERS, load=3, orders=[3, 2])},
    "cyclic": {"plan": schemes.gradient_coding(workers=WORKERS, load=3)},
    "a graph": {"code": "graph:parts=12,load=2"},
    "stochastic": {"code": "stochastic:load=3,missing=0.2"},
    "by rounds": {"plan": schemes.multi_message(workers=WORKERS, load=2, clusters=2, order=1), "regroup": 2},
}


def part(state, chunk):
    return chunk


def note(state, total):
    return np.vstack([state, total])


def job(ending=None, *, parts=PARTS, rounds=ROUNDS, **settings):
    """Return a job whose result is the weights of all its rounds, after a first line of zeros."""
    parts = settings["plan"].parts if "plan" in settings else parts
    return ec.SumJob(
        partial=part, update=note, state=np.zeros((1, parts)), chunks=list(np.eye(parts)), iterations=rounds,
        ending=ending, **settings,
    )  # fmt: skip


def away(alpha):
    """Return |alpha - 1| / |1| of each round."""
    return np.linalg.norm(alpha - 1, axis=-1) / np.sqrt(alpha.shape[-1])


def faulty(seed):
    """Return a virtual cluster in which some workers die, and messages are lost, late and repeated."""
    rng = np.random.default_rng(seed)
    incidents = [Crash(float(time), int(rng.integers(WORKERS)), 0.2, 1.0) for time in rng.uniform(0, 40, 6)]
    paces = [Pace(Exponential(rate=2.0), 0.01, place_generator(seed, place)) for place in range(WORKERS)]
    return VirtualCluster(
        paces=paces, faults=Faults(rng, lose=0.05, repeat=0.1, delay=0.2, incidents=tuple(incidents))
    )  # fmt: skip


@pytest.mark.parametrize("plan", PLANS)
def test_what_is_told_of_every_sum_is_true_under_faults(plan, tmp_path):
    """The residual, in deliveries and records, is that of the weights that came; no round has nothing."""
    largest = []
    for seed, policy in enumerate(POLICIES):
        path = tmp_path / "record"
        with ec.Stream(faulty(seed), record=path, redundancy=None, patience_s=5.0) as stream:
            done = stream.submit(job(policy, **PLANS[plan])).delivery()
        assert done.error is None
        residuals = away(done.result[1:])
        told = [seen.residual for seen in read_record(path).rounds]
        np.testing.assert_allclose(told, residuals, atol=1e-9)
        assert done.residual == pytest.approx(residuals.max(), abs=1e-9)
        assert residuals.max() < 1, "a round with nothing"
        largest.append(residuals.max())
    assert sum(residual > 0 for residual in largest) >= 4


def test_policies_keep_their_promises_and_take_less_time():
    took = {}
    for policy in (None, Residual(0.4), Quorum(0.8), Deadline(1.5) & Quorum(0.9)):
        with ec.Stream("virtual", emulate=VARIED, seed=1) as stream:
            done = stream.submit(job(policy)).delivery()
        took[policy] = done.delay
        share = 1 - away(done.result[1:]) ** 2
        least = {Residual(0.4): 1 - 0.4**2, Quorum(0.8): 0.8}.get(policy, 0.9)
        assert share.min() >= least - 1e-9
    assert all(took[policy] < took[None] for policy in took if policy is not None)


def test_exact_jobs_have_no_residual_and_leave_nobody_out():
    for policy in (None, Exact()):
        with ec.Stream(faulty(3)) as stream:
            done = stream.submit(job(policy)).delivery()
        assert done.residual == 0.0
        assert done.left_out == {}
        np.testing.assert_array_equal(done.result[1:], np.ones((ROUNDS, PARTS)))


def test_who_was_left_out_and_how_often_is_told():
    """The last of six workers is ten times slower than the profile says, and every round ends without it."""
    slow = Profile(JOB, [Worker(f"w{p}", mean=1.0 + 9 * (p == 5), std=0.0) for p in range(WORKERS)])
    plan = schemes.quorum(workers=WORKERS, load=1, share=0.5, grace=1.0)
    with ec.Stream("virtual", emulate=slow) as stream:
        done = stream.submit(job(plan=plan, rounds=7)).delivery()
    assert done.left_out == {5: 7}
    assert done.residual == pytest.approx(np.sqrt(1 / 6))


def test_unbiased_sums_are_as_large_as_exact_ones():
    for settings in PLANS.values():
        with ec.Stream("virtual", emulate=VARIED, seed=2) as stream:
            done = stream.submit(job(Deadline(0.6), unbiased=True, **settings)).delivery()
        alpha = done.result[1:]
        np.testing.assert_allclose(alpha.sum(axis=1), alpha.shape[1])
        assert done.residual == pytest.approx(away(alpha).max())


def test_a_deadline_that_is_learnt_is_not_much_worse_than_the_best_one():
    """By the share that came per second, against deadlines tried one by one on the same workers; 300 rounds."""
    bursts = Profile(JOB, [Worker(f"w{p}", mean=0.5, std=0.8) for p in range(WORKERS)])

    def rate(policy):
        with ec.Stream("virtual", emulate=bursts, seed=3, redundancy=1.0) as stream:
            done = stream.submit(job(policy, rounds=300)).delivery()
        share = 1 - away(done.result[1:]) ** 2
        return share.mean() / done.delay * 300, share.mean()

    learnt, there = rate(Deadline("auto"))
    tried = [rate(Deadline(seconds)) for seconds in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)]
    assert there >= 0.88
    assert learnt >= 0.93 * max(found for found, share in tried if share >= 0.9)


def test_the_first_rounds_and_one_now_and_then_are_exact_while_times_are_learnt():
    with ec.Stream("virtual", emulate=VARIED, seed=4) as stream:
        done = stream.submit(job(Quorum(0.5, grace="auto"), rounds=60)).delivery()
    exact = np.flatnonzero(away(done.result[1:]) == 0) + 1
    assert {1, 2, 3, 4, 5, 20, 40, 60} <= set(exact.tolist())
    assert len(exact) < 60


@pytest.mark.parametrize("cluster", ["threads", "processes"])
def test_live_rounds_end_by_policies_and_say_so(cluster, tmp_path):
    path = tmp_path / "record"
    with ec.Stream(cluster, emulate=FAST, record=path) as stream:
        done = stream.submit(job(Residual(0.4), rounds=20)).delivery()
        kept = stream.submit(job(rounds=5)).delivery()
    residuals = away(done.result[1:])
    np.testing.assert_allclose([seen.residual for seen in read_record(path).rounds][:20], residuals, atol=1e-9)
    assert residuals.max() <= 0.4 + 1e-9
    assert kept.residual == 0.0
    rounds = [json.loads(line) for line in path.read_text().splitlines() if '"round"' in line]
    assert all(("residual" in entry) == (entry.get("residual", 0) > 0) for entry in rounds)


def test_the_residual_of_a_job_outlives_the_program(tmp_path):
    """The first stream is closed in the middle of the job; the second goes on, exactly, and tells what was."""
    path = tmp_path / "journal"
    stream = ec.Stream("virtual", emulate=VARIED, seed=5, journal=path)
    handle = stream.submit(job(Residual(0.6)))
    stream.sleep(10.0)
    seen = handle.iteration
    stream.close(wait=False)
    assert 0 < seen < ROUNDS
    journal = Journal(path)
    (entry,) = journal.undelivered()
    alpha = journal.load(entry.number)[1][1:]
    journal.close()
    assert entry.residual == pytest.approx(away(alpha).max())
    assert entry.residual > 0
    with ec.Stream("virtual", emulate=VARIED, seed=6, journal=path) as stream:
        (done,) = stream.deliveries()
    assert done.residual == pytest.approx(away(done.result[1:]).max())
    with ec.Stream("virtual", emulate=VARIED, journal=path) as stream:
        assert stream.resumed == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (partial(job, 0.9), "ending: 0.9 is not allowed"),
        (partial(job, unbiased=True), "unbiased: not allowed without an ending"),
        (partial(job, Quorum(least=2) & Deadline(1.0)), "ending: least: 2 is not allowed; must be at most 1"),
        (partial(job, Deadline(1.0), verify="vote"), "ending: not allowed with verify='vote'"),
        (
            partial(job, Deadline(1.0), plan=schemes.quorum(workers=6)),
            "ending: not allowed with a plan that has one",
        ),
    ],
)
def test_jobs_that_can_t_end_so_are_refused(make, said):
    with pytest.raises(ArgumentError, match=said):
        make()


def test_a_stream_that_checks_results_refuses_jobs_that_may_end_before():
    with ec.Stream("virtual", workers=4, verify="vote") as stream, pytest.raises(ArgumentError, match="verify: 'vote'"):
        stream.submit(job(Deadline(1.0)))


def test_short_messages_are_refused():
    made = job(Deadline(1.0), code="short_messages:pieces=2")
    with ec.Stream("virtual", workers=WORKERS, redundancy=1.5) as stream, pytest.raises(ArgumentError, match="short"):
        stream.submit(made)
