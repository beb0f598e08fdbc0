"""Jobs for the tests of streams, and what they give without a stream."""

import threading

import numpy as np

from echelon.jobs import LinearJob, SumJob


def doubled(state, chunk):
    return np.asarray(chunk) * state


def normalised(state, total):
    return total / (1.0 + np.abs(total).max())


STEPS = threading.Semaphore(0)


def counted(state):
    """Let a test wait for the steps of a job; never ends it."""
    STEPS.release()
    return False


def sum_job(seed=1, chunks=12, iterations=8, **more):
    data = list(np.random.default_rng(seed).uniform(0.5, 1.5, (chunks, 4)))
    return SumJob(partial=doubled, update=normalised, state=np.ones(4), chunks=data, iterations=iterations, **more)


def sum_result(seed=1, chunks=12, iterations=8):
    data = np.random.default_rng(seed).uniform(0.5, 1.5, (chunks, 4)).sum(axis=0)
    state = np.ones(4)
    for _ in range(iterations):
        state = normalised(state, data * state)
    return state


def linear_job(seed=1, size=30, parts=6, iterations=20, **more):
    matrix = np.random.default_rng(seed).standard_normal((size, size))
    return LinearJob(
        matrix=matrix, parts=parts, state=np.ones(size), update=normalised, iterations=iterations, **more
    )  # fmt: skip


def linear_result(seed=1, size=30, iterations=20):
    matrix = np.random.default_rng(seed).standard_normal((size, size))
    state = np.ones(size)
    for _ in range(iterations):
        state = normalised(state, matrix @ state)
    return state
