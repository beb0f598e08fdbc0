"""What parts took, as far as a record shows it."""

import numpy as np
import pytest

from echelon.stream import Record
from echelon.stream.part_times import part_times
from echelon.stream.record import RecordedRound
from tests.stream.test_recorded import exponential, purged_run


def rngs(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(place) for place in range(count)]


def test_parts_that_were_seen_come_as_they_were_in_their_order(tmp_path):
    record = purged_run(tmp_path / "run.jsonl", [exponential(1.0), exponential(2.0)], [[1.0] * 6, [1.0] * 4], 8)
    (one, other), shared = part_times(record, rngs(2))
    assert shared == pytest.approx(np.zeros(100), abs=1e-5)
    for place, times in enumerate((one, other)):
        table = times.times(slice(None), 9, np.random.default_rng(5))
        assert table.shape == (100, 9)
        for number, seen in enumerate(record.rounds):
            took = [message[4] for message in seen.messages if message[0] == place]
            # links are rounded to microseconds; the first part carries what a round began late
            assert table[number, : len(took)] == pytest.approx(took, abs=5e-6)
            assert len(took) == times.counts[number]
            if len(took) < [6, 4][place]:
                assert table[number, len(took)] >= times.least[number] - 1e-9


def test_a_task_of_several_parts_is_as_many_equal_parts():
    messages = [(1, 0, 1, 1.0, 1.0, 1.0), (0, 0, 0, 6.0, 6.0, 3.0)]
    rounds = [RecordedRound(0, i, 0.0, 7.0, [2], {0: [3.0], 1: [1.0]}, messages) for i in range(3)]
    (one, other), _ = part_times(Record(["a", "b"], "uniform", None, rounds=rounds), rngs(2))
    assert one.times(slice(None), 4, np.random.default_rng(1)).tolist() == [[2.0] * 4] * 3
    assert other.times(slice(1, 2), 2, np.random.default_rng(1)).tolist() == [[1.0, 1.0]]


def test_rows_given_out_again_are_known_where_all_rows_cost_one_part():
    messages = [(0, 0, 0, 1.0, 1.0, 1.0), (0, 0, 1, 3.0, 2.0, 1.0)]  # the second row was b's
    seen = RecordedRound(0, 0, 0.0, 3.0, [2], {0: [1.0], 1: [1.0]}, messages)
    (one, other), _ = part_times(Record(["a", "b"], "uniform", None, rounds=[seen]), rngs(2))
    assert one.own.tolist() == [[1.0, 2.0]]
    assert other is None


def test_what_is_drawn_of_a_purged_worker_has_its_mean_at_99_per_cent(tmp_path):
    laws = [exponential(1.0), exponential(2.0), exponential(3.0)]
    record = purged_run(tmp_path / "run.jsonl", laws, [[1.0] * 12, [1.0] * 6, [1.0] * 4], 17, rounds=2000, seed=3)
    known, _ = part_times(record, rngs(3))
    for mean, times in zip((1.0, 2.0, 3.0), known, strict=True):
        assert len(set(times.paces.tolist())) == 1
        table = times.times(slice(None), 14, np.random.default_rng(7))
        # the first three parts of a round, of which some were cut short
        few = table[:, :3].mean(axis=1)
        assert abs(few.mean() - mean) < 2.5758 * few.std(ddof=1) / len(few) ** 0.5
        assert times.mean == pytest.approx(mean, rel=0.05)
        assert times.std == pytest.approx(mean, rel=0.15)
