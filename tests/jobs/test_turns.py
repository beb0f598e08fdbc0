"""Models trained in turn: the plain ones, whoever straggles, dies or hangs; nothing of a run is left behind."""

import os
import threading

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.delays import Deterministic, GilbertElliott
from echelon.errors import ArgumentError, JobFailed
from echelon.jobs import TurnJob
from echelon.schemes import m_sgc, sr_sgc
from tests.jobs.turns import ITERATIONS, chunks, descend, gradient, turns_of
from tests.products.works import COUNTED, holds

LIMIT_S = 60.0
SCHEMES = {
    "M-SGC": m_sgc(4, workers_at_once=1, length=1, window=2),
    "M-SGC, long bursts": m_sgc(4, workers_at_once=2, length=2, window=3),
    "M-SGC, no code": m_sgc(4, workers_at_once=4, length=1, window=3),
    "M-SGC, fastest": m_sgc(4, workers_at_once=2, length=1, window=2, waiting="fastest", tolerance=0.5),
    "SR-SGC": sr_sgc(4, workers_at_once=2, length=1, window=2),
    "SR-SGC, long bursts": sr_sgc(4, workers_at_once=3, length=2, window=3),
    "SR-SGC, fastest": sr_sgc(4, workers_at_once=2, length=1, window=2, waiting="fastest", tolerance=0.5),
}
BY_SCHEME = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)


def bursty(workers=4, seed=1):
    """Return workers in virtual time that are ten times slower for some rounds, now and then."""
    law = GilbertElliott(base=Deterministic(time=0.1), enter=0.1, leave=0.6, slowdown=10.0)
    job = ec.Workload(critical=1, redundancy=1.0, iterations=1, arrivals=ec.Arrivals.poisson(0.01))
    names = [ec.Worker(f"w{i}", mean=law.mean, std=law.std) for i in range(workers)]
    profile = ec.Profile(job, names).with_law("gilbert_elliott", enter=0.1, leave=0.6, slowdown=10.0)
    return VirtualCluster(emulate=profile, seed=seed)


@BY_SCHEME
@pytest.mark.parametrize("models", [1, 2, 7])
def test_models_are_those_of_plain_training_in_virtual_time(scheme, models):
    job, wanted = turns_of(scheme, 3, models=models)
    with ec.Stream(bursty(), adapt=False) as stream:
        done = stream.submit(job).delivery()
    assert done.error is None
    assert done.result.iterations == [ITERATIONS] * models
    np.testing.assert_allclose(done.result.states, wanted, rtol=1e-9)
    assert done.error_estimate.relative_to_result < 1e-10


class Straggling:
    """A gradient that one worker does not give before the others have finished some rounds."""

    def __init__(self):
        self.free, self.slow, self.calls = threading.Event(), None, 0
        self.lock = threading.Lock()

    def __call__(self, weights, chunk):
        me = threading.get_ident()
        with self.lock:
            self.slow = me if self.slow is None else self.slow
            self.calls += me != self.slow
        if self.slow == me:
            self.free.wait(LIMIT_S)
        return gradient(weights, chunk)


@pytest.mark.parametrize("name", ["M-SGC", "SR-SGC"])
def test_on_threads_a_round_ends_without_the_straggler(name):
    """Its first task is held back until a round is over, or a model took its step: without it, that is."""
    scheme, held = SCHEMES[name], Straggling()
    if name == "M-SGC":  # its own chunk is needed a round later: it is free when the first round is over

        class Rounds(ec.Observer):
            def round_over(self, seen):
                held.free.set()

        observers = [Rounds()]
    else:
        observers = []

    def stepped(weights, total):
        held.free.set()
        return descend(weights, total)

    job, wanted = turns_of(scheme, 4, partial=held, update=stepped)
    with ec.Stream("threads", workers=4, observers=observers) as stream:
        found = stream.submit(job).result(timeout=LIMIT_S)
    np.testing.assert_allclose(found.states, wanted, rtol=1e-9)


class Dies:
    """A gradient that kills the worker process that first computes it."""

    def __init__(self, path):
        self.path = str(path)

    def __call__(self, weights, chunk):
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return gradient(weights, chunk)
        os._exit(1)


