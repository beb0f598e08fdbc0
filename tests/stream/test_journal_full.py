"""A disk without room: the stream stops, says so, and goes on when there is some; nothing is lost, nothing made up."""

import logging
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pytest

import echelon as ec
from echelon.errors import ClusterError, JournalError, JournalFull
from tests.stream.jobs import sum_job, sum_result

LIMIT_S = 60.0


def fill_up(running):
    """Let nothing be written any more, as on a disk that is full."""
    running._journal._base._base.execute("PRAGMA query_only = ON")


def make_room(running):
    running._journal._base._base.execute("PRAGMA query_only = OFF")


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_stream_takes_no_step_while_its_journal_is_full_and_goes_on_when_there_is_room(tmp_path, caplog):
    with ec.Stream("virtual", workers=2, journal=tmp_path / "journal") as running:
        handles = [running.submit(sum_job(seed)) for seed in range(2)]
        running.sleep(10.0)
        before = handles[0].iteration
        assert 0 < before < 8
        fill_up(running)
        running.sleep(300.0)
        assert handles[0].iteration == before
        assert not any(handle.done() for handle in handles)
        (said,) = warnings(caplog)
        assert "the journal can't be written" in said
        assert "the stream takes no step" in said
        make_room(running)
        for seed, handle in enumerate(handles):
            np.testing.assert_allclose(handle.result(), sum_result(seed), rtol=1e-9)
        assert handles[0].delivery().iterations == 8
    assert len(warnings(caplog)) == 1


def test_a_live_stream_goes_on_after_a_full_disk_and_cancels_meanwhile(tmp_path):
    stepped = threading.Semaphore(0)

    class Steps(ec.Observer):
        def stepped(self, running, seen, finished):
            stepped.release()

    path = tmp_path / "journal"
    with ec.Stream("threads", workers=2, journal=path, observers=[Steps()]) as running:
        endless, other = running.submit(sum_job(1, iterations=10**6)), running.submit(sum_job(2))
        assert stepped.acquire(timeout=LIMIT_S)
        fill_up(running)
        with running._out.changed:
            assert running._out.changed.wait_for(lambda: running._out.full is not None, LIMIT_S)
        with pytest.raises(JournalFull):
            running.submit(sum_job(3))
        endless.cancel()
        with pytest.raises(ec.stream.handle.CancelledError):
            endless.result(LIMIT_S)
        make_room(running)
        np.testing.assert_allclose(other.result(LIMIT_S), sum_result(2), rtol=1e-9)
        assert running.taken == 2
    with ec.Stream("virtual", workers=2, journal=path) as running:
        assert running.resumed == []


def test_close_while_the_journal_is_full_says_what_is_not_in_it_and_the_job_goes_on_later(tmp_path):
    path = tmp_path / "journal"
    running = ec.Stream("virtual", workers=2, journal=path)
    running.submit(sum_job(1))
    running.sleep(10.0)
    fill_up(running)
    with pytest.raises(JournalError, match=r"can't be written.*what became of job 1 last is not in it"):
        running.close()
    running.close()
    with ec.Stream("virtual", workers=2, journal=path) as again:
        (done,) = again
    np.testing.assert_allclose(done.result, sum_result(1), rtol=1e-9)


def test_a_stream_that_is_closed_at_once_with_a_full_journal_only_warns(tmp_path, caplog):
    running = ec.Stream("virtual", workers=2, journal=tmp_path / "journal")
    running.submit(sum_job(1))
    running.sleep(10.0)
    fill_up(running)
    running.sleep(10.0)
    running.close(wait=False)
    assert "what became of job 1 last is not in it" in warnings(caplog)[-1]


def test_a_job_that_cant_be_kept_is_not_taken_and_the_stream_goes_on(tmp_path):
    with ec.Stream("virtual", workers=2, journal=tmp_path / "journal") as running:
        handle = running.submit(sum_job())
        fill_up(running)
        with pytest.raises(JournalError, match="the journal can't be written"):
            running.submit(sum_job(2))
        make_room(running)
        np.testing.assert_allclose(handle.result(), sum_result(), rtol=1e-9)
        assert running.taken == 1


