"""Work whose rows are only added up, for tests of clusters that add them where they lie."""

import os

import numpy as np

from echelon.clusters import Added, Message, Sum
from tests.clusters.desk import tasks


class Vectors:
    """Row r is a vector of its own, plus the sum of the state; its `last` number may be another one."""

    added = True

    def __init__(self, size, last=None):
        self.size, self.last = size, last

    def row(self, slot, row):
        return (row,), np.ones(1)

    def part(self, state, part):
        return self.row_of(part, state)

    def row_of(self, row, state=0.0):
        found = np.sin(np.arange(self.size) * (row + 1.0)) + np.sum(state)
        if self.last is not None:
            found[-1] = self.last
        return found


class Pids:
    """A part is the number of the process that computes it."""

    def row(self, slot, row):
        return (row,), np.ones(1)

    def part(self, state, part):
        return np.array([float(os.getpid())])


class Tree:
    """A tree of arrays of two types, or of one."""

    def __init__(self, other):
        self.other = other

    def __call__(self, state, chunk):
        return {
            "a": np.full((300, 400), chunk * state, np.float32),
            "b": chunk * np.linspace(1.0, 2.0, 70_001).astype(self.other),
        }


def announced(cluster, desk, workers, work, round=1, state=0.0):
    """Have each worker compute the row of its number; return the messages, which lie there."""
    cluster.load(round, work)
    cluster.broadcast(round, round, state)
    for worker in workers:
        cluster.assign(worker, round, tasks(worker))
    found = desk.wait(Message, len(workers), lambda message: message.round == round)
    assert all(message.elsewhere for message in found)
    return sorted(found, key=lambda message: message.row)


def total_of(cluster, desk, round, weights, messages):
    """Return the sum of messages."""
    cluster.add(round, (Sum(weights, messages),))
    (added,) = desk.wait(Added, 1, lambda added: added.round == round)
    return added.totals[0]


def pids(cluster, desk, workers, round):
    """Return the processes of workers."""
    cluster.load(round, Pids())
    cluster.broadcast(round, round, None)
    for worker in workers:
        cluster.assign(worker, round, tasks(0))
    found = desk.wait(Message, len(workers), lambda message: message.round == round)
    return {message.worker: int(message.segments[0][0]) for message in found}
