"""Emulated times: what a round draws."""

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