@pytest.mark.parametrize("name", ["M-SGC", "SR-SGC"])
def test_a_worker_that_dies_costs_no_gradient(name, tmp_path):
    job, wanted = turns_of(SCHEMES[name], 5, partial=Dies(tmp_path / "spent"))
    with ec.Stream("processes", workers=4) as stream:
        found = stream.submit(job).result(timeout=LIMIT_S)
    np.testing.assert_allclose(found.states, wanted, rtol=1e-9)
    assert (tmp_path / "spent").exists()


@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("name", ["M-SGC", "SR-SGC"])
def test_nothing_is_left_of_runs_that_end_well_or_not(kind, name):
    def fails(weights, total):
        if fails.steps == 2:
            raise RuntimeError("no more")
        fails.steps += 1
        return descend(weights, total)

    fails.steps = 0
    cluster = COUNTED[kind](4)
    with ec.Stream(cluster) as stream:
        broken, _ = turns_of(SCHEMES[name], 6, update=fails)
        with pytest.raises(JobFailed, match="no more"):
            stream.submit(broken).result(timeout=LIMIT_S)
        job, wanted = turns_of(SCHEMES[name], 6)
        for _ in range(2):  # a job can be submitted again: what is under way is the run's
            np.testing.assert_allclose(stream.submit(job).result(timeout=LIMIT_S).states, wanted, rtol=1e-9)
        with stream._out.changed:
            assert stream._out.changed.wait_for(lambda: not stream._out.outstanding(), LIMIT_S)
        assert not holds(cluster)
        assert not getattr(cluster, "held", ())


def test_a_run_goes_on_from_a_journal(tmp_path):
    """The first run ends after some rounds; models keep their steps, gradients under way begin again."""
    scheme = SCHEMES["M-SGC, long bursts"]
    job, wanted = turns_of(scheme, 7)

    class Stop(ec.Observer):
        def round_over(self, seen):
            if seen.iteration >= 12:
                ended.set()

    ended = threading.Event()
    stream = ec.Stream("threads", workers=4, journal=tmp_path / "run.db", observers=[Stop()])
    stream.submit(job, key="turns")
    assert ended.wait(LIMIT_S)
    stream.close(wait=False)
    with ec.Stream("threads", workers=4, journal=tmp_path / "run.db") as stream:
        found = stream.submit(job, key="turns").result(timeout=LIMIT_S)
    np.testing.assert_allclose(found.states, wanted, rtol=1e-9)


def test_a_form_that_changes_and_an_update_without_a_result_fail_the_job():
    scheme = SCHEMES["M-SGC"]

    def mixed(weights, chunk):  # chunks of the coded groups are smaller than own ones
        return gradient(weights, chunk)[: 4 if len(chunk[1]) > 15 else 3]

    for options, said in [({"partial": mixed}, "must give one form"), ({"update": lambda w, _: None}, "None")]:
        job, _ = turns_of(scheme, 8, **options)
        with ec.Stream("virtual", workers=4) as stream, pytest.raises(JobFailed, match=said):
            stream.submit(job).result()


def test_jobs_that_fit_no_stream_or_scheme_are_refused():
    scheme = SCHEMES["M-SGC"]
    job, _ = turns_of(scheme, 9)
    with ec.Stream("virtual", workers=3) as stream, pytest.raises(ArgumentError, match="it is for 4 workers"):
        stream.submit(job)
    usual = {"partial": gradient, "update": descend, "states": [0.0], "iterations": 1, "chunks": chunks(scheme, 1)}
    for wrong, said in [
        ({"chunks": [1, 2]}, r"chunks: 2 are not allowed; must be 8"),
        ({"states": []}, "states: empty"),
        ({"iterations": 0}, "iterations: 0"),
        ({"partial": 3}, "partial: 3"),
        ({"cost": 0.0}, "cost: 0.0"),
    ]:
        with pytest.raises(ArgumentError, match=said):
            TurnJob(scheme, **(usual | wrong))
    with pytest.raises(ArgumentError, match="scheme: "):
        TurnJob("m_sgc", **usual)


def test_chunks_may_be_loaded_where_they_are_needed():
    scheme = SCHEMES["SR-SGC"]
    held = chunks(scheme, 10)
    job = TurnJob(
        scheme, partial=gradient, update=descend, states=[np.zeros(4)], iterations=2, load=held.__getitem__
    )  # fmt: skip
    with ec.Stream("virtual", workers=4) as stream:
        (found,) = stream.submit(job).result().states
    state = np.zeros(4)
    for _ in range(2):
        state = descend(state, sum(gradient(state, chunk) for chunk in held))
    np.testing.assert_allclose(found, state, rtol=1e-9)
