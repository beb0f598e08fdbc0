"""What pictures show of a record: stretches of work and their use, and who waited for whom."""

import numpy as np
import pytest

from echelon.stream import Record
from echelon.stream.record import RecordedRound
from echelon.stream.recorded import tasks_seen
from echelon.stream.timeline import LATE, PURGED, USEFUL, record_timeline, waits_for
from tests.stream.test_recorded import exponential, one_round, purged_run


def test_a_timeline_has_one_stretch_per_round_worker_and_use():
    seen = record_timeline(one_round())
    assert (seen.worker.tolist(), seen.job.tolist(), seen.iteration.tolist()) == ([0, 1, 1], [0] * 3, [0] * 3)
    assert seen.work.tolist() == [USEFUL, USEFUL, PURGED]
    assert seen.start.tolist() == pytest.approx([10.1, 10.2, 12.2])
    assert seen.stop.tolist() == pytest.approx([13.0, 12.2, 13.5])
    assert (seen.arrivals.tolist(), seen.starts.tolist(), seen.departures.tolist()) == ([9.0], [10.0], [14.0])


def test_a_timeline_stops_before_its_rounds_get_too_thin_to_see(tmp_path):
    record = purged_run(tmp_path / "run.jsonl", [exponential(1.0)] * 2, [[1.0] * 3] * 2, 5, rounds=50)
    seen = record_timeline(record, most_rounds=15)
    assert len(set(zip(seen.job, seen.iteration, strict=True))) == 15
    assert len(seen.arrivals) == 2
    assert not np.isnan(seen.departures[0])
    assert np.isnan(seen.departures[1])  # it is not drawn to its end
    early = record.rounds[0]
    late = RecordedRound(9, 0, 1e6, 1e6 + 3, [5], early.lanes, early.messages)
    record.rounds, record.arrivals[9] = [early, late], 1e6
    assert record_timeline(record).stop.max() < 1e3


def a_record(*rounds, losses=(), names=("a", "b", "c")):
    ends = {seen.job: seen.end for seen in rounds}
    return Record(
        list(names), "uniform", None, arrivals=dict.fromkeys(ends, 0.0), departures=ends, rounds=list(rounds),
        losses=list(losses),
    )  # fmt: skip


def test_work_is_useful_late_or_purged_by_what_was_there_when_it_was_done():
    """Two slots of one row each; b repeats a's row, and c's second row comes when its slot has enough."""
    seen = RecordedRound(
        job=0, iteration=0, start=10.0, end=14.0, needed=[1, 1],
        lanes={0: [1.0, 1.0], 1: [1.0], 2: [1.0, 1.0]},
        messages=[
            (0, 0, 0, 1.0, 1.0, 1.0), (1, 0, 0, 1.5, 1.5, 1.0), (2, 0, 1, 2.0, 2.0, 1.0), (2, 1, 2, 4.0, 2.0, 1.0),
        ],
        rows={0: [(0, 0), (1, 3)], 1: [(0, 0)], 2: [(0, 1), (1, 2)]},
        recovered=[1.0, 4.0],
    )  # fmt: skip
    drawn = record_timeline(a_record(seen, losses=[(12.0, 1), (99.0, 0)]))
    found = list(zip(*(getattr(drawn, of).tolist() for of in ("worker", "work", "start", "stop")), strict=True))
    assert found == [
        (0, USEFUL, 10.0, 11.0), (0, PURGED, 11.0, 14.0), (1, LATE, 10.0, 11.5), (2, LATE, 10.0, 12.0),
        (2, USEFUL, 12.0, 14.0),
    ]  # fmt: skip
    assert drawn.ends.tolist() == [14.0]
    assert drawn.losses == ((12.0, 1),)


def test_each_moment_that_somebody_waits_is_shared_by_those_that_are_not_done(tmp_path):
    """Against a sum over many moments; in the first case, by hand."""
    seen = RecordedRound(0, 0, 0.0, 6.0, [3], {0: [1.0], 1: [1.0], 2: [1.0]}, [
        (0, 0, 0, 1.0, 1.0, 1.0), (1, 0, 1, 3.0, 3.0, 1.0), (2, 0, 2, 6.0, 6.0, 1.0),
    ])  # fmt: skip
    drawn = record_timeline(a_record(seen))
    assert drawn.waits.tolist() == [0.0, 1.0, 1.0 + 2 * 3.0]
    assert drawn.idle == pytest.approx(8.0 / 18.0)

    record = purged_run(tmp_path / "run.jsonl", [exponential(1.0)] * 4, [[1.0] * 3, [1.0], [1.0, 2.0], [1.0]], 6)
    tasks = tasks_seen(record)
    expected = np.zeros(4)
    for number, one in enumerate(record.rounds):
        moments, step = np.linspace(one.start, one.end, 2000, endpoint=False, retstep=True)
        until = [max(task.stop for task in tasks if (task.round, task.place) == (number, p)) for p in range(4)]
        at_work = np.array(until)[:, None] > moments + step / 2
        share = (~at_work).sum(axis=0) / np.maximum(at_work.sum(axis=0), 1)
        expected += (at_work * share).sum(axis=1) * step
    np.testing.assert_allclose(waits_for(record.rounds, tasks, 4), expected, rtol=5e-3)


def test_times_may_count_from_the_first_arrival():
    drawn, moved = record_timeline(one_round()), record_timeline(one_round()).since(9.0)
    for name in ("start", "stop", "arrivals", "starts", "departures", "ends"):
        np.testing.assert_allclose(getattr(moved, name), getattr(drawn, name) - 9.0)
    assert moved.waits.tolist() == drawn.waits.tolist()
