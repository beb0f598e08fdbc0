"""Whom rounds waited for, by hand on small records and by brute force on drawn ones."""

import numpy as np
import pytest

from echelon.stream import Record
from echelon.stream.record import RecordedRound
from echelon.stream.waiting import waiting
from tests.stream.test_recorded import exponential, purged_run


def seen(messages, needed, lanes, **more) -> RecordedRound:
    end = max(message[3] for message in messages) + 0.2
    return RecordedRound(0, 0, 0.0, end, needed, lanes, messages, **more)


def found(*rounds) -> dict[str, tuple[int, float, float]]:
    record = Record(["a", "b", "c"], "uniform", None, rounds=list(rounds))
    return {
        one.name: (one.rounds, pytest.approx(one.seconds), pytest.approx(one.most)) for one in waiting(record)
    }  # fmt: skip


def test_a_round_without_spare_rows_waits_from_the_last_row_of_the_others():
    messages = [(1, 0, 2, 1.0, 1.0, 1.0), (0, 0, 0, 2.0, 2.0, 1.0), (2, 0, 3, 2.5, 2.5, 1.0), (0, 0, 1, 7.0, 5.0, 1.0)]
    # b and c are there at 2.5, a's last row at 7.0
    assert found(seen(messages, [4], {0: [1.0] * 2, 1: [1.0], 2: [1.0]}))["a"] == (1, 4.5, 4.5)


def test_with_rows_to_spare_the_round_could_have_ended_with_earlier_rows_of_others():
    messages = [(1, 0, 2, 1.0, 1.0, 1.0), (2, 0, 4, 3.0, 3.0, 1.0), (0, 0, 0, 4.0, 4.0, 1.0)]
    lanes = {0: [1.0] * 2, 1: [1.0] * 2, 2: [1.0] * 2}
    # any 3 of 6 rows; with both rows of a at once, b's at 1.0 would have been the third
    assert found(seen(messages, [3], lanes))["a"] == (1, 1.0, 3.0)


def test_rows_that_came_before_and_rows_that_were_not_needed_do_not_count():
    messages = [(0, 0, 0, 1.0, 1.0, 1.0), (1, 0, 0, 2.0, 1.0, 1.0), (2, 0, 1, 5.0, 5.0, 1.0), (1, 0, 2, 6.0, 1.0, 1.0)]
    lanes = {0: [1.0], 1: [1.0, 1.0], 2: [1.0]}
    rows = {0: [(0, 0)], 1: [(0, 0), (0, 2)], 2: [(0, 1)]}
    # two rows are needed: a's at 1.0 and c's at 5.0; b repeated one, and sent another too late
    assert found(seen(messages, [2], lanes, rows=rows))["c"] == (1, 4.0, 4.0)
    assert found(seen(messages, [2], lanes, rows=rows))["b"] == (0, 0, 0)
    # one of them was there before the start: a alone is needed, and nobody was waited for
    assert found(seen(messages, [2], lanes, rows=rows, came=1))["a"] == (1, 0, 0)


def test_each_slot_needs_its_own_rows():
    messages = [(0, 0, 0, 1.0, 1.0, 1.0), (1, 1, 0, 2.0, 2.0, 1.0), (2, 0, 1, 2.5, 2.5, 1.0), (2, 1, 1, 9.0, 6.5, 1.0)]
    rows = {0: [(0, 0)], 1: [(1, 0)], 2: [(0, 1), (1, 1)]}
    lanes = {0: [1.0], 1: [1.0], 2: [1.0, 1.0]}
    assert found(seen(messages, [1, 2], lanes, rows=rows))["c"] == (1, 7.0, 7.0)


def test_brute_force_on_drawn_rounds(tmp_path):
    laws = [exponential(1.0), exponential(2.0), exponential(1.5)]
    record = purged_run(tmp_path / "run.jsonl", laws, [[1.0] * 5, [1.0] * 3, [1.0] * 4], 9, rounds=60)
    seconds, most = np.zeros(3), np.zeros(3)
    for one in record.rounds:
        place, end = one.messages[-1][0], one.messages[-1][3]
        others = [message[3] for message in one.messages if message[0] != place]
        seconds[place] += end - max(others)
        enough = 9 - [5, 3, 4][place]
        most[place] += end - sorted(others)[enough - 1]
    told = waiting(record)
    assert [one.seconds for one in told] == pytest.approx(seconds)
    assert [one.most for one in told] == pytest.approx(most)
    assert sum(one.rounds for one in told) == 60
