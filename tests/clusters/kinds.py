"""Clusters for tests that run on every kind: all of the registry, or the one that the environment names.

The workers of `mpi` are started with the program, by mpiexec: tests/clusters/test_mpi.py runs these tests again there.
"""

import os

import pytest

from echelon.clusters import CLUSTERS

ONE_KIND = "ECHELON_TEST_CLUSTER"
KINDS = [os.environ[ONE_KIND]] if ONE_KIND in os.environ else sorted(set(CLUSTERS) - {"mpi"})
NO_SUCCESSORS = pytest.mark.skipif(KINDS == ["mpi"], reason="a rank that died has no successor")
