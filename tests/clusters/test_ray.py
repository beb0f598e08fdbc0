"""What is particular to Ray: whose it is and who ends it, what workers occupy, jobs of all kinds, what is left."""

import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import echelon as ec
from echelon import schemes
from echelon.clusters import Down, Message
from echelon.clusters.ray import RayCluster
from echelon.errors import ArgumentError, ClusterError
from tests.clusters import works
from tests.clusters.desk import LIMIT_S, Desk, tasks
from tests.stream.jobs import linear_job, linear_result, normalised, sum_job, sum_result
from tests.stream.test_blocks import by_block, residuals, step

WORKERS = 3

# jobs of all kinds, on one stream


@pytest.fixture(scope="module")
def stream(local_ray):
    with ec.Stream("ray", workers=WORKERS, redundancy=1.5) as opened:
        yield opened


def test_sums_with_redundancy_are_those_of_one_process(stream):
    handles = [stream.submit(sum_job(seed)) for seed in range(3)]
    for seed, handle in enumerate(handles):
        np.testing.assert_allclose(handle.result(LIMIT_S), sum_result(seed), rtol=1e-9)


def test_products_with_a_vector_are_those_of_one_process(stream):
    np.testing.assert_allclose(stream.submit(linear_job()).result(LIMIT_S), linear_result(), rtol=1e-6)


def test_large_states_and_large_results_arrive_as_they_were_sent(stream):
    size = 100_000

    def grow(state, total):
        state = state * 0.5
        state += total / 8
        return state

    job = ec.SumJob(
        partial=lambda state, chunk: state * chunk, update=grow, state=np.arange(float(size)), chunks=[1.0, 3.0] * 2,
        iterations=5,
    )  # fmt: skip
    np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), 1.5**5 * np.arange(float(size)), rtol=1e-9)


def test_a_worker_may_return_the_same_memory_for_every_part(stream):
    """A large result is copied when it is yielded: the next part must not be written there before that."""
    job = ec.SumJob(partial=_reuse, update=normalised, state=1.0, chunks=[float(i) for i in range(12)], iterations=2)
    state = 1.0
    for _ in range(2):
        state = normalised(state, np.full(50_000, 66 * np.mean(state)))
    np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), state, rtol=1e-9)


BUFFER = np.zeros(50_000)


def _reuse(state, chunk):
    BUFFER[:] = chunk * np.mean(state)
    return BUFFER


@pytest.mark.parametrize(
    "make",
    [
        lambda: schemes.gradient_coding(workers=WORKERS, load=2),
        lambda: schemes.multi_message(workers=WORKERS, load=2, order=1),
        lambda: schemes.uncoded_multi_message(workers=WORKERS, load=2),
    ],
    ids=["one message", "multi-message", "uncoded"],
)
def test_plans_with_several_slots_run(stream, make):
    job = ec.SumJob(
        partial=lambda state, chunk: 2.0 * state * chunk, update=normalised, state=np.ones(4), iterations=4,
        chunks=list(np.random.default_rng(1).uniform(0.5, 1.5, (WORKERS, 4))), plan=make(),
    )  # fmt: skip
    state = np.ones(4)
    total = np.random.default_rng(1).uniform(0.5, 1.5, (WORKERS, 4)).sum(axis=0)
    for _ in range(4):
        state = normalised(state, 2.0 * state * total)
    np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), state, rtol=1e-9)


def test_gradients_by_blocks_are_those_of_one_process(stream):
    data = np.random.default_rng(1).standard_normal((30, 6))
    labels = (data.sum(axis=1) > 0).astype(float)
    job = ec.BlockJob(
        partial=by_block, prepare=residuals, update=step, state=np.zeros(6), iterations=4,
        chunks=[(data[i::WORKERS], labels[i::WORKERS]) for i in range(WORKERS)],
        plan=schemes.block_coordinate(WORKERS, [2, 3, 1]),
    )  # fmt: skip
    weights = np.zeros(6)
    for _ in range(4):
        weights = weights - 0.1 * data.T @ residuals(weights, (data, labels))
    np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), weights, rtol=1e-9)


