"""Streams of matrix products, coded over workers and over rounds."""

from echelon.products.factors import Factor
from echelon.products.matmul import MatmulStream
from echelon.products.results import Results

__all__ = ["Factor", "MatmulStream", "Results"]
