"""Workers that hang: how soon rounds go on without them, who is killed, and what ends a part that never returns."""

import logging
import math

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Crash, Endless, Faults, Hang, Slowdown
from echelon.clusters.pace import Pace
from echelon.delays import Deterministic, Exponential
from echelon.errors import ClusterError
from echelon.seeds import place_generator
from echelon.stream.liveness import LEAST_S
from tests.stream.jobs import sum_job, sum_result

WORKERS = 6


class Rounds(ec.Observer):
    """When rounds began and how long they took, who was given something in each, and what was sent and thrown away."""

    def __init__(self):
        self.starts, self.seconds, self.workers, self.lost, self.again = [], [], [], [], []

    def opened(self, seen):
        self.starts.append(seen.start)
        self.workers.append({owner for owner, lane in zip(seen.workers, seen.lanes(), strict=True) if lane})

    def received(self, arrival):
        if arrival.use == "again":
            self.again.append(arrival.round)

    def stepped(self, running, seen, finished):
        self.seconds.append(seen.end - seen.start)

    def worker_down(self, time_s, worker, place, reason):
        self.lost.append((time_s, worker, reason))


def cluster(*incidents, laws=None, workers=WORKERS):
    laws = [Deterministic(time=1.0)] * workers if laws is None else laws
    paces = [Pace(law, 0.0, place_generator(1, place)) for place, law in enumerate(laws)]
    return VirtualCluster(paces=paces, faults=Faults(np.random.default_rng(1), incidents=incidents))


def run(job, *incidents, laws=None, workers=WORKERS, **options):
    """Run a job on workers to which something happens; return its result and what its rounds were like."""
    seen = Rounds()
    options = {"redundancy": 1.0, "split": "uniform"} | options
    with ec.Stream(cluster(*incidents, laws=laws, workers=workers), observers=[seen], **options) as stream:
        return stream.submit(job).result(), seen


@pytest.mark.parametrize("chunks", [WORKERS, 4 * WORKERS], ids=["one task each", "four tasks each"])
@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "in a part that never returns"])
def test_rounds_go_on_within_two_part_times_of_a_hang(stopped, chunks):
    """One of six hangs in round 5; a part takes a second, and a lane `normal` seconds."""
    normal = chunks // WORKERS
    hang = Hang(4 * normal + 0.5, 2, math.inf, stopped)
    found, seen = run(sum_job(chunks=chunks, iterations=12), hang)
    np.testing.assert_allclose(found, sum_result(chunks=chunks, iterations=12))
    assert seen.seconds[:4] == [normal] * 4
    assert max(seen.seconds[4:]) <= normal + 2.0
    if stopped:  # killed within seconds, and succeeded
        assert seen.seconds[-3:] == [normal] * 3
        assert [worker for _, worker, _ in seen.lost] == [2]
    else:  # the others do what is to be done
        assert seen.lost == []
        assert all(2 not in workers for workers in seen.workers[6:])


def test_a_worker_that_hangs_in_the_very_first_round_holds_it_up_as_little():
    """Nothing is known then but what the others take."""
    found, seen = run(sum_job(chunks=WORKERS), Hang(0.5, 2, math.inf))
    np.testing.assert_allclose(found, sum_result(chunks=WORKERS))
    assert seen.seconds[0] <= 3.0


@pytest.mark.parametrize("speeds", [[1.0] * 6, [1.0, 2.0, 3.0, 1.0, 5.0, 0.5]], ids=["equal", "unequal"])
@pytest.mark.parametrize("split", ["uniform", "theorem2"])
def test_nothing_is_computed_twice_on_steady_workers(speeds, split):
    laws = [Deterministic(time=time) for time in speeds]
    found, seen = run(sum_job(chunks=18, iterations=20), laws=laws, split=split)
    patient, other = run(sum_job(chunks=18, iterations=20), laws=laws, split=split, patience_s=1e9)
    np.testing.assert_allclose(found, patient)
    # at first, when nothing is known, a slow worker may be helped
    assert all(mine <= its for mine, its in zip(seen.seconds, other.seconds, strict=True))
    assert all(round <= 3 for round in seen.again)


def test_workers_that_vary_are_helped_now_and_then_and_rounds_get_no_longer():
    laws = [Exponential(rate=1.0)] * WORKERS
    found, seen = run(sum_job(chunks=WORKERS, iterations=300), laws=laws)
    patient, other = run(sum_job(chunks=WORKERS, iterations=300), laws=laws, patience_s=1e9)
    np.testing.assert_allclose(found, patient)
    assert np.mean(seen.seconds) < np.mean(other.seconds)
    assert len(seen.again) < 0.1 * 300


def test_a_worker_that_stops_for_a_moment_is_not_killed():
    _, seen = run(sum_job(iterations=20), *(Hang(3.0 * i, i % WORKERS, 0.9) for i in range(1, 8)))
    assert seen.lost == []


def test_a_stopped_worker_is_killed_after_two_looks_and_the_log_says_so_in_one_line(caplog):
    caplog.set_level(logging.INFO, logger="echelon")
    _, seen = run(sum_job(chunks=WORKERS, iterations=20), Hang(4.5, 2, math.inf))
    ((when, worker, reason),) = seen.lost
    assert 5.5 <= when <= 7.5
    assert worker == 2
    assert "stopped by the operating system" in reason
    assert "row 2 of slot 0 of job 0" in reason
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == [f"worker 2 (place 2) is lost: {reason}; another takes its place"]
    assert "worker 6 (place 2) is ready" in [record.getMessage() for record in caplog.records]


