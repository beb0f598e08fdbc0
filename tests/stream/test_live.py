"""Streams on real worker processes: right results under kills, and emulated workers that behave as predicted."""

import os
import re
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import echelon as ec
from echelon.delays.base import DRAWN
from echelon.profile import Speeds
from echelon.seeds import place_generator
from echelon.stream import read_record
from tests.clusters.test_processes import descriptors, opened
from tests.stream.jobs import linear_job, linear_result, sum_job, sum_result

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="worker processes need Linux")
EXAMPLE = Path(__file__).parents[2] / "examples" / "example2.toml"


def test_a_stream_of_jobs_on_processes_gives_what_one_process_gives():
    with ec.Stream(workers=3, redundancy=1.2) as stream:
        for seed in range(3):
            stream.submit(sum_job(seed))
            stream.submit(linear_job(seed))
        found = list(stream.deliveries())
    for done in found:
        seed = done.number // 2
        wanted = linear_result(seed) if done.number % 2 else sum_result(seed)
        np.testing.assert_allclose(done.result, wanted, rtol=1e-8)


def test_functions_defined_anywhere_reach_the_workers():
    scale = 3.0
    job = ec.SumJob(
        partial=lambda state, chunk: scale * chunk * state,
        update=lambda state, total: total / 18.0,
        state=1.0,
        chunks=[1.0, 2.0, 3.0],
        iterations=3,
    )
    with ec.Stream(workers=2) as stream:
        assert float(stream.submit(job).result()) == pytest.approx(1.0)


def test_memory_mapped_chunks_travel_by_the_name_of_their_file(tmp_path):
    data = np.random.default_rng(1).uniform(0.5, 1.5, (12, 4))
    np.save(tmp_path / "data.npy", data)
    mapped = np.load(tmp_path / "data.npy", mmap_mode="r")
    from echelon.clusters import shipping

    pickled, beside = shipping.pack([mapped[i : i + 4] for i in range(0, 12, 4)])
    assert beside == []
    for chunk, wanted in zip(shipping.unpack(pickled, b"", []), np.split(data, 3), strict=True):
        assert isinstance(chunk, np.memmap)
        np.testing.assert_array_equal(chunk, wanted)
    job = sum_job()
    job._chunks = list(mapped)
    with ec.Stream(workers=2, redundancy=1.3) as stream:
        np.testing.assert_allclose(stream.submit(job).result(), sum_result(), rtol=1e-9)


def test_workers_killed_all_the_time_change_no_result_and_leave_nothing_behind():
    cluster = ec.clusters.ProcessCluster(3)
    before = descriptors()
    rng = np.random.default_rng(1)
    over = threading.Event()
    handles, kills = [], []

    def killer():
        """Kill a worker whenever the stream has got on by a few iterations."""
        last = 0
        while not over.wait(0.001):
            done = sum(handle.progress.iteration for handle in handles)
            alive = list(cluster.pids())
            if alive and done >= last + 6:
                last = done
                cluster.kill(int(rng.choice(alive)))
                kills.append(last)

    thread = threading.Thread(target=killer)
    with ec.Stream(cluster, redundancy=1.3) as stream:
        thread.start()
        try:
            for seed in range(6):
                handles.append(stream.submit(sum_job(seed, iterations=60)))
                handles.append(stream.submit(linear_job(seed, size=300, iterations=60)))
            found = list(stream.deliveries())
        finally:
            over.set()
            thread.join()
    assert [done.number for done in found] == list(range(12))
    for done in found:
        seed = done.number // 2
        wanted = linear_result(seed, 300, 60) if done.number % 2 else sum_result(seed, iterations=60)
        np.testing.assert_allclose(done.result, wanted, rtol=1e-6)
    assert len(kills) > 20
    assert not opened(before)


def test_a_task_that_kills_its_workers_fails_its_job_alone():
    deadly = sum_job(chunks=4)
    deadly.partial = lambda state, chunk: os._exit(1)
    with ec.Stream(workers=2, redundancy=1.0) as stream:
        with pytest.raises(ec.JobFailed, match="was the work of 20 workers when they died") as caught:
            stream.submit(deadly).result(120)
        assert re.search(
            r"\(the last one: process \d+ .*\); it is given up \(on worker \d+, chunk \d\)", str(caught.value)
        )
        np.testing.assert_allclose(stream.submit(sum_job()).result(120), sum_result(), rtol=1e-9)


def test_patience_may_be_longer_than_a_system_can_wait():
    with ec.Stream(workers=2, patience_s=365 * 86_400.0) as stream:
        np.testing.assert_allclose(stream.submit(sum_job()).result(60), sum_result(), rtol=1e-9)


def test_emulated_workers_take_the_times_that_their_laws_draw(tmp_path):
    """Every task takes the time that its place's law draws for it, and no round ends before these times allow it."""
    profile = ec.read_profile(EXAMPLE)
    scale = 0.05
    speeds = profile.speeds
    quick = profile.with_speeds(Speeds(scale * speeds.mean, scale * speeds.std, scale * speeds.link))
    plan = ec.schemes.any_k(ec.split_rows(quick).counts, 50)
    path = tmp_path / "run"
    rounds = 40
    options = {"redundancy": 1.1, "adapt": False, "patience_s": 60.0}  # a busy machine makes nobody late
    with ec.Stream(emulate=quick, profile=quick, record=path, seed=5, **options) as stream:
        done = stream.submit(linear_job(size=100, parts=50, iterations=rounds)).delivery()
    np.testing.assert_allclose(done.result, linear_result(size=100, iterations=rounds), rtol=1e-8)

    drawn = {}
    for place, (law, lane) in enumerate(zip(ec.delays.task_laws(quick), plan.lanes, strict=True)):
        rng = place_generator(5, place)
        memory = law.begin(1, rng)
        for number in range(rounds):
            times, memory = law.advance(memory, (1, 1, DRAWN), rng)
            for task, time in zip(lane, times[0, 0], strict=False):
                drawn[number, place, task.row] = time
    record = read_record(path)
    assert len(record.rounds) == rounds
    for number, seen in enumerate(record.rounds):
        assert len(seen.messages) == 50
        spent = dict(enumerate(quick.speeds.link))
        for place, _, row, arrival, seconds, _ in seen.messages:
            assert seconds == pytest.approx(drawn[number, place, row], abs=1e-8)
            spent[place] += drawn[number, place, row]
            assert arrival > spent[place] - 1e-4


def test_a_stopped_worker_process_holds_up_no_job():
    """Each of these rounds needs every row, and took thirty seconds of silence before."""
    cluster = ec.clusters.ProcessCluster(3)
    with ec.Stream(cluster, redundancy=1.0, progress=False) as stream:
        stream.submit(sum_job(iterations=5)).result(60)
        pid = cluster.pids()[max(cluster.pids())]
        os.kill(pid, signal.SIGSTOP)
        found = stream.submit(sum_job(iterations=20)).result(60)
    np.testing.assert_allclose(found, sum_result(iterations=20), rtol=1e-9)
