"""Emulated times: what a round draws."""

import pytest

from echelon.clusters.pace import Pace
from echelon.delays import Exponential, Straggler
from echelon.seeds import place_generator


def test_the_times_of_a_round_do_not_depend_on_how_its_tasks_come():
    """One lane of six, or two and then four more: the same draws, and one pace for all of a straggling round."""
    law = Straggler(base=Exponential(rate=1.0), probability=0.5, slowdown=100.0)
    at_once, bit_by_bit = (Pace(law, 0.0, place_generator(1, 0)) for _ in range(2))
    for round in range(1, 6):
        at_once.begin(round=round, start=0.0, parts=6)
        bit_by_bit.begin(round=round, start=0.0, parts=2)
        assert [at_once.due(1.0, given=0.0)[1] for _ in range(6)] == [
            bit_by_bit.due(1.0, given=0.0)[1] for _ in range(6)
        ]


def test_a_task_of_several_parts_takes_the_sum_of_their_times():
    whole, part_by_part = (Pace(Exponential(rate=1.0), 0.0, place_generator(1, 0)) for _ in range(2))
    for pace in (whole, part_by_part):
        pace.begin(round=1, start=0.0, parts=6)
    for cost in (2, 4):
        times = [part_by_part.due(1.0, given=0.0)[1] for _ in range(cost)]
        assert whole.due(float(cost), given=0.0)[1] == pytest.approx(sum(times))
