"""One round of echelon on MPI against one bare Reduce and one Bcast of the same bytes, in the same run.

    mpiexec -n 9 python -m bench.data_plane_mpi --mb 400 --rounds 7

A round sends the state to all workers and brings the sum of their rows back; workers return the state as it is. Every
rank takes part in the bare calls, the master with ones of its own.
"""

import argparse
import statistics
import time

import numpy as np


def bare(size: int, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of Reduce and of Bcast, as rank 0 sees them; a barrier is in each."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    data, total = np.ones(size), np.zeros(size)
    reduces, bcasts = [], []
    for _ in range(rounds):
        comm.Barrier()
        began = time.perf_counter()
        comm.Reduce(data, total if comm.rank == 0 else None, root=0)
        comm.Barrier()
        between = time.perf_counter()
        comm.Bcast(total, root=0)
        comm.Barrier()
        reduces.append(between - began)
        bcasts.append(time.perf_counter() - between)
    comm.Free()
    return reduces, bcasts


def as_it_is(state: np.ndarray, chunk: float) -> np.ndarray:
    """Return a row without computing anything."""
    return state


def ours(size: int, rounds: int) -> tuple[list[float], list[int]]:
    """Return the seconds and the master's bytes of each round."""
    import echelon as ec
    from echelon.clusters import MpiCluster

    cluster = MpiCluster()
    at, nbytes = [], []

    def update(state: np.ndarray, total: np.ndarray) -> np.ndarray:
        at.append(time.perf_counter())
        nbytes.append(cluster._link.nbytes)
        return total

    workers = cluster.workers
    with ec.Stream(cluster, redundancy=1.0) as stream:
        job = ec.SumJob(
            partial=as_it_is, update=update, state=np.ones(size), chunks=[1.0] * workers, iterations=rounds + 1
        )
        result = stream.submit(job).result(600.0)
    assert (result == float(workers) ** (rounds + 1)).all()
    return np.diff(at).tolist(), np.diff(nbytes).tolist()


def main() -> None:
    """Print one line for the bare calls and one for a round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=float, default=400.0, help="MB of the state and of the total")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=["bare", "ours"], help="measure only one of the two")
    given = parser.parse_args()
    size = int(given.mb * 1e6) // 8
    reduces, bcasts = bare(size, given.rounds if given.only != "ours" else 1)
    if given.only == "bare":
        seconds, nbytes = [0.0], [0]
    else:
        seconds, nbytes = ours(size, given.rounds)
    both = [reduce + bcast for reduce, bcast in zip(reduces, bcasts, strict=True)]
    bare_s, ours_s = statistics.median(both), statistics.median(seconds)
    print(f"{given.mb:g} MB, Reduce and Bcast: median {bare_s:.3f} s, {[round(s, 3) for s in both]}")
    print(f"{given.mb:g} MB, a round of echelon: median {ours_s:.3f} s, {[round(s, 3) for s in seconds]}")
    print(f"ratio {ours_s / bare_s:.2f}; bytes of the master {max(nbytes) / (8 * size):.4f} times the total")


if __name__ == "__main__":
    main()
