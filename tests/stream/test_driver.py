"""The driver on a cluster that answers at once: nothing piles up over many rounds."""

import gc
import sys
import time

import numpy as np

from echelon import trees
from echelon.clusters import Message, Up
from echelon.clusters.adding import Adding
from echelon.codes import Decoder, uncoded
from echelon.jobs import SumJob
from echelon.master.machine import Master
from echelon.stream.driver import Driver
from echelon.stream.kept import Store
from echelon.stream.observer import Observer, Observers, Running
from echelon.stream.pacing import Pacing

ROUNDS = 100_000
WARM = 5_000


class Echo(Adding):
    """A cluster of one worker that has the result of every task at once, and counts what it has lent out."""

    workers, virtual = 1, False

    def now(self):
        return time.monotonic()

    def __init__(self):
        super().__init__()
        self.reports = [Up(0, 0)]
        self.lent = self.most_lent = 0
        self.form, self.segments = trees.flatten(np.ones(4))

    def load(self, key, work):
        pass

    def unload(self, key):
        pass

    def broadcast(self, round, key, state):
        pass

    def purge(self, round):
        pass

    def wake(self):
        pass

    def doing(self):
        return []

    def assign(self, worker, round, tasks):
        for task in tasks:
            self.reports.append(Message(worker, round, task.slot, task.row, 1e-3, self.form, self.segments))
            self.lent += 1
        self.most_lent = max(self.most_lent, self.lent)

    def release(self, message):
        self.lent -= 1

    def poll(self, timeout_s):
        reports, self.reports = self.reports, []
        return reports


class Sizes(Observer):
    """Notes how many blocks of memory Python holds, early and late."""

    def __init__(self):
        self.sizes = {}

    def stepped(self, running, seen, finished):
        if running.iteration in (WARM, ROUNDS - 1):
            gc.collect()  # what waits for the collector is not held
            self.sizes[running.iteration] = sys.getallocatedblocks()

    def delivered(self, time_s, running, outcome, error):
        assert not error, error


def test_memory_is_bounded_by_the_messages_of_one_round_over_a_hundred_thousand_rounds():
    cluster, sizes = Echo(), Sizes()
    master = Master(patience=60.0)
    driver = Driver(cluster, master.handle, Pacing(1, "theorem2", None), Observers(sizes))
    job = SumJob(
        partial=len, update=lambda state, total: total, state=np.ones(4), chunks=[0, 1], until=bool
    )  # fmt: skip
    code = uncoded(parts=2)
    driver.order(lambda: driver.submit(Running(0, "long", job, (code,), (Decoder(code),), job.state, 0.0, Store())))
    job.until = lambda state: master.round >= ROUNDS and (driver.stop() or True)
    driver.run()
    assert master.round == ROUNDS
    assert cluster.lent == 0
    assert cluster.most_lent <= 2
    assert sizes.sizes[ROUNDS - 1] - sizes.sizes[WARM] < 1000