def test_a_delivery_that_cant_be_marked_is_handed_over_when_it_can_and_not_lost(tmp_path):
    path = tmp_path / "journal"
    running = ec.Stream("virtual", workers=2, journal=path)
    for seed in range(2):
        running.submit(sum_job(seed))
    running.sleep(1000.0)
    fill_up(running)
    assert running._out.wait(None)
    assert running._out.take() is None
    make_room(running)
    np.testing.assert_allclose(next(running.deliveries()).result, sum_result(0), rtol=1e-9)
    fill_up(running)
    assert running._out.take() is None
    running.close(wait=False)
    with pytest.raises(ClusterError, match="open its journal again"):
        next(running.deliveries())
    with ec.Stream("virtual", workers=2, journal=path) as again:
        (done,) = again.deliveries()
    np.testing.assert_allclose(done.result, sum_result(1), rtol=1e-9)


def test_a_job_that_fails_on_a_full_disk_is_delivered_as_failed_by_its_own_code_alone(tmp_path):
    bad = sum_job()
    bad.update = lambda state, total: 1 / 0
    with ec.Stream("virtual", workers=2, journal=tmp_path / "journal") as running:
        handle = running.submit(bad)
        fill_up(running)
        running.sleep(100.0)
        assert not handle.done()
        make_room(running)
        (done,) = running
    assert "ZeroDivisionError" in str(done.error)
    assert "JournalFull" not in str(done.error)


def test_a_bad_job_on_a_full_disk_is_left_out_and_the_others_are_not(tmp_path, caplog):
    path = tmp_path / "journal"
    with ec.Stream("virtual", workers=2, journal=path) as running:
        for seed in range(2):
            running.submit(sum_job(seed))
    base = sqlite3.connect(path)
    base.execute("UPDATE jobs SET state = x'00' WHERE number = 1")
    base.commit()
    base.close()
    with ec.Stream("virtual", workers=2, journal=path) as running:
        fill_up(running)
        assert running._out.take() is None
        assert warnings(caplog)[0].startswith("job 1 is set aside: the state of job 1 is damaged")
        make_room(running)
        assert [done.number for done in running] == [2]


FILLED = """
import os, resource, sys
import numpy as np
import echelon as ec
from tests.stream.jobs import sum_job, sum_result

def limit(nbytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, resource.RLIM_INFINITY))

with ec.Stream("virtual", workers=2, journal=sys.argv[1]) as stream:
    handle = stream.submit(sum_job(1))
    stream.sleep(10.0)
    limit(100)
    stream.sleep(100.0)
    assert not handle.done()
    limit(resource.RLIM_INFINITY)
    (done,) = stream
    np.testing.assert_allclose(done.result, sum_result(1), rtol=1e-9)
with ec.Stream("virtual", workers=2, record=sys.argv[2]) as stream:
    handle = stream.submit(sum_job(1))
    stream.sleep(10.0)
    limit(os.path.getsize(sys.argv[2]) + 20)  # half a line fits
    np.testing.assert_allclose(handle.result(), sum_result(1), rtol=1e-9)
"""


def test_files_that_may_not_grow_stop_the_stream_until_they_may_and_end_its_record(tmp_path):
    pytest.importorskip("resource")
    path, record = tmp_path / "journal", tmp_path / "record"
    done = subprocess.run([sys.executable, "-c", FILLED, path, record], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the journal can't be written") == 1
    assert done.stderr.count(f"the record {record} ends here: File too large; the run goes on") == 1
    assert not record.read_text().endswith("\n")
    assert 0 < len(ec.stream.read_record(record).rounds) < 8


def test_a_record_on_a_full_device_ends_with_one_warning_and_the_run_goes_on(tmp_path, caplog):
    full = tmp_path / "record"
    full.symlink_to("/dev/full")
    with ec.Stream("virtual", workers=2, record=full) as running:
        np.testing.assert_allclose(running.submit(sum_job()).result(), sum_result(), rtol=1e-9)
    assert warnings(caplog) == [f"the record {full} ends here: No space left on device; the run goes on"]
