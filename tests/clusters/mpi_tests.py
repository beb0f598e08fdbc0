"""Runs tests on rank 0, by pytest, with the ranks beside it as workers.

``ECHELON_TEST_CLUSTER=mpi mpiexec -n 4 python -m tests.clusters.mpi_tests tests/clusters/test_conformance.py``
"""

import sys

import pytest

from echelon.clusters.mpi import join

if __name__ == "__main__":
    join()  # ranks other than 0 stay here
    sys.exit(pytest.main(["-p", "no:cacheprovider", *sys.argv[1:]]))
