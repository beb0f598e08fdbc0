"""What survives the death of the whole program."""

import os
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Faults, MasterCrash, MasterKilled
from echelon.errors import ArgumentError
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.stream import Journal
from tests.clusters.kinds import KINDS
from tests.stream.jobs import STEPS, counted, linear_job, sum_job, sum_result

JOBS, ITERATIONS = 6, 25
SCRIPT = f"""
import os, signal, sys
import echelon as ec
from tests.stream.jobs import sum_job
journal, log, cluster, left = sys.argv[1:]
fresh = not os.path.exists(journal)

class Doom(ec.Observer):
    left = None  # what may still happen before the program is killed
    def happens(self, *_):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    opened = received = stepped = delivered = round_over = happens

doom = Doom()
with ec.Stream(cluster=cluster, workers=2, redundancy=1.3, journal=journal, observers=[doom]) as stream:
    if fresh:
        for seed in range({JOBS}):
            stream.submit(sum_job(seed, iterations={ITERATIONS}))
    if left != "all":
        doom.left = int(left)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for done in stream.deliveries():
        os.write(out, f"{{done.number}}\\n".encode())
"""


def stream(path):
    return ec.Stream(cluster="threads", workers=2, redundancy=1.3, journal=path)


def test_undelivered_jobs_are_resumed_from_their_last_state(tmp_path):
    path = tmp_path / "journal"
    with stream(path) as running:
        running.submit(sum_job(1))
        next(running.deliveries())
        running.submit(sum_job(2))
        running.submit(sum_job(3, iterations=10**6, until=counted))
        # the state of a step is kept after it is counted: the sixth says that the fifth is in the journal
        assert all(STEPS.acquire(timeout=60) for _ in range(6))
        running.close(wait=False)

    journal = Journal(path)
    finished, half_way = journal.undelivered()
    _, state = journal.load(half_way.number)
    journal.close()
    assert (finished.status, half_way.status) == ("finished", "open")
    assert half_way.iteration >= 5

    # the resumed job takes its remaining iterations only: make them few
    base = sqlite3.connect(path)
    base.execute("UPDATE jobs SET iteration = ? WHERE number = ?", (10**6 - 2, half_way.number))
    base.commit()
    base.close()
    with stream(path) as running:
        assert [handle.number for handle in running.resumed] == [finished.number, half_way.number]
        found = list(running.deliveries())
        late = running.submit(sum_job(4))
        assert late.number > half_way.number
    assert [done.number for done in found] == [finished.number, half_way.number]
    np.testing.assert_allclose(found[0].result, sum_result(2), rtol=1e-9)
    data = np.random.default_rng(3).uniform(0.5, 1.5, (12, 4)).sum(axis=0)
    for _ in range(2):
        total = data * state
        state = total / (1 + np.abs(total).max())
    np.testing.assert_allclose(found[1].result, state, rtol=1e-9)


def test_failed_and_cancelled_jobs_are_not_tried_again(tmp_path):
    path = tmp_path / "journal"
    bad = sum_job()
    bad.update = lambda state, total: 1 / 0
    with stream(path) as running:
        assert running.submit(bad).exception() is not None
        held = running.submit(sum_job(iterations=10**6))
        held.cancel()
        list(running.deliveries())
    with stream(path) as running:
        assert running.resumed == []


def test_two_programs_cant_go_on_with_one_journal(tmp_path):
    path = tmp_path / "journal"
    first = Journal(path)
    with pytest.raises(ArgumentError, match=f"process {os.getpid()} holds it"):
        Journal(path, timeout_s=0.05)
    first.close()
    Journal(path).close()


def test_what_is_no_journal_is_refused(tmp_path):
    path = tmp_path / "notes"
    path.write_text("these are only notes, and long enough not to be taken for an empty file" * 20)
    with pytest.raises(ArgumentError, match="is not a database"):
        Journal(path)


@pytest.mark.parametrize("cluster", KINDS)
def test_after_kill_9_at_any_moment_nothing_is_lost_and_nothing_delivered_twice(tmp_path, cluster):
    path, log = tmp_path / "journal", tmp_path / "log"
    kills = 1 if cluster == "ray" else 4  # a Ray of one's own takes five seconds to start
    for left in [*np.random.default_rng(1).integers(60, size=kills).tolist(), "all"]:
        command = [sys.executable, "-c", SCRIPT, path, log, cluster, str(left)]
        assert subprocess.run(command, timeout=120, check=False).returncode == (0 if left == "all" else -signal.SIGKILL)
    logged = [int(line) for line in log.read_text().split()]
    assert logged == sorted(set(logged)), "delivered twice, or out of order"
    journal = Journal(path)
    assert journal.undelivered() == []
    for seed in range(JOBS):
        np.testing.assert_allclose(journal.result(seed + 1), sum_result(seed, iterations=ITERATIONS), rtol=1e-9)
    # a program that dies between the mark and the log loses the line, but not the result
    assert len(logged) >= JOBS - kills
    with pytest.raises(ArgumentError, match="no such job"):
        journal.result(99)
    journal.close()


