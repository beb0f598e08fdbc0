"""Rows that stay with their ranks: run by test_mpi.py under mpiexec, with three, five and eight workers."""

import threading

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import Added, Message, MpiCluster, Sum
from tests.clusters.added import Tree, Vectors, announced, total_of
from tests.clusters.desk import Desk, tasks

LIMIT_S = 60.0
LARGE = 1 << 20  # numbers of a state of 8 MB


@pytest.fixture
def cluster():
    made = MpiCluster()
    yield made
    made.close()


def test_a_sum_of_rows_that_lie_elsewhere_is_exact(cluster):
    desk = Desk(cluster)
    workers = desk.start(cluster.workers)
    work = Vectors(size=100_003)
    messages = announced(cluster, desk, workers, work)
    weights = np.linspace(-1.0, 2.0, len(messages))
    total = total_of(cluster, desk, 1, weights, messages)
    expected = sum(w * work.row_of(m.row) for w, m in zip(weights, messages, strict=True))
    np.testing.assert_allclose(total.segments[0], expected, atol=1e-13)
    assert total.largest[0] == np.abs(total.segments[0]).max()
    np.testing.assert_array_equal(total.sizes[0], [np.abs(work.row_of(m.row)).max() for m in messages])


def test_complex_weights_weights_of_zero_and_sums_side_by_side(cluster):
    desk = Desk(cluster)
    workers = desk.start(cluster.workers)
    work = Vectors(size=50_000)
    messages = announced(cluster, desk, workers, work)
    wave = np.exp(1j * np.arange(len(messages)))
    none = np.zeros(len(messages))
    one = np.eye(len(messages))[-1]
    cluster.add(1, (Sum(wave, messages), Sum(none, messages), Sum(one, messages)))
    (added,) = desk.wait(Added)
    rows = [work.row_of(message.row) for message in messages]
    np.testing.assert_allclose(added.totals[0].segments[0], wave @ np.array(rows), atol=1e-13)
    assert not added.totals[1].segments[0].any()
    np.testing.assert_array_equal(added.totals[2].segments[0], rows[-1])


def test_what_is_not_finite_shows(cluster):
    desk = Desk(cluster)
    workers = desk.start(cluster.workers)
    messages = announced(cluster, desk, workers, Vectors(size=50_000, last=np.nan))
    assert not np.isfinite(total_of(cluster, desk, 1, np.ones(len(messages)), messages).largest[0])


def test_releasing_a_row_ends_the_sum_and_the_next_one_is_right(cluster):
    desk = Desk(cluster)
    workers = desk.start(cluster.workers)
    work = Vectors(size=LARGE)
    messages = announced(cluster, desk, workers, work)
    cluster.add(1, (Sum(np.full(len(messages), 3.0), messages),))
    cluster.release(messages[0])
    left = messages[1:]
    total = total_of(cluster, desk, 2, np.ones(len(left)), left)
    assert [report.round for report in desk.reports if isinstance(report, Added)] == [2]
    np.testing.assert_allclose(total.segments[0], sum(work.row_of(m.row) for m in left), atol=1e-13)


def test_rows_that_came_to_the_master_are_added_to_those_that_did_not(cluster):
    desk = Desk(cluster)
    workers = desk.start(cluster.workers)
    work = Vectors(size=50_000)
    messages = announced(cluster, desk, workers, work)
    here = messages[0]._replace(segments=[work.row_of(messages[0].row)], token=None)
    total = total_of(cluster, desk, 1, np.full(len(messages), 2.0), [here, *messages[1:]])
    np.testing.assert_allclose(total.segments[0], 2.0 * sum(work.row_of(m.row) for m in messages), atol=1e-13)


def grown(state, chunk):
    return state * chunk


def step(state, total):
    return total / (1.0 + np.abs(total).max())


def plain(state, chunks, iterations):
    for _ in range(iterations):
        state = step(state, state * sum(chunks))
    return state


@pytest.mark.parametrize("redundancy", [1.0, 1.5])
def test_a_large_state_leaves_the_master_once_and_a_large_total_comes_once(redundancy):
    cluster = MpiCluster()
    counts, iterations = [], 6

    def counted(state, total):
        counts.append(cluster._link.nbytes)
        return step(state, total)

    start, chunks = np.linspace(0.5, 1.5, LARGE), [0.5 + i for i in range(cluster.workers)]
    job = ec.SumJob(partial=grown, update=counted, state=start, chunks=chunks, iterations=iterations)
    with ec.Stream(cluster, redundancy=redundancy) as stream:
        found = stream.submit(job).result(LIMIT_S)
    np.testing.assert_allclose(found, plain(start, chunks, iterations), rtol=1e-9)
    moved = np.diff(counts)
    # a rank that the round before did without may have been late for its state: it gets the next one by itself
    late = cluster.workers - round(cluster.workers / redundancy)
    assert moved.max() <= (2.2 + late) * start.nbytes + 100_000, moved / start.nbytes


@pytest.mark.parametrize("messages", [None, "bfloat16"])
def test_sums_of_several_segments_and_of_narrow_messages(messages):
    narrow = {"messages": messages} if messages else {}
    work = Tree(np.float32 if messages else np.float64)
    chunks = [1.0 + i for i in range(7)]
    job = ec.SumJob(partial=work, update=lambda state, total: total, state=1.0, chunks=chunks, iterations=1, **narrow)
    with ec.Stream("mpi", redundancy=1.0 if messages else 1.5) as stream:
        found = stream.submit(job).result(LIMIT_S)
    for name, expected in work(1.0, sum(chunks)).items():
        assert found[name].dtype == expected.dtype
        np.testing.assert_allclose(found[name], expected, rtol=2.0**-7 if messages else 1e-5)


def test_a_job_that_is_cancelled_while_it_is_added_up_leaves_the_next_one_alone():
    cluster = MpiCluster()
    adding = threading.Event()
    inner = cluster.add

    def add(round, sums):
        inner(round, sums)
        adding.set()

    cluster.add = add
    start, chunks = np.ones(LARGE), [0.5 + i for i in range(cluster.workers)]
    with ec.Stream(cluster, redundancy=1.0) as stream:
        endless = stream.submit(ec.SumJob(partial=grown, update=step, state=start, chunks=chunks, iterations=10_000))
        assert adding.wait(LIMIT_S)
        endless.cancel()
        job = ec.SumJob(partial=grown, update=step, state=start, chunks=chunks, iterations=3)
        np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), plain(start, chunks, 3), rtol=1e-9)


def test_small_rows_come_to_the_master(cluster):
    desk = Desk(cluster)
    worker = desk.start(cluster.workers)[0]
    cluster.load(1, Vectors(size=100))
    cluster.broadcast(1, 1, 0.0)
    cluster.assign(worker, 1, tasks(3))
    assert not desk.wait(Message)[0].elsewhere
