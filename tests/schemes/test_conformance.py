"""Every scheme in the registry: random data is encoded, run in virtual time under faults, and decoded.

A scheme is tested from its line in the registry on, with the plans that the examples of its docstring make.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import echelon as ec
from echelon.codes import cyclic, mds
from echelon.delays import Exponential
from echelon.plan import Plan
from echelon.schemes import (
    CHAINS,
    GRADIENT_CHAINS,
    SCHEMES,
    CodedPlan,
    any_k,
    backups,
    block_coordinate,
    coded_rows,
    multi_message,
    pull,
    quorum,
)
from echelon.simulation import RoundSampler
from tests.docstrings import examples_of
from tests.jobs.turns import turns_of
from tests.products.works import check, pairs
from tests.schemes.computed import ROUNDS, job_of
from tests.schemes.faulty import FAULTS, PATIENCE_S, SEED, cluster, incidents

MORE = {  # plans of kinds that no docstring shows
    "any_k": [lambda: any_k([3, 0, 4], critical=5)],
    "backups": [lambda: backups(workers=4, parts=6, copies=3)],
    "block_coordinate": [lambda: block_coordinate(4, [3, 0, 2, 1])],
    "coded_rows": [
        lambda: coded_rows(cyclic(rows=7, load=3, rng=np.random.default_rng(1)), [3, 0, 4]),
        lambda: coded_rows(mds(parts=5, rows=7, rng=np.random.default_rng(1)), [3, 0, 4]),
    ],
    "multi_message": [
        lambda: multi_message(workers=6, load=3, clusters=2, order=2),
        lambda: multi_message(workers=6, load=3, clusters=2, orders=[2, 3], hybrid=True),
    ],
    "pull": [lambda: pull(workers=3, parts=7, batch=2, copies=2)],
    "quorum": [lambda: quorum(workers=4, load=[1, 3, 1, 2], share=0.5, stretch=0.5)],
}


@cache
def plans(name):
    """Return the plans of a scheme that are tested."""
    shown = [plan for plan in examples_of(SCHEMES[name]) if isinstance(plan, Plan)]
    assert shown, f"{name}: its docstring needs an example that makes a plan"
    return [*shown, *(make() for make in MORE.get(name, []))]


class Recovered(ec.Observer):
    """Notes which slots each round recovered."""

    def __init__(self):
        self.slots = []

    def stepped(self, running, seen, finished):
        self.slots.append(sorted(seen.recovered))


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("name", sorted(SCHEMES))
def test_what_a_scheme_computes_under_faults_is_the_plain_sum(name, faults, caplog):
    """Of the slots that were recovered, where a plan leaves some out: these are as many as its ending says."""
    caplog.set_level("CRITICAL", logger="echelon")
    for i, plan in enumerate(plans(name)):
        job, plain = job_of(plan, np.random.default_rng(SEED + i))
        seen = Recovered()
        with ec.Stream(
            cluster(len(plan.lanes), faults), patience_s=PATIENCE_S, seed=SEED, observers=[seen]
        ) as stream:  # fmt: skip
            done = stream.submit(job).delivery()
        least = len(plan.slots) if plan.ending is None else plan.ending.needed(len(plan.slots))
        assert len(seen.slots) == ROUNDS
        assert min(map(len, seen.slots)) >= least
        wanted = plain() if least == len(plan.slots) else plain(seen.slots)
        assert done.error is None
        assert done.iterations == ROUNDS
        np.testing.assert_allclose(done.result, wanted, rtol=1e-6, atol=1e-7)


def test_the_crashes_of_these_runs_happen_and_are_heard_of():
    """Otherwise the test above would show little."""

    class Losses(ec.Observer):
        def __init__(self):
            self.places = []

        def worker_down(self, time, worker, place, reason):
            self.places.append(place)

    seen, plan = Losses(), multi_message(workers=6, load=3, clusters=2, order=2)
    job, _ = job_of(plan, np.random.default_rng(SEED))
    with ec.Stream(cluster(6, "crashes"), patience_s=PATIENCE_S, observers=[seen]) as stream:
        stream.submit(job).result()
    assert {place for _, place in incidents(6, 1)} >= set(seen.places)
    assert seen.places


def test_data_that_is_encoded_wrongly_is_noticed():
    """The check can fail: coded blocks that are 1 % off give another sum."""
    plan = SCHEMES["lagrange"](workers=8, load=3)
    (code,) = plan.codes
    wrong = CodedPlan([replace(code, encoder=1.01 * code.encoder)], plan.lanes)
    found = []
    for made in (plan, wrong):
        job, plain = job_of(made, np.random.default_rng(SEED))
        with ec.Stream("virtual", workers=8) as stream:
            found.append(np.abs(stream.submit(job).result() - plain()).max())
    assert found[0] < 1e-9
    assert found[1] > 1e-3


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("name", sorted(CHAINS))
def test_what_a_chain_computes_under_faults_are_the_plain_products(name, faults, caplog):
    caplog.set_level("CRITICAL", logger="echelon")
    found = examples_of(CHAINS[name])
    assert found, f"{name}: its docstring needs an example"
    for scheme in found:
        given = pairs(8, seed=SEED)
        with ec.MatmulStream(
            cluster(scheme.workers, faults), scheme, patience_s=PATIENCE_S, progress=False, seed=SEED
        ) as stream:  # fmt: skip
            for product, (first, second) in zip(stream.products(given), given, strict=True):
                check(product, first, second)


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("name", sorted(GRADIENT_CHAINS))
def test_models_that_a_chain_trains_under_faults_are_the_plain_ones(name, faults, caplog):
    caplog.set_level("CRITICAL", logger="echelon")
    found = examples_of(GRADIENT_CHAINS[name])
    assert found, f"{name}: its docstring needs an example"
    for scheme in found:
        job, wanted = turns_of(scheme, SEED)
        with ec.Stream(cluster(scheme.workers, faults), patience_s=PATIENCE_S, seed=SEED) as stream:
            done = stream.submit(job).result()
        np.testing.assert_allclose(done.states, wanted, rtol=1e-9)


@pytest.mark.parametrize("name", sorted(SCHEMES))
def test_a_scheme_returns_a_plan_whose_rounds_end(name):
    for plan in plans(name):
        rng = np.random.default_rng(1)
        sampler = RoundSampler(plan, Exponential(rate=1.0), np.zeros(len(plan.lanes)))
        seen, _ = sampler.draw(sampler.begin(1, rng), 1, 200, rng)
        assert np.isfinite(seen.times).all()
        each = [slot.threshold if slot.counting and not slot.alone else 1 for slot in plan.slots]
        needed = len(each) if plan.ending is None else plan.ending.needed(len(each))
        least = sum(sorted(each)[:needed])
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
