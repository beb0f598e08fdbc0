"""Every scheme in the registry returns a plan that can be recovered and run; add an example for a new one."""

import numpy as np
import pytest

from echelon.codes import cyclic
from echelon.delays import Exponential
from echelon.plan import Plan
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.schemes import (
    SCHEMES,
    any_k,
    backups,
    block_coordinate,
    coded_rows,
    fractional_repetition,
    gradient_coding,
    lagrange,
    multi_message,
    pull,
    sliding_window,
    uncoded_multi_message,
)
from echelon.simulation import RoundSampler

EXAMPLES = {
    "any_k": lambda: any_k([3, 0, 4], critical=5),
    "backups": lambda: backups(workers=4, parts=6, copies=3),
    "block_coordinate": lambda: block_coordinate(4, [3, 0, 2, 1]),
    "coded_rows": lambda: coded_rows(cyclic(rows=7, load=3, rng=np.random.default_rng(1)), [3, 0, 4]),
    "fractional_repetition": lambda: fractional_repetition(workers=6, load=3),
    "gradient_coding": lambda: gradient_coding(workers=6, load=3, clusters=2),
    "lagrange": lambda: lagrange(workers=8, load=3),
    "multi_message": lambda: multi_message(workers=6, load=3, clusters=2, orders=[2, 3], hybrid=True),
    "pull": lambda: pull(workers=3, parts=7, batch=2, copies=2),
    "sliding_window": lambda: sliding_window(unequal()),
    "uncoded_multi_message": lambda: uncoded_multi_message(workers=6, load=2),
}


def unequal():
    job = Workload(critical=9, redundancy=1.2, iterations=1, arrivals=Arrivals.poisson(0.01))
    return Profile(job, [Worker("a", mean=1, std=0.5), Worker("b", mean=3, std=1.0), Worker("c", mean=1, std=0.2)])


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
    least = sum(1 if slot.alone else slot.threshold for slot in plan.slots)
    assert (seen.load >= least).all()
    assert (seen.load_with_stop >= least).all()
    np.testing.assert_array_equal(seen.done.sum(axis=2), seen.load)


def test_rows_are_handed_out_once_each():
    plan = any_k([2, 0, 3], critical=4)
    assert [[task.row for task in lane] for lane in plan.lanes] == [[0, 1], [], [2, 3, 4]]
    assert plan.counts_suffice


@pytest.mark.parametrize(("counts", "said"), [([1, 1], "they sum to 2"), ([3, -1], r"counts\[1\]: -1"), ([2.5], "2.5")])
def test_counts_that_make_no_plan_are_refused(counts, said):
    with pytest.raises(ValueError, match=said):
        any_k(counts, critical=3)
