"""Plans in which two workers have every row."""

from collections import Counter

import numpy as np
import pytest

from echelon.codes import cyclic, uncoded
from echelon.schemes import backups, coded_rows, multi_message
from echelon.schemes.twice import twice

PLANS = {
    "even": coded_rows(uncoded(parts=12), [3, 3, 3, 3]),
    "one has most": coded_rows(uncoded(parts=12), [10, 1, 1, 0]),
    "one has all": coded_rows(uncoded(parts=4), [4, 0, 0]),
    "coded": coded_rows(cyclic(rows=12, load=3, rng=np.random.default_rng(1)), [5, 4, 3]),
    "with copies": backups(workers=4, parts=12, copies=2),
    "several slots": multi_message(workers=8, load=2, clusters=2, order=2),
}


@pytest.mark.parametrize("name", PLANS)
def test_every_row_is_in_two_lanes_and_first_in_those_that_had_it(name):
    plan = PLANS[name]
    doubled = twice(plan)
    lanes = [[(task.slot, task.row) for task in lane] for lane in doubled.lanes]
    assert all(len(set(lane)) == len(lane) for lane in lanes)
    held = Counter(at for lane in lanes for at in lane)
    assert set(held.values()) == {2}
    for lane, old in zip(doubled.lanes, plan.lanes, strict=True):
        assert lane[: len(old)] == old


def test_workers_repeat_about_as_much_as_they_have():
    doubled = twice(coded_rows(uncoded(parts=24), [12, 6, 4, 2]))
    assert doubled.counts.tolist() == [24, 12, 8, 4]
