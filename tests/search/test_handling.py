"""What encoding, decoding, the state and data in place cost, by hand and by brute force."""

import numpy as np
import pytest

from echelon import advise
from echelon.codes import cyclic, mds
from echelon.profile import Costs
from echelon.schemes import block_coordinate, coded_rows, multi_message
from echelon.search.handling import Sizes, of_codes
from echelon.search.strategies import STRATEGIES
from tests.search.clusters import cluster, named

BYTES = {"bytes_per_message": 1e6, "bytes_per_part": 1e7}
STEADY = cluster([1.0, 1.0, 1.0], bandwidth=1e7, combining=1e-8)  # 0.1 s to send a message, 0.01 s to add one up


def test_sums_are_paid_for_by_workers_and_by_the_master():
    advice = named(advise(STEADY, **BYTES))
    expected = {
        "uncoded, uniform": 4 * 1.1 + 12 * 0.01,  # four messages each, and twelve to add up
        "uncoded, Theorem 2, one message each": 4 + 4 * 0.01 + 0.1 + 3 * 0.01,
        "fractional repetition, groups of 3": 12 + 12 * 0.01 + 0.1 + 0.01,
        # 11 of 12 rows of two parts each: the last worker but one has sent four, the last three or four
        "gradient code, 2 parts a row": 5 + 4 * (0.1 + 2 * 0.01) + 11 * 0.01,
    }
    for name, seconds in expected.items():
        assert advice[name].iteration == pytest.approx(seconds), name


def test_products_with_a_vector_are_copied_and_what_is_missing_is_solved_for():
    advice = named(advise(STEADY, work="linear", **BYTES))
    assert advice["uncoded, uniform"].iteration == pytest.approx(4 * 1.1 + 12 * 0.01)
    # any 12 of 18 rows: a third of the parts are missing, four of them, each a sum of all twelve at a quarter; and all
    # are gathered before
    decoded = 12 + 12 * (2 + 0.25 * 4)
    assert advice["MDS, 18 rows"].iteration == pytest.approx(4 * 1.1 + decoded * 0.01)


@pytest.mark.parametrize("work", STRATEGIES)
def test_the_state_is_sent_once_a_round_whatever_the_strategy(work):
    profile = cluster([0.1, 0.2, 0.3], std=1.0, link=0.05, bandwidth=1e7)
    without, with_state = (advise(profile, work=work, bytes_of_state=size) for size in (0.0, 2e6))
    after = named(with_state)
    for outcome in without.ranked:
        assert after[outcome.name].iteration == pytest.approx(outcome.iteration + 0.2)


def test_data_takes_its_time_to_be_in_place():
    """A second for a part: what the worker with the most holds, and for parity adding up 18 times a quarter of 12."""
    sums, products = (named(advise(STEADY, work=work, **BYTES)) for work in ("gradient", "linear"))
    expected = {
        "uncoded, uniform": 4.0,
        "pulled by 1": 10.0,  # any worker may get any part, but for the first of the two others
        "pulled by 1, with copies": 12.0,
        "50% by Theorem 2, the rest pulled": 2.0 + 6.0,
        "gradient code, 2 parts a row": 5.0,  # rows next to one another share a part
        "fractional repetition, groups of 3": 12.0,
        "uncoded, Theorem 2, one message each": 4.0,
    }
    for name, seconds in expected.items():
        assert sums[name].loading == pytest.approx(seconds), name
    assert products["MDS, 18 rows"].loading == pytest.approx(6.0 + 0.25 * 12 * 6 * 1e7 * 1e-8)
    assert named(advise(STEADY))["pulled by 1"].loading == 0.0


def test_bytes_without_bandwidth_or_combining_cost_nothing():
    profile = cluster([0.1, 0.2], std=1.0)
    plain, told = advise(profile), advise(profile, bytes_per_message=1e9, bytes_of_state=1e9, bytes_per_part=1e9)
    for before, after in zip(plain.ranked, told.ranked, strict=True):
        if before.name != "block coordinates":  # which are cut for as many coordinates
            assert (after.name, after.iteration, after.loading) == (before.name, before.iteration, 0.0)


@pytest.mark.parametrize(
    "plan",
    [
        coded_rows(cyclic(rows=9, load=3, rng=np.random.default_rng(1)), [4, 2, 3]),
        coded_rows(mds(parts=4, rows=6, rng=np.random.default_rng(1)), [1, 2, 3]),
        multi_message(workers=6, load=3, clusters=2, orders=[1, 3]),
        block_coordinate(4, [10, 0, 20, 10]),
    ],
    ids=["cyclic", "mds", "clusters", "blocks"],
)
def test_what_is_held_and_added_up_is_what_the_codes_say(plan):
    found = of_codes(plan, plan, plan.parts)
    costs, sizes = Costs(message=0.5, bandwidth=1e3, combining=1e-4), Sizes(message=100.0)
    beside = found.rehearsed(costs, sizes).beside
    shares = [0.25, 0.5, 0.25] if hasattr(plan, "blocks") else [1.0] * len(plan.slots)
    for lane, seconds in zip(plan.lanes, beside, strict=True):
        for task, some in zip(lane, seconds.tolist(), strict=True):
            row = plan.codes[task.slot].matrix[task.row]
            added = 0 if plan.codes[task.slot].precoded or row[row != 0].tolist() == [1.0] else (row != 0).sum()
            share = shares[task.slot]
            assert some == pytest.approx(0.5 + share * (0.1 + added * 0.01))
    if hasattr(plan, "blocks"):  # the highest level has its blocks on four of four chunks, each one part here
        assert found.held == 4 * plan.parts / 4
        assert found.decoded == pytest.approx(0.25 * 4 + 0.5 * 2 + 0.25 * 1)
        return
    held = []
    for lane in plan.lanes:
        if plan.codes[0].precoded:
            held.append(len({task.row for task in lane}))
        else:
            held.append(
                len(
                    {
                        (task.slot, part)
                        for task in lane
                        for part in np.flatnonzero(plan.codes[task.slot].matrix[task.row])
                    }
                )
            )
    assert found.held == max(held)
