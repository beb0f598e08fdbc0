"""Matrices as SciPy's linear operators whose products coded workers compute, for its iterative solvers.

    with echelon.linear_operator(A, workers=8) as operator:
        solution = scipy.sparse.linalg.lsqr(operator, b)[0]
        values = scipy.sparse.linalg.svds(operator, k=6, return_singular_vectors=False)
        ridge, _ = scipy.sparse.linalg.cg(operator.gram(shift=0.1), A.T @ b)

Stragglers and workers that die in mid-solve change neither the answers nor, beyond what redundancy covers, the times.
"""

from echelon.operators.coded import CodedOperator
from echelon.operators.gram import GramOperator
from echelon.operators.opening import linear_operator

__all__ = ["CodedOperator", "GramOperator", "linear_operator"]
