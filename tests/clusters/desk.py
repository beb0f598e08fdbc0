"""What tests of clusters wait with for reports."""

import time

from echelon.clusters import Up
from echelon.plan import Task

LIMIT_S = 60.0  # after which a test gives up; nothing is asserted about time


class Desk:
    """Collects reports until enough of a kind are there."""

    def __init__(self, cluster):
        self.cluster, self.reports = cluster, []

    def wait(self, kind, count=1, keep=lambda report: True):
        end = time.monotonic() + LIMIT_S
        while True:
            found = [report for report in self.reports if isinstance(report, kind) and keep(report)]
            if len(found) >= count:
                return found
            assert time.monotonic() < end, f"{count} of {kind} expected, {self.reports} came"
            self.reports += self.cluster.poll(1.0)

    def start(self, count=3):
        return sorted({up.worker for up in self.wait(Up, count)})


def tasks(*rows):
    return [Task(slot=0, row=row) for row in rows]
