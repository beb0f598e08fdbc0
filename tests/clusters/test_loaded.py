"""Every cluster in the registry: what is packed and loaded is there, once, and gone when it is unloaded."""

import threading

import numpy as np
import pytest

from echelon.clusters import Down, Message, Trouble, Up
from tests.clusters import works
from tests.clusters.desk import LIMIT_S, Desk, tasks
from tests.clusters.kinds import NO_SUCCESSORS


def packed_sum(cluster, desk, worker, round, keys):
    """Return part 5 plus the sum of what the keys name, from a worker."""
    cluster.broadcast(round, 1, works.Looked(keys))
    cluster.assign(worker, round, tasks(5))
    (message,) = desk.wait(Message, 1, lambda message: message.round == round)
    found = float(message.segments[0][0])
    cluster.release(message)
    cluster.purge(round)
    return found


@pytest.mark.parametrize("size", [3, 5000], ids=["small", "large"])
def test_what_is_packed_is_a_copy_that_can_be_read_and_loaded(cluster, size):
    """Later changes of the array reach neither the copy nor the workers."""
    desk = Desk(cluster)
    worker = desk.start()[0]
    array = np.ones(size)
    packed = cluster.pack(array)
    array[:] = 7.0
    np.testing.assert_array_equal(packed.value, np.ones(size))
    cluster.load(1, works.Plain(works.added))
    cluster.load(2, packed)
    assert packed_sum(cluster, desk, worker, 1, [2]) == 5.0 + size


def test_a_state_finds_what_was_loaded_under_other_keys(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Plain(works.added))
    cluster.load(2, cluster.pack(np.full(2000, 0.5)))
    cluster.load(1 << 48, np.array([10.0]))  # what is not packed can be loaded as well, under large numbers, too
    assert packed_sum(cluster, desk, worker, 1, [2, 1 << 48]) == 1015.0
    assert packed_sum(cluster, desk, worker, 2, []) == 5.0
    cluster.load(2, cluster.pack(np.ones(3)))  # takes the place of what was there
    assert packed_sum(cluster, desk, worker, 3, [2]) == 8.0


def test_one_packed_value_can_be_loaded_under_many_keys_and_again(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    packed = cluster.pack({"a": np.ones(4)}["a"])
    cluster.load(1, works.Plain(works.added))
    for key in (2, 3):
        cluster.load(key, packed)
    assert packed_sum(cluster, desk, worker, 1, [2, 3]) == 13.0
    cluster.unload(2)
    assert packed_sum(cluster, desk, worker, 2, [3]) == 9.0
    cluster.load(2, packed)
    assert packed_sum(cluster, desk, worker, 3, [2]) == 9.0


def test_what_was_loaded_is_made_once_on_a_worker(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Plain(works.same_object))
    cluster.load(2, cluster.pack(np.ones(9000)))
    cluster.broadcast(1, 1, works.Looked([2]))
    cluster.assign(worker, 1, tasks(0))
    assert desk.wait(Message)[0].segments[0][0] == 1.0


def test_what_was_unloaded_is_missed_by_name(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Plain(works.added))
    cluster.load(2, cluster.pack(np.ones(3)))
    cluster.unload(2)
    cluster.broadcast(1, 1, works.Looked([2]))
    cluster.assign(worker, 1, tasks(0))
    assert "KeyError: 2" in desk.wait(Trouble)[0].cause.traceback


@NO_SUCCESSORS
def test_a_newcomer_finds_what_was_loaded_before_it_came(cluster):
    desk = Desk(cluster)
    workers = desk.start()
    cluster.load(1, works.Plain(works.added))
    cluster.load(2, cluster.pack(np.ones(3000)))
    cluster.kill(workers[0])
    desk.wait(Down)
    new = desk.wait(Up, 4)[-1]
    assert packed_sum(cluster, desk, new.worker, 1, [2]) == 3005.0


def test_values_can_be_packed_from_many_threads_at_once(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    packed = {}
    threads = [
        threading.Thread(target=lambda i=i: packed.update({i: [cluster.pack(np.full(700, i)) for _ in range(5)]}))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    cluster.load(1, works.Plain(works.added))
    for i in range(8):
        cluster.load(10 + i, packed[i][-1])
    assert packed_sum(cluster, desk, worker, 1, range(10, 18)) == 5.0 + 700 * 28