def test_a_task_that_raises_fails_its_job_and_no_other(stream):
    bad = sum_job()
    bad.partial = lambda state, chunk: 1 / 0
    failed, good = stream.submit(bad), stream.submit(sum_job(2))
    with pytest.raises(ec.JobFailed, match="ZeroDivisionError"):
        failed.result(LIMIT_S)
    np.testing.assert_allclose(good.result(LIMIT_S), sum_result(2), rtol=1e-9)


def test_a_killed_worker_costs_no_job(stream):
    handle = stream.submit(sum_job(3))
    cluster = stream._cluster
    cluster.kill(max(cluster.pids()))
    np.testing.assert_allclose(handle.result(LIMIT_S), sum_result(3), rtol=1e-9)
    np.testing.assert_allclose(stream.submit(sum_job(4)).result(LIMIT_S), sum_result(4), rtol=1e-9)


def test_chains_of_products_run(local_ray):
    rng = np.random.default_rng(1)
    pairs = [(rng.standard_normal((6, 5)), rng.standard_normal((5, 6))) for _ in range(6)]
    scheme = schemes.diagonal_interleaved(2, x=1, y=3, delay=1, tolerance=0.1)
    with ec.MatmulStream(RayCluster(scheme.workers, resources={"num_cpus": 0.5}), scheme) as products:
        for (left, right), found in zip(pairs, products.products(pairs), strict=True):
            np.testing.assert_allclose(found, left @ right, atol=1e-8)


# what workers find


def test_no_message_is_lost_when_a_generator_gives_way_to_the_next(local_ray, monkeypatch):
    """Each is to yield four items here: eighty rounds need many, on every worker."""
    monkeypatch.setattr("echelon.clusters.ray._ITEMS", 4)
    with ec.Stream("ray", workers=WORKERS, redundancy=1.5) as stream:
        found = stream.submit(sum_job(iterations=80)).delivery(LIMIT_S)
        assert found.iterations == 80
        np.testing.assert_allclose(found.result, sum_result(iterations=80), rtol=1e-9)
        np.testing.assert_allclose(stream.submit(sum_job(2)).result(LIMIT_S), sum_result(2), rtol=1e-9)


def test_workers_use_one_thread_for_linear_algebra(lent_ray):
    cluster = lent_ray()
    desk = Desk(cluster)
    cluster.load(1, works.Plain(_threads))
    worker = desk.start()[0]
    cluster.broadcast(1, 1, None)
    cluster.assign(worker, 1, tasks(0))
    assert desk.wait(Message)[0].segments[0].tolist() == [1.0]
    cluster.close()


def _threads(state, part):
    return np.array([float(os.environ["OPENBLAS_NUM_THREADS"])])


def test_work_that_kills_its_worker_while_it_is_unpickled_is_known_to_be_at_its_row(lent_ray):
    cluster = lent_ray()
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Deadly())
    cluster.broadcast(1, 1, 0.0)
    cluster.assign(worker, 1, tasks(7))
    assert desk.wait(Down)[0].at == (1, 0, 7)
    cluster.close()


def test_nothing_stays_in_the_object_store(lent_ray, local_ray):
    """States and messages of 400 kB, for 60 rounds: what is in use at the end is what was at the beginning."""
    cluster = lent_ray()
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Scaled(50_000))

    def rounds(first, last):
        for round in range(first, last):
            cluster.broadcast(round, 1, np.zeros(50_000))
            cluster.assign(worker, round, tasks(0))
            desk.wait(Message, 1, lambda message, round=round: message.round == round)
            desk.reports.clear()
            cluster.purge(round)

    rounds(1, 6)
    before = _stored(local_ray)
    rounds(6, 66)
    end = time.monotonic() + LIMIT_S
    while _stored(local_ray) > before + 5e5:
        assert time.monotonic() < end, (before, _stored(local_ray))
    cluster.close()


def _stored(ray):
    return ray.cluster_resources()["object_store_memory"] - ray.available_resources()["object_store_memory"]


# what workers occupy


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"workers": 50}, r"50 workers want CPU 50, and the Ray cluster has .*CPU 8"),
        ({"workers": 1, "resources": {"num_gpus": 1}}, "no node of the Ray cluster has GPU 1"),
        ({"resources": [{"num_cpus": 1}, {"resources": {"fast": 1}}]}, "no node of the Ray cluster has fast 1"),
    ],
)
def test_too_few_resources_are_one_clear_error(local_ray, asked, said):
    with pytest.raises(ClusterError, match=said):
        RayCluster(**asked)


