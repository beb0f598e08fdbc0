"""Jobs that do not know yet whether a round was their last: the stream goes on hearing, and waits."""

from echelon.cause import Cause
from echelon.clusters import VirtualCluster
from echelon.clusters.base import Trouble
from echelon.codes import uncoded
from echelon.jobs import RoundJob
from echelon.jobs.hollow import HollowWork
from echelon.schemes import coded_rows
from echelon.stream import Stream


class Undecided(RoundJob):
    """One round on one worker; whoever has `decide` says when it ends."""

    parts = 1

    def __init__(self):
        super().__init__(name=None, tolerance=None)
        self.decide = None

    def code(self, redundancy, rng):
        return uncoded(parts=1)

    def work(self, codes):
        return HollowWork()

    def request(self, state):
        return None

    def open(self, cluster, state):
        return coded_rows(uncoded(parts=1), [1])

    def close(self, state, collected, decide):
        self.decide = decide


def undecided(stream):
    job = Undecided()
    handle = stream.submit(job)
    stream.pass_time(lambda: job.decide is not None, None)
    return job, handle


def test_a_job_ends_when_it_is_decided_that_it_does():
    with Stream(VirtualCluster(1), progress=False) as stream:
        job, handle = undecided(stream)
        stream.sleep(5.0)
        assert not handle.done()
        job.decide(True)
        assert handle.delivery().delay == 6.0


def test_a_late_error_of_a_round_that_did_without_it_fails_nothing():
    cluster = VirtualCluster(1)
    with Stream(cluster, progress=False) as stream:
        job, handle = undecided(stream)
        cluster.at(cluster.time + 1.0, lambda: cluster._reports.append(Trouble(0, 1, Cause("too late to matter"))))
        stream.sleep(2.0)
        assert not handle.done()
        job.decide(True)
        assert handle.exception() is None


def test_an_undecided_job_can_be_cancelled_and_what_is_decided_later_is_nobody_s():
    with Stream(VirtualCluster(1), progress=False) as stream:
        job, handle = undecided(stream)
        handle.cancel()
        stream.sleep(0.0)
        assert handle.cancelled()
        job.decide(False)
        other, following = undecided(stream)
        other.decide(True)
        assert following.exception() is None