def test_a_worker_that_dies_is_a_warning_in_the_log(caplog):
    _, seen = run(sum_job(chunks=WORKERS, iterations=10), Crash(time=4.5, place=2, notice=0.1, restart=0.5))
    ((_, worker, reason),) = seen.lost
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.name for record in warnings] == ["echelon.stream"]
    assert f"worker {worker} (place 2) is lost: {reason}" in warnings[0].getMessage()


def test_frames_for_a_worker_that_does_not_read_do_not_pile_up_where_redundancy_covers_it():
    """No round is late, and still a worker that is at a row of long ago gets no more."""
    hang = Hang(4.5, 2, math.inf, stopped=False)
    _, seen = run(sum_job(chunks=WORKERS, iterations=40), hang, redundancy=2.0)
    given = [round for round, workers in enumerate(seen.workers, 1) if 2 in workers]
    assert max(given) <= 8


def test_a_worker_that_goes_on_is_given_work_again():
    hang = Hang(4.5, 2, 30.0, stopped=False)
    _, seen = run(sum_job(chunks=WORKERS, iterations=40), hang)
    assert seen.lost == []
    out = [start for start, workers in zip(seen.starts, seen.workers, strict=True) if 2 not in workers]
    assert 6.0 < min(out) < 10.0
    assert 30.0 < max(out) < 37.0


def test_a_part_that_never_returns_fails_its_job_by_name_and_the_next_job_goes_on(caplog):
    seen, caught = Rounds(), cluster(Endless(2.5, 1))
    with ec.Stream(caught, redundancy=1.0, split="uniform", observers=[seen]) as stream:
        first, second = stream.submit(sum_job(chunks=WORKERS)), stream.submit(sum_job(2))
        with pytest.raises(ec.JobFailed, match="row 1 of slot 0 took too long on 3 workers"):
            first.result()
        assert stream.now() < 2 * 100.0  # a hundred times the median, and some rounds
        np.testing.assert_allclose(second.result(), sum_result(2))
        assert len(seen.lost) >= 3
    kills = [record for record in caplog.records if "row 1 of slot 0" in record.getMessage()]
    assert len(kills) == len([reason for *_, reason in seen.lost if "row 1 of slot 0" in reason])


def test_a_part_timeout_of_ones_own_is_kept_to():
    seen = Rounds()
    with ec.Stream(cluster(Endless(2.5, 1)), redundancy=1.0, part_timeout_s=5.0, observers=[seen]) as stream:
        with pytest.raises(ec.JobFailed, match="raise the stream's part_timeout_s"):
            stream.submit(sum_job(chunks=WORKERS)).result()
        assert stream.now() < 20.0


def test_by_default_a_part_may_take_a_minute_however_short_the_others_are():
    quick = [Deterministic(time=0.1)] * WORKERS
    _, seen = run(sum_job(chunks=WORKERS, iterations=400), Hang(0.55, 2, 50.0, stopped=False), laws=quick)
    assert seen.lost == []
    _, seen = run(sum_job(chunks=WORKERS, iterations=400), Hang(0.55, 2, 90.0, stopped=False), laws=quick)
    assert [round(time) for time, *_ in seen.lost] == pytest.approx([LEAST_S], abs=7)


@pytest.mark.parametrize("iterations", [0, 3], ids=["in its first round", "later"])
def test_a_job_that_is_cancelled_in_endless_parts_frees_its_workers(iterations):
    """Every part of it hangs, on every worker: the next job begins all the same, and the stream can be closed."""
    incidents = [Endless(iterations + 0.5, place) for place in range(WORKERS)]
    with ec.Stream(cluster(*incidents), redundancy=1.0, split="uniform") as stream:
        first, second = stream.submit(sum_job(chunks=WORKERS)), stream.submit(sum_job(2))
        stream.sleep(iterations + 0.6)
        first.cancel()
        np.testing.assert_allclose(second.result(), sum_result(2))
        assert first.cancelled()
        assert stream.now() < iterations + 0.6 + 15.0 + 8 * WORKERS * 2


def test_close_does_not_wait_for_parts_that_never_return():
    stream = ec.Stream(cluster(Endless(0.5, 0)), redundancy=1.0)
    handle = stream.submit(sum_job(chunks=WORKERS))
    stream.sleep(0.6)
    stream.close(wait=False)
    assert handle.cancelled()


def test_a_slow_worker_is_not_taken_for_a_hung_one():
    found, seen = run(sum_job(chunks=WORKERS, iterations=30), Slowdown(4.5, 2, 100.0, 20.0))
    np.testing.assert_allclose(found, sum_result(chunks=WORKERS, iterations=30))
    assert seen.lost == []
    assert max(seen.seconds) <= 3.0


def test_a_kill_that_is_refused_is_said_and_the_stream_goes_on(caplog):
    caught = cluster(Hang(4.5, 2, math.inf))

    def refuse(worker, reason="killed"):
        raise ClusterError("not here")

    caught.kill = refuse
    with ec.Stream(caught, redundancy=1.0) as stream:
        np.testing.assert_allclose(stream.submit(sum_job(chunks=WORKERS)).result(), sum_result(chunks=WORKERS))
    assert [record.getMessage() for record in caplog.records if "can't be killed: not here" in record.getMessage()]
