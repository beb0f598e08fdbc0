"""Decoding where the parts themselves are among the rows: what arrived is copied, what is lost is solved for."""

import numpy as np

from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.codes.base import Code


def lost_part_weights(code: Code, here: BoolArray) -> tuple[IntArray, FloatArray]:
    """Return the lost parts, and weights over all rows that give them, shape (lost, rows).

    With L the lost parts and A the parity rows that arrived, the parts x_L follow from P[A, L] x_L = y_A - P[A, kept]
    x_kept: a system of the size of what is lost, by weighted least squares over all parity rows that are there.
    """
    parts = code.systematic
    parity = code.matrix[parts:].real
    lost = np.flatnonzero(~here[:parts])
    kept = np.flatnonzero(here[:parts])
    left = np.flatnonzero(here[parts:])
    assert len(lost) <= len(left)
    weights = np.zeros((len(lost), code.rows))
    if len(lost):
        # noise of the kept parts enters every parity equation: weighed by its size, the weights are the shortest
        known = parity[np.ix_(left, kept)]
        whiten = np.linalg.inv(np.linalg.cholesky(np.eye(len(left)) + known @ known.T))
        solve = np.linalg.pinv(whiten @ parity[np.ix_(left, lost)]) @ whiten
        weights[:, parts + left] = solve
        weights[:, kept] = -solve @ known
    return lost, weights
