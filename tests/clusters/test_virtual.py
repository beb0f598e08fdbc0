"""What is virtual about workers in virtual time; all else is in the conformance suite."""

import numpy as np

from echelon.clusters import Up, VirtualCluster
from echelon.clusters.faults import Faults


def test_every_place_is_filled_in_the_end_however_often_and_when_its_workers_die_before_they_are_up():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        cluster = VirtualCluster(3, faults=Faults(rng, stillborn=0.8, start=0.5))
        up = set()
        while cluster.now() < 1e4 and len(up) < 3:
            up |= {report.place for report in cluster.poll(100.0) if isinstance(report, Up)}
        assert up == {0, 1, 2}, seed
        cluster.close()
