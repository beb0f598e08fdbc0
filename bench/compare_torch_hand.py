"""Torch by hand: batches as uneven as Theorem 2 makes the shares of the workers."""

from bench.compare_cases import Case, Run
from bench.compare_torch import run_shares


def run(case: Case) -> Run:
    return run_shares(case, case.shares)
