"""The program on the head: jobs one after another on all nodes; says what happens, a line each, until told to end."""

import sys
import threading

import numpy as np

import echelon as ec
from echelon.stream.observer import Observer
from tests.stream.jobs import sum_job, sum_result


class Reporter(Observer):
    def worker_up(self, time_s, worker, place):
        print("up", worker, place, flush=True)

    def worker_down(self, time_s, worker, place, reason):
        print("down", worker, place, flush=True)


def main(address):
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    # equal shares, so that any two of the three have enough: by speed, one may hold more than can be spared
    shares = {"split": "uniform", "adapt": False}
    with ec.Stream("ray", address=address, resources="node", redundancy=2.0, patience_s=5.0, **shares) as stream:
        print("workers", stream.workers, flush=True)
        stream._driver.watch(Reporter())
        number = 0
        while not over.is_set():
            found = stream.submit(sum_job(number)).result(120)
            np.testing.assert_allclose(found, sum_result(number), rtol=1e-9)
            print("done", number, flush=True)
            number += 1
    print("closed", number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
