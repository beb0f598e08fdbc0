"""What the error of a failed job says: what was raised, where, and on which chunk."""

import traceback

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.errors import RemoteError
from echelon.schemes import multi_message
from tests.stream.jobs import linear_job, sum_job

LIMIT_S = 60.0


class Unlucky(ValueError):
    """An error of the user's own."""

    def __init__(self, text, number):
        super().__init__(text)
        self.number = number

    def __reduce__(self):
        return type(self), (str(self), self.number)


class Stubborn(Exception):
    """One that can't be pickled."""

    def __reduce__(self):
        raise TypeError("no")


def refuses(kind, *arguments):
    """Return a partial that raises for the chunk of value 5."""

    def partial(state, chunk):
        if chunk == 5:
            raise kind(*arguments)
        return np.array([float(chunk)])

    return partial


def job(partial, **more):
    return ec.SumJob(
        partial=partial, update=lambda state, total: total, state=0.0, chunks=[3, 4, 5, 6], iterations=1, **more
    )


def failure(cluster, submitted, workers=2, **more):
    with ec.Stream(cluster, workers=workers, progress=False, **more) as stream:
        error = stream.submit(submitted).exception(LIMIT_S)
    assert isinstance(error, ec.JobFailed)
    return error


@pytest.mark.parametrize("redundancy", [1.0, 2.0])
@pytest.mark.parametrize("cluster", ["virtual", "threads", "processes"])
def test_a_failed_job_has_the_worker_s_exception_as_its_cause_and_names_worker_and_chunk(cluster, redundancy):
    error = failure(cluster, job(refuses(Unlucky, "bad luck", 13)), redundancy=redundancy)
    assert type(error.__cause__) is Unlucky
    assert (str(error.__cause__), error.__cause__.number) == ("bad luck", 13)
    assert error.chunks == (2,)
    assert error.worker is not None
    assert error.place in (0, 1)
    assert error.slot == 0
    assert "Unlucky: bad luck (on worker" in str(error)
    assert str(error).endswith("chunk 2)")
    assert "in partial" in error.traceback
    shown = "".join(traceback.format_exception(error))
    assert "raise kind(*arguments)" in shown  # the worker's own line
    assert "direct cause" in shown


def test_an_exception_that_cant_be_pickled_is_told_by_its_name():
    error = failure("processes", job(refuses(Stubborn, "it stays")))
    assert isinstance(error.__cause__, RemoteError)
    assert str(error.__cause__).endswith("Stubborn: it stays")
    assert "in partial" in error.traceback


@pytest.mark.parametrize("where", ["update", "until", "vector"])
def test_what_the_job_s_own_code_raises_on_the_master_is_the_cause_itself(where):
    raised = KeyError("lr")

    def broken(*arguments):
        raise raised

    bad = linear_job(vector=broken) if where == "vector" else sum_job(until=broken if where == "until" else None)
    if where == "update":
        bad.update = broken
    error = failure("threads", bad)
    assert error.__cause__ is raised
    assert (error.worker, error.place, error.chunks) == (None, None, ())
    assert "in broken" in error.traceback


def test_a_chunk_is_named_under_a_plan_and_where_rows_are_computed_at_once():
    plan = multi_message(workers=4, load=2, clusters=2, order=2)
    assert failure("virtual", job(refuses(Unlucky, "no", 1), plan=plan), workers=4).chunks == (2,)

    def weighted(state, chunks, coefficients):
        raise Unlucky("no", 2)

    error = failure("virtual", job(refuses(Unlucky, "no", 1), weighted=weighted), workers=4, redundancy=2.0)
    assert error.__cause__.number == 2
    assert len(error.chunks) >= 2


def test_a_job_without_chunks_names_slot_and_row():
    class Refusing:
        def __matmul__(self, state):
            raise Unlucky("no", 1)

    bad = linear_job()
    made = bad.work
    bad.work = lambda codes: setattr(work := made(codes), "_blocks", [Refusing()] * 99) or work
    error = failure("virtual", bad)
    assert isinstance(error.__cause__, Unlucky)
    assert error.chunks == ()
    assert error.row is not None
    assert f"row {error.row} of slot 0)" in str(error)


def test_a_row_that_kills_its_workers_is_given_up_with_its_chunk_and_how_the_last_one_died():
    cluster = VirtualCluster(2)

    class Killer(ec.Observer):
        """Kills whoever computes the third row."""

        def opened(self, seen):
            for worker in cluster._at:
                if worker.alive and worker.task is not None and worker.task.row == 2:
                    cluster.die(worker)
            cluster.at(cluster.time + 0.25, lambda: self.opened(seen))

    submitted = job(lambda state, chunk: np.array([1.0]))
    with ec.Stream(cluster, redundancy=1.0, progress=False, observers=[Killer()]) as stream:
        error = stream.submit(submitted).exception()
    assert isinstance(error, ec.JobFailed)
    assert "row 2 of slot 0 was the work of" in str(error)
    assert "workers when they died (the last one: killed)" in str(error)
    assert str(error).endswith("chunk 2)")
    assert (error.row, error.chunks, error.__cause__) == (2, (2,), None)
    assert error.worker is not None