def test_a_state_that_cant_be_kept_fails_its_job_alone(tmp_path):
    bad = sum_job()
    bad.update = lambda state, total: (item for item in [total])
    with stream(tmp_path / "journal") as running:
        first, second = running.submit(bad), running.submit(sum_job(2))
        assert "pickle" in str(first.exception())
        np.testing.assert_allclose(second.result(), sum_result(2), rtol=1e-9)


def test_after_the_end_of_a_stream_what_was_not_taken_waits_in_the_journal(tmp_path):
    path = tmp_path / "journal"
    with stream(path) as running:
        running.submit(sum_job(1))
    with pytest.raises(ec.errors.ClusterError, match="open its journal again"):
        next(running.deliveries())
    with stream(path) as running:
        assert running.taken == 1
        (done,) = running.deliveries()
    np.testing.assert_allclose(done.result, sum_result(1), rtol=1e-9)
    assert done.error_estimate.relative_to_terms > 0
    assert done.error_estimate.relative_to_result > 0


def test_a_journal_of_another_version_is_refused_before_anything_is_lost(tmp_path):
    base = sqlite3.connect(tmp_path / "journal")
    base.execute("CREATE TABLE jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, job BLOB, state BLOB, error REAL)")
    base.close()
    with pytest.raises(ArgumentError, match="is not allowed; it was written by an earlier version of echelon"):
        Journal(tmp_path / "journal")
    Journal(tmp_path / "other").close()
    base = sqlite3.connect(tmp_path / "other")
    base.execute("PRAGMA user_version = 7")
    base.close()
    with pytest.raises(ArgumentError, match="it has format 7, and this version of echelon reads 3: finish its jobs"):
        Journal(tmp_path / "other")


class Errors(ec.Observer):
    """Notes the error of every round."""

    def __init__(self):
        self.seen = []

    def stepped(self, running, seen, finished):
        self.seen.append(seen.error_estimate)


def test_the_error_estimate_is_the_largest_of_all_iterations_of_all_runs(tmp_path):
    """The largest comes before the crash in some runs, and after it in others."""
    job = Workload(critical=6, redundancy=1.5, iterations=1, arrivals=Arrivals.poisson(1.0))
    profile, largest_first = Profile(job, [Worker(f"w{p}", mean=1.0, std=1.0) for p in range(3)]), set()
    for seed in range(6):
        path, errors = tmp_path / f"{seed}", Errors()
        faults = Faults(np.random.default_rng(1), incidents=(MasterCrash(time=20.0, calls=0),))
        before = ec.Stream(
            VirtualCluster(emulate=profile, seed=seed, faults=faults),
            redundancy=1.5, split="uniform", journal=path, observers=[errors],
        )  # fmt: skip
        handle = before.submit(linear_job(iterations=20))
        with pytest.raises(MasterKilled):
            handle.result()
        before.close(wait=False)
        done_before = len(errors.seen)
        with ec.Stream(
            "virtual", emulate=profile, redundancy=1.5, split="uniform", journal=path, observers=[errors]
        ) as on:
            (done,) = on
        assert (done.iterations, len(errors.seen)) == (20, 20)
        figures = np.array([[one.relative_to_terms, one.relative_to_result] for one in errors.seen])
        assert done.error_estimate == ec.codes.ErrorEstimate(*figures.max(axis=0))
        largest_first |= {bool(at < done_before) for at in figures.argmax(axis=0)}
    assert largest_first == {True, False}


def test_a_step_writes_the_state_and_not_the_data_of_its_job_again(tmp_path):
    chunks = [np.ones(2**18), np.ones(2**18)]
    job = ec.SumJob(
        partial=lambda state, chunk: state * chunk[:4], update=lambda state, total: total / 2,
        state=np.ones(4), chunks=chunks, iterations=20,
    )  # fmt: skip
    with ec.Stream("virtual", workers=2, journal=tmp_path / "journal") as running:
        handle = running.submit(job)
        before = sum(path.stat().st_size for path in tmp_path.iterdir())
        running.sleep(1000.0)
        assert handle.done()
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) < before + 2**20