@pytest.mark.parametrize("asked", [{"workers": 8}, {}], ids=["eight workers", "one on each processor"])
def test_what_others_occupy_is_said(local_ray, stream, asked):
    with pytest.raises(ClusterError, match=r"found no room in 0\.2 s: CPU 8 is wanted, and of CPU 8.* is free"):
        RayCluster(**asked, start_s=0.2)


@pytest.mark.parametrize(
    "asked",
    [
        {"workers": 2, "resources": [{"num_cpus": 1}]},
        {"workers": 2, "resources": "gpu"},
        {"workers": 2, "resources": {"cpus": 1}},
        {"workers": 2, "resources": {"num_cpus": -1}},
        {"resources": []},
        {"workers": 2, "address": "ray://somewhere:10001"},
        {"workers": 2, "address": "somewhere"},
        {"workers": 2, "start_s": 0},
    ],
)
def test_senseless_arguments_are_refused(local_ray, asked):
    with pytest.raises(ArgumentError, match="is not allowed"):
        RayCluster(**asked)


def test_one_worker_a_node(local_ray):
    cluster = RayCluster(resources="node")
    try:
        assert cluster.workers == 1
        Desk(cluster).start(1)
    finally:
        cluster.close()
    assert local_ray.is_initialized()


def test_an_address_where_nobody_listens_is_an_error():
    script = "import echelon as ec; ec.Stream(ec.clusters.RayCluster(1, address='127.0.0.1:1'))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S)
    assert "ClusterError: address: no Ray cluster is available at 127.0.0.1:1" in ended.stderr


# a Ray of our own


def test_a_ray_of_our_own_is_on_the_loopback_and_in_a_folder_of_ours_alone_and_ends_with_the_cluster():
    """In another process, since this one has a Ray already."""
    ended = subprocess.run([sys.executable, "-c", OWN], capture_output=True, text=True, timeout=2 * LIMIT_S)
    assert ended.returncode == 0, ended.stderr
    said = [line for line in ended.stdout.split("\n") if "(raylet)" not in line]  # of Ray, on workers that we end
    folder, listening, left, threads, folders = said[:5]
    assert folder == "open to: 0o700 True"
    assert set(listening.split()) <= {"0100007F", "0000000000000000FFFF00000100007F"}
    assert listening
    assert (left, threads, folders) == ("left: 0", "threads: 0", "folders: 0")


OWN = textwrap.dedent(
    """
    import contextlib, glob, os, select, threading
    from echelon.clusters import CLUSTERS, Up

    def ours():
        found = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                if f"ECHELON_TEST={os.getpid()}\\0" in open(path).read():
                    found.append(path.split("/")[2])
            except OSError:
                pass
        return found

    def listening(pids):
        sockets = set()
        for pid in pids:
            for path in glob.glob(f"/proc/{pid}/fd/*"):
                try:
                    sockets.add(os.readlink(path))
                except OSError:
                    pass
        return {
            line.split()[1].split(":")[0]
            for kind in ("tcp", "tcp6")
            for line in open(f"/proc/net/{kind}").read().splitlines()[1:]
            if line.split()[3] == "0A" and f"socket:[{line.split()[9]}]" in sockets
        }

    os.environ["ECHELON_TEST"] = str(os.getpid())
    os.environ.pop("RAY_ADDRESS", None)
    before = threading.active_count()
    cluster = CLUSTERS["ray"](3)
    up = 0
    while up < 3:
        up += sum(isinstance(report, Up) for report in cluster.poll(None))
    folder = cluster._session._folder
    print("open to:", oct(os.stat(folder).st_mode & 0o777), os.stat(folder).st_uid == os.getuid())
    print(*listening([os.getpid(), *ours()]))
    cluster.close()
    cluster.close()
    for pid in ours():
        with contextlib.suppress(ProcessLookupError):  # it has ended by now
            select.select([os.pidfd_open(int(pid))], [], [], 20)
    print("left:", len(ours()))
    print("threads:", threading.active_count() - before)
    print("folders:", int(os.path.exists(folder)))
    """
)
