"""Least squares of several models in turn, and the models that plain training gives."""

import numpy as np

from echelon.jobs import TurnJob

SAMPLES, WEIGHTS, ITERATIONS = 120, 4, 5


def data(seed):
    """Return inputs and targets."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((SAMPLES, WEIGHTS)), rng.standard_normal(SAMPLES)


def gradient(weights, chunk):
    inputs, targets = chunk
    return inputs.T @ (inputs @ weights - targets)


def descend(weights, total):
    return weights - 0.3 / SAMPLES * total


def chunks(scheme, seed):
    inputs, targets = data(seed)
    return [(inputs[part], targets[part]) for part in scheme.cut(SAMPLES)]


def turns_of(scheme, seed, *, models=None, **options):
    """Return a job that trains some models, by default as many as keep all rounds busy, and what it must give."""
    count = scheme.delay + 1 if models is None else models
    states = list(np.random.default_rng(seed + 1).standard_normal((count, WEIGHTS)))
    options = {"partial": gradient, "update": descend, "iterations": ITERATIONS} | options
    job = TurnJob(scheme, states=states, chunks=chunks(scheme, seed), **options)
    wanted = []
    for state in states:
        for _ in range(options["iterations"]):
            state = descend(state, gradient(state, data(seed)))
        wanted.append(state)
    return job, wanted
