"""Copies of rows: what more of them save, and when they are tried at all."""

from pathlib import Path

import pytest
from scipy.special import stdtrit

from echelon import advise, read_profile
from echelon.delays import task_laws
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.search.handling import Sizes, handling
from echelon.search.rehearsal import HISTORIES, Rehearsal
from echelon.search.strategies import MOST_COPIED, for_sums
from tests.search.clusters import cluster

EXAMPLE2 = read_profile(Path(__file__).parents[2] / "examples" / "example2.toml")


def equal(count, parts, *, std=1.0, link=0.0, law="exponential", **parameters):
    job = Workload(critical=parts, redundancy=1.0, iterations=5, arrivals=Arrivals.poisson(1e-6))
    workers = [
        Worker(f"w{p}", mean=1.0, std=std, link=link, law=law, parameters=parameters) for p in range(count)
    ]  # fmt: skip
    return Profile(job, workers)


TEN = equal(10, 60)
BURSTS = equal(8, 32, std=2.1, link=0.05, law="gilbert_elliott", enter=0.1, leave=0.5, slowdown=6.0)


@pytest.mark.parametrize(
    ("profile", "few", "many", "saved"),
    [
        (EXAMPLE2, "Theorem 2, with copies", "Theorem 2, with 5 copies, 2 ahead", 0.045),
        (TEN, "pulled by 1, with copies", "pulled by 1, with 10 copies", 0.055),
        (BURSTS, "pulled by 1, with copies", "50% by Theorem 2, the rest pulled, with 8 copies", 0.10),
    ],
    ids=["Example 2", "ten equal", "bursts"],
)
def test_more_copies_and_copies_ahead_save_what_is_told_of_them(profile, few, many, saved):
    """At 99.9 %, on the same draws: about 5 % on Example 2, 6 % on ten equal workers, 14 % in bursts.

    With two copies at most, `few` was the best strategy without a code.
    """
    laws = task_laws(profile)
    strategies = {one.name: one for one in for_sums(profile, laws, 1000)}
    tried = [
        handling(strategies[name], profile.workload.critical).rehearsed(profile.costs, Sizes()) for name in (few, many)
    ]
    before, after = Rehearsal(laws, profile.speeds.link, rounds=4000, seed=11).times(tried)
    gains = (before - after).mean(axis=1) / before.mean()
    sure = stdtrit(HISTORIES - 1, 0.999) * gains.std(ddof=1) / HISTORIES**0.5
    assert gains.mean() - sure > saved


def test_advice_for_example_2_hands_out_more_copies_ahead():
    best = advise(EXAMPLE2).best
    assert best.name == "Theorem 2, with 5 copies, 2 ahead"
    plan = best.plan()
    assert plan.pool.ahead == 2
    assert len(plan.pooled) == 4 * 50


def test_two_workers_have_two_copies_at_most():
    names = [one.name for one in for_sums(cluster([1.0, 1.0]), [], 0)]
    assert len(names) == len(set(names))
    assert not any("3 copies" in name for name in names)


@pytest.mark.parametrize(("workers", "parts", "most"), [(20, 1000, 20), (50, 1000, 3), (50, 10_000, 2)])
def test_where_there_are_many_rows_fewer_copies_are_tried(workers, parts, most):
    """A plan has 20 000 tasks of more than two copies at most: making it must not take longer than it saves."""
    copies = {
        one.plan.keywords.get("copies", 1) for one in for_sums(equal(workers, parts), [], 0) if one.family == "copies"
    }
    assert max(copies) == most
    assert most == 2 or most * parts <= MOST_COPIED
