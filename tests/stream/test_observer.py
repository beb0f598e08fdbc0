"""Who is told of what happens in a stream: everything, in order, and never to the harm of the stream."""

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Crash, Faults
from echelon.master.actions import Outcome
from echelon.stream import Arrival, RoundSeen
from tests.stream.jobs import sum_job, sum_result

HOOKS = [name for name in vars(ec.Observer) if not name.startswith("_")]


class Told(ec.Observer):
    """Notes every call."""

    def __init__(self):
        self.calls = []

    def names(self):
        return [name for name, _ in self.calls]

    def of(self, name):
        return [values for called, values in self.calls if called == name]


for hook in HOOKS:
    setattr(Told, hook, lambda self, *values, hook=hook: self.calls.append((hook, values)))


class Raising(Told):
    """Raises when it is told of one thing."""

    def __init__(self, hook):
        super().__init__()
        setattr(self, hook, self._raise)
        self.raised = 0

    def _raise(self, *values):
        self.raised += 1
        raise RuntimeError("a full disk, say")


def test_an_observer_is_told_of_jobs_workers_rounds_and_messages_in_order():
    told = Told()
    with ec.Stream("virtual", workers=2, redundancy=1.0, observers=[told]) as stream:
        stream.submit(sum_job(chunks=2, iterations=2, name="a")).result()
    round = ["opened", "received", "received", "stepped"]
    # what can wait is told of when the workers are busy again
    assert told.names() == [
        "worker_up", "worker_up", "submitted", *round, "round_over", *round, "delivered", "round_over", "close",
    ]  # fmt: skip
    assert [(worker, place) for _, worker, place in told.of("worker_up")] == [(0, 0), (1, 1)]
    ((time_s, running, outcome, error),) = told.of("delivered")
    assert (time_s, running.name, running.iteration, outcome, error) == (2.0, "a", 2, Outcome.DONE, None)
    assert [finished for _, _, finished in told.of("stepped")] == [False, True]


def test_messages_and_rounds_are_values_with_names():
    told = Told()
    with ec.Stream("virtual", workers=1, redundancy=1.0, observers=[told]) as stream:
        stream.submit(sum_job(chunks=2, iterations=1)).result()
    assert told.of("received") == [
        (Arrival(0, 1, 0, 0, 1.0, 1.0, 32, "new"),),
        (Arrival(0, 1, 0, 1, 2.0, 1.0, 32, "new"),),
    ]
    ((seen,),) = told.of("round_over")
    assert isinstance(seen, RoundSeen)
    assert (seen.job, seen.round, seen.iteration, seen.start, seen.end, seen.received) == (0, 1, 0, 0.0, 2.0, 2)
    assert (seen.workers, len(seen.plan.lanes)) == ((0,), 1)


def test_what_came_too_late_or_again_is_told_as_such():
    told = Told()
    faults = Faults(np.random.default_rng(1), repeat=0.5, delay=0.5)
    with ec.Stream(VirtualCluster(3, faults=faults), redundancy=1.5, observers=[told], patience_s=5.0) as stream:
        np.testing.assert_allclose(stream.submit(sum_job(iterations=20)).result(), sum_result(iterations=20))
    assert {arrival.use for (arrival,) in told.of("received")} == {"new", "again", "late"}


def test_losses_and_a_stream_without_workers_are_told():
    told = Told()
    faults = Faults(np.random.default_rng(1), incidents=(Crash(time=0.5, place=0, notice=0.25, restart=2.0),))
    with ec.Stream(VirtualCluster(1, faults=faults), redundancy=1.0, observers=[told]) as stream:
        stream.submit(sum_job(chunks=1, iterations=1)).result()
    assert told.of("worker_down") == [(0.75, 0, 0, "killed")]
    assert told.of("starved") == [(0.75, 0)]
    assert [values[1:] for values in told.of("worker_up")] == [(0, 0), (1, 0)]


def test_observers_are_closed_with_the_stream_once_and_after_everything_else():
    told = [Told(), Told()]
    stream = ec.Stream("threads", workers=2, observers=told)
    stream.submit(sum_job()).result()
    stream.close()
    stream.close()
    for one in told:
        assert one.names().count("close") == 1
        assert one.names()[-1] == "close"


@pytest.mark.parametrize("wait", [True, False])
def test_observers_of_a_stream_that_breaks_down_are_closed_too(wait):
    def interrupted(state, total):
        raise KeyboardInterrupt

    told = Told()
    stream = ec.Stream("virtual", workers=1, observers=[told])
    job = sum_job()
    job.update = interrupted
    with pytest.raises(KeyboardInterrupt):
        stream.submit(job).result()
    if wait:
        with pytest.raises(ec.errors.ClusterError, match="the stream broke down"):
            stream.close()
    else:
        stream.close(wait=False)
    assert told.names()[-1] == "close"


@pytest.mark.parametrize("cluster", ["threads", "virtual"])
@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook not in ("starved", "worker_down", "wrong_result")])
def test_an_observer_that_raises_is_dropped_and_logged_and_nobody_else_notices(cluster, hook, caplog):
    raising, told = Raising(hook), Told()
    with ec.Stream(cluster, workers=2, observers=[raising, told]) as stream:
        np.testing.assert_allclose(stream.submit(sum_job()).result(), sum_result(), rtol=1e-9)
    assert raising.raised == 1
    after = raising.names() if hook == "close" else raising.names()[-1:]
    assert after == (told.names()[:-1] if hook == "close" else ["close"]), "it is told of the end all the same"
    assert set(HOOKS) - set(told.names()) == {"starved", "worker_down", "wrong_result"}
    (error,) = (record for record in caplog.records if record.levelname == "ERROR")
    assert error.getMessage() == f"Raising is not called again: its method {hook} raised"
    assert "a full disk, say" in caplog.text


class Few(ec.Observer):
    """Has one method of its own, and one that it was given."""

    def __init__(self):
        self.rounds, self.rows = [], []
        self.received = self.rows.append

    def stepped(self, running, seen, finished):
        self.rounds.append(seen.round)


@pytest.mark.parametrize("others", [[], [ec.Observer()], [Told()]])
def test_an_observer_is_told_of_what_it_has_methods_for_whoever_else_listens(others):
    few = Few()
    with ec.Stream("virtual", workers=2, redundancy=1.0, observers=[*others, few]) as stream:
        stream.submit(sum_job(chunks=2, iterations=3)).result()
    assert few.rounds == [1, 2, 3]
    assert [(arrival.round, arrival.row) for arrival in few.rows] == [(n, row) for n in (1, 2, 3) for row in (0, 1)]


def test_what_is_no_observer_is_refused():
    with pytest.raises(ec.errors.ArgumentError, match=r"observers: .* is not allowed; must be an Observer"):
        ec.Stream("threads", workers=1, observers=[print])
