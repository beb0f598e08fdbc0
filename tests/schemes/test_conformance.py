"""Every scheme in the registry returns a plan that can be recovered and run; add an example for a new one."""

import numpy as np
import pytest

from echelon.codes import cyclic
from echelon.delays import Exponential
from echelon.plan import Plan
from echelon.schemes import SCHEMES, any_k, coded_rows
from echelon.simulation import RoundSampler

EXAMPLES = {
    "any_k": lambda: any_k([3, 0, 4], critical=5),
    "coded_rows": lambda: coded_rows(cyclic(rows=7, load=3, rng=np.random.default_rng(1)), [3, 0, 4]),
}


def test_every_scheme_has_an_example():
    assert set(EXAMPLES) == set(SCHEMES)


@pytest.mark.parametrize("name", sorted(SCHEMES))
def test_a_scheme_returns_a_plan_whose_rounds_end(name):
    plan = EXAMPLES[name]()
    assert isinstance(plan, Plan)
    rng = np.random.default_rng(1)
    sampler = RoundSampler(plan, Exponential(rate=1.0), np.zeros(len(plan.lanes)))
    seen, _ = sampler.draw(sampler.begin(1, rng), 1, 200, rng)
    assert np.isfinite(seen.times).all()
    assert (seen.done.sum(axis=2) >= max(slot.threshold for slot in plan.slots)).all()


def test_rows_are_handed_out_once_each():
    plan = any_k([2, 0, 3], critical=4)
    assert [[task.row for task in lane] for lane in plan.lanes] == [[0, 1], [], [2, 3, 4]]
    assert plan.counts_suffice


@pytest.mark.parametrize(("counts", "said"), [([1, 1], "they sum to 2"), ([3, -1], r"counts\[1\]: -1"), ([2.5], "2.5")])
def test_counts_that_make_no_plan_are_refused(counts, said):
    with pytest.raises(ValueError, match=said):
        any_k(counts, critical=3)
