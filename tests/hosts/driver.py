"""The program on the head: jobs one after another on all nodes; says what happens, a line each, until told to end."""

import sys
import threading

import numpy as np

import echelon as ec
from tests.stream.jobs import sum_job, sum_result


def say(*words):
    """Write a line whole: the stream's thread speaks, too."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Reporter(ec.Observer):
    def worker_up(self, time_s, worker, place):
        say("up", worker, place)

    def worker_down(self, time_s, worker, place, reason):
        say("down", worker, place)


def main(address):
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    # equal shares, so that any two of the three have enough: by speed, one may hold more than can be spared
    shares = {"split": "uniform", "adapt": False}
    nodes = ec.clusters.RayCluster(address=address, resources="node")
    with ec.Stream(nodes, redundancy=2.0, patience_s=5.0, observers=[Reporter()], **shares) as stream:
        say("workers", stream.workers)
        number = 0
        while not over.is_set():
            found = stream.submit(sum_job(number)).result(120)
            np.testing.assert_allclose(found, sum_result(number), rtol=1e-9)
            say("done", number)
            number += 1
    say("closed", number)


if __name__ == "__main__":
    main(sys.argv[1])
