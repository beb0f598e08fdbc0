"""First come, first served: when each job starts and leaves, for many seeds at once."""

import numpy as np

from echelon.arrays import FloatArray


def departures(arrivals: FloatArray, services: FloatArray) -> FloatArray:
    """Return when each job leaves a single server, for arrays of shape (seeds, jobs).

    Job j leaves at the latest, over i <= j, of the arrival of i plus the services of i … j.

    >>> departures(np.array([[0.0, 1.0, 9.0]]), np.array([[3.0, 2.0, 1.0]])).tolist()
    [[3.0, 5.0, 10.0]]
    """
    worked = np.cumsum(services, axis=1)
    slack = arrivals - worked
    slack += services
    np.maximum.accumulate(slack, axis=1, out=slack)
    slack += worked
    return slack
