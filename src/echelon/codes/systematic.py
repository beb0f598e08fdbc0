"""Decoding where the parts themselves are among the rows: what arrived is copied, what is lost is solved for."""

import numpy as np

from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.codes.base import Code
from echelon.errors import NotDecodable

_SINGULAR = 1e-6  # misfit allowed for lost parts; beyond it the parity rows that arrived do not tell them apart


def lost_part_weights(code: Code, here: BoolArray) -> tuple[IntArray, FloatArray, float]:
    """Return the lost parts, weights over all rows that give them, shape (lost, rows), and their misfit.

    The misfit is the length of what they give besides a lost part, the largest over all of them.

    With L the lost parts and A the parity rows that arrived, the parts x_L follow from P[A, L] x_L = y_A - P[A, kept]
    x_kept: a system of the size of what is lost, by weighted least squares over all parity rows that are there.
    """
    parts = code.systematic
    parity = code.matrix[parts:].real
    lost = np.flatnonzero(~here[:parts])
    kept = np.flatnonzero(here[:parts])
    left = np.flatnonzero(here[parts:])
    assert len(lost) <= len(left)
    weights, misfit = np.zeros((len(lost), code.rows)), 0.0
    if len(lost):
        # noise of the kept parts enters every parity equation: weighed by its size, the weights are the shortest
        known = parity[np.ix_(left, kept)]
        whiten = np.linalg.inv(np.linalg.cholesky(np.eye(len(left)) + known @ known.T))
        wanted = parity[np.ix_(left, lost)]
        solve = np.linalg.pinv(whiten @ wanted) @ whiten
        misfit = float(np.linalg.norm(solve @ wanted - np.eye(len(lost)), axis=1).max())
        if not misfit <= _SINGULAR:
            raise NotDecodable(
                f"{len(left)} parity rows do not tell {len(lost)} lost parts apart: wait for another row, or choose a "
                "better conditioned code"
            )
        weights[:, parts + left] = solve
        weights[:, kept] = -solve @ known
    return lost, weights, misfit
