"""The jobs of a journal: bad ones among good ones, failures that nobody took, keys, results taken by handles."""

import asyncio
import logging
import sqlite3
import sys
from contextlib import closing

import numpy as np
import pytest

import echelon as ec
from echelon.errors import ArgumentError, JobFailed
from echelon.stream import Journal, ready
from tests.stream.jobs import STEPS, sum_job, sum_result


def virtual(path, **more):
    return ec.Stream("virtual", workers=2, journal=path, **more)


def changed(path, statement, *values):
    base = sqlite3.connect(path)
    base.execute(statement, values)
    base.commit()
    base.close()


def statuses(path):
    with closing(Journal(path)) as journal:
        return [entry.status for entry in journal.entries()]


def three_jobs(path, first=None):
    running = virtual(path)
    for job in (first or sum_job(1), sum_job(2), sum_job(3)):
        running.submit(job)
    running.close(wait=False)


def gone_module(tmp_path, monkeypatch):
    """Return a job whose code is in a module that is not there any more when the journal is opened again."""
    (tmp_path / "soon_gone.py").write_text("def update(state, total):\n    return state\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import soon_gone

    job = sum_job(1)
    job.update = soon_gone.update
    return job


def lose_module(tmp_path):
    sys.modules.pop("soon_gone")
    (tmp_path / "soon_gone.py").unlink()


@pytest.mark.parametrize("what", ["module", "job", "state", "lanes"])
def test_one_bad_job_is_named_and_set_aside_and_the_others_go_on(tmp_path, monkeypatch, caplog, what):
    path, workers = tmp_path / "journal", 2
    first = gone_module(tmp_path, monkeypatch) if what == "module" else sum_job(1)
    if what == "lanes":
        first = sum_job(1, chunks=2, plan=ec.schemes.gradient_coding(workers=2, load=1))
        workers = 3
    three_jobs(path, first)
    if what == "module":
        lose_module(tmp_path)
    if what in ("job", "state"):
        changed(path, f"UPDATE {'works' if what == 'job' else 'jobs'} SET {what} = x'80049500' WHERE number = 1")
    with ec.Stream("virtual", workers=workers, journal=path) as running:
        assert [handle.number for handle in running.resumed] == [2, 3]
        found = list(running)
    assert [done.number for done in found] == [2, 3]
    for done in found:
        np.testing.assert_allclose(done.result, sum_result(done.number), rtol=1e-9)
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    reason = {"module": "No module named", "lanes": "must be 3"}.get(what, f"the {what} of job 1 is damaged")
    assert said.startswith("job 1 is set aside: ")
    assert reason in said
    assert statuses(path) == ["set aside", "delivered", "delivered"]
    with virtual(path) as running:  # and it stays there
        assert running.resumed == []


def test_a_job_that_was_set_aside_goes_on_when_it_is_asked_to(tmp_path):
    path = tmp_path / "journal"
    three_jobs(path)
    with closing(Journal(path)) as journal:
        journal.set_aside(1, "by hand")
        journal.retry(1)
        with pytest.raises(ArgumentError, match="must be a job that failed or was set aside"):
            journal.retry(2)
    with virtual(path) as running:
        assert [done.number for done in running] == [1, 2, 3]


def test_a_result_that_is_damaged_in_the_journal_is_set_aside_and_the_others_are_delivered(tmp_path, caplog):
    path = tmp_path / "journal"
    with virtual(path) as running:
        for seed in range(1, 4):
            running.submit(sum_job(seed))
    changed(path, "UPDATE jobs SET state = x'00' WHERE number = 2")
    with virtual(path) as running:
        assert [done.number for done in running] == [1, 3]
    assert "job 2 is set aside: the state of job 2 is damaged" in caplog.text
    assert statuses(path) == ["delivered", "set aside", "delivered"]


def bad_job():
    job = sum_job(1)
    job.update = lambda state, total: 1 / 0
    return job


def test_after_a_resume_a_failure_that_was_not_taken_comes_in_its_turn_and_once(tmp_path):
    path = tmp_path / "journal"
    with virtual(path) as running:
        running.submit(bad_job())
        running.submit(sum_job(2))
    assert statuses(path) == ["failed", "finished"]
    with virtual(path) as running:
        assert [handle.done() for handle in running.resumed] == [True, True]
        failed, done = running
    assert (failed.number, done.number) == (1, 2)
    assert "ZeroDivisionError" in str(failed.error)
    np.testing.assert_allclose(done.result, sum_result(2), rtol=1e-9)
    assert statuses(path) == ["dropped", "delivered"]
    with virtual(path) as running:
        assert list(running) == []


# by their handles


def test_a_result_that_was_taken_through_its_handle_does_not_come_again(tmp_path):
    path = tmp_path / "journal"
    with virtual(path) as running:
        jobs = [sum_job(1), bad_job(), sum_job(3), sum_job(4)]
        by_result, by_error, by_await, asked = (running.submit(job) for job in jobs)
        quiet = running.submit(sum_job(5), deliver=False)
        np.testing.assert_allclose(by_result.result(), sum_result(1), rtol=1e-9)
        assert isinstance(by_error.exception(), JobFailed)

        async def awaited():
            return await by_await

        np.testing.assert_allclose(asyncio.run(awaited()), sum_result(3), rtol=1e-9)
        assert asked.exception() is None  # says that there is a result, and does not take it
        quiet.result()
        assert by_result.result() is by_result.result()
        assert [done.number for done in running] == [4]
    assert statuses(path) == ["delivered", "dropped", "delivered", "delivered", "delivered"]
    with virtual(path) as running:
        assert running.resumed == []


def test_a_result_that_is_asked_for_after_the_end_of_the_stream_counts_as_taken(tmp_path):
    path = tmp_path / "journal"
    with virtual(path) as running:
        handle = running.submit(sum_job(1))
    np.testing.assert_allclose(handle.result(), sum_result(1), rtol=1e-9)
    assert statuses(path) == ["delivered"]
    with virtual(path) as running:
        later = running.submit(sum_job(2))
    with closing(Journal(path)):
        np.testing.assert_allclose(later.result(), sum_result(2), rtol=1e-9)  # another has the journal: it comes again
    assert statuses(path) == ["delivered", "finished"]


def test_a_job_is_handed_over_by_the_loop_or_by_its_handle_not_by_both(tmp_path):
    with virtual(tmp_path / "journal") as running:
        handles = [running.submit(sum_job(seed)) for seed in range(6)]
        for handle in handles[1::2]:
            handle.result()
        assert [done.number for done in running] == [1, 3, 5]


def test_what_is_saved_before_it_counts_as_delivered_comes_again_if_that_fails(tmp_path):
    path, saved = tmp_path / "journal", []

    def save(delivery):
        if len(saved) == 1:
            raise OSError("no room")
        saved.append(delivery.number)

    running = virtual(path)
    for seed in range(2):
        running.submit(sum_job(seed))
    loop = running.deliveries(save=save)
    assert next(loop).number == 1
    with pytest.raises(OSError, match="no room"):
        next(loop)
    running.close()
    assert statuses(path) == ["delivered", "finished"]
    with virtual(path) as running:
        assert [done.number for done in running.deliveries(save=lambda done: saved.append(done.number))] == [2]
    assert saved == [1, 2]


# keys


def test_a_key_makes_a_job_once_only_whoever_runs_the_script_again(tmp_path):
    path = tmp_path / "journal"
    for _ in range(3):
        with virtual(path) as running:
            assert running.resumed == []
            handle = running.submit(sum_job(1), key="fit")
            np.testing.assert_allclose(handle.result(), sum_result(1), rtol=1e-9)
            assert (handle.number, running.taken) == (1, 1)
            assert list(running) == []


def test_the_key_of_a_job_under_way_gives_the_job_that_is_resumed(tmp_path):
    path = tmp_path / "journal"
    running = virtual(path)
    first = running.submit(sum_job(1), key="fit")
    assert running.submit(sum_job(1), key="fit") is first
    running.sleep(10.0)
    assert 0 < first.iteration < 8
    running.close(wait=False)
    with virtual(path) as running:
        (resumed,) = running.resumed
        assert running.submit(sum_job(1), key="fit") is resumed
        assert resumed.iteration == first.iteration
        np.testing.assert_allclose(resumed.result(), sum_result(1), rtol=1e-9)
        assert running.taken == 1


def test_a_job_that_failed_or_was_cancelled_gives_its_key_free_when_that_was_told(tmp_path):
    path = tmp_path / "journal"
    with virtual(path) as running:
        running.submit(bad_job(), key="fit")
    with virtual(path) as running:
        with pytest.raises(JobFailed, match="ZeroDivisionError"):
            running.submit(sum_job(1), key="fit").result()
        held = running.submit(sum_job(1), key="fit")
        assert held.number == 2
        held.cancel()
        running.sleep(1.0)
        assert running.submit(sum_job(1), key="fit").number == 3


def test_the_key_of_a_job_that_is_set_aside_says_so(tmp_path):
    path = tmp_path / "journal"
    with virtual(path) as running:
        running.submit(sum_job(1), key="fit")
    with closing(Journal(path)) as journal:
        journal.set_aside(1, "by hand")
    with virtual(path) as running, pytest.raises(JobFailed, match="is set aside: by hand; 'echelon journal"):
        running.submit(sum_job(1), key="fit").result()


def test_without_a_journal_a_key_is_that_of_a_job_that_has_not_ended():
    with ec.Stream("virtual", workers=2) as running:
        first = running.submit(sum_job(1), key="fit")
        assert running.submit(sum_job(1), key="fit") is first
        assert running.submit(sum_job(1), key="other") is not first
        first.result()
        assert running.submit(sum_job(1), key="fit") is not first
        for key in ("", 3, "k" * 1001):
            with pytest.raises(ArgumentError, match=r"key: .* is not allowed; must be a text of 1 to 1000 characters"):
                running.submit(sum_job(1), key=key)


# results that nobody takes


def test_results_beyond_a_bound_wait_in_the_journal_alone_and_come_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(ready, "HELD", 2)
    with virtual(tmp_path / "journal") as running:
        for seed in range(5):
            running.submit(sum_job(seed))
        running.sleep(1000.0)
        held = [delivery.result is not ready.IN_JOURNAL for delivery in running._out._ready._waiting.values()]
        assert held == [True, True, False, False, False]
        for seed, done in enumerate(running):
            np.testing.assert_allclose(done.result, sum_result(seed), rtol=1e-9)


def test_many_results_that_nobody_takes_are_told_of_once_without_a_journal(monkeypatch, caplog):
    monkeypatch.setattr(ready, "HELD", 2)
    with ec.Stream("virtual", workers=2) as running:
        for seed in range(5):
            running.submit(sum_job(seed))
        running.sleep(1000.0)
        assert len(list(running)) == 5
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said.startswith("2 results wait in memory for somebody to take them")


def test_a_job_that_cant_be_pickled_is_refused_at_the_door(tmp_path):
    job = sum_job(1)
    job.update = lambda state, total, lock=STEPS: total
    with virtual(tmp_path / "journal") as running:
        with pytest.raises(ArgumentError, match="job: it can't be kept in the journal; pickle says"):
            running.submit(job)
        assert running.taken == 0
