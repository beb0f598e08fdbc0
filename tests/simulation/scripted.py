"""A delay law whose times were drawn beforehand, so that two ways to compute a round see the same ones."""

import numpy as np

from echelon.delays import Delay


class Scripted(Delay):
    """Times that were drawn beforehand."""

    def __init__(self, times):
        self.times = times

    @property
    def mean(self):
        return float(self.times.mean())

    @property
    def std(self):
        return float(self.times.std())

    def sample(self, size, rng):
        return self.times.reshape(size).copy()

    @classmethod
    def fit(cls, mean, std):
        return cls(np.full(1, mean))
