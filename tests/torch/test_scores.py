"""Scores of made stamps: who waited for whom, by its definition; ranks that are slow always, lately, or at times."""

from pathlib import Path

import numpy as np
import pytest

from echelon.errors import ArgumentError
from echelon.torch.scores import by_speed, complete, scores, waiting
from echelon.torch.stamping import CLOSED, MISSING, DeviceClock, HostClock, Step
from echelon.torch.step_record import StepRecord
from echelon.torch.watch_report import profile_of, reduce_time, reported, usual_parts

STEPS = 200


def stamped(own, *, before=0.0, reduce_s=0.0):
    """Stamps of ranks that arrive at these times, and of a reduce that takes so long once all are there."""
    own = np.asarray(own, dtype=float)
    over = np.broadcast_to(own.max(axis=1, keepdims=True) + reduce_s, own.shape)
    return np.stack([np.full_like(own, before), (before + own) / 2, own, over], axis=2)


def of(own):
    own = np.asarray(own, dtype=float)
    waited, awaited = waiting(own)
    return scores(stamped(own), waited.sum(axis=0), awaited.sum(axis=0), list(range(own.shape[1])))


def noisy(seed=1, ranks=4, spread=0.03):
    return np.random.default_rng(seed).normal(1.0, spread, (STEPS, ranks))


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_waiting_is_what_its_definition_says(ranks):
    own = np.random.default_rng(ranks).exponential(size=(5, ranks))
    waited, awaited = waiting(own)
    for step in range(5):
        shared = np.zeros(ranks)
        for start, end in zip(*(lambda ends: (ends[:-1], ends[1:]))(np.sort(own[step])), strict=True):
            here = own[step] <= start
            shared[~here] += (end - start) * here.sum() / (~here).sum()
        np.testing.assert_allclose(awaited[step], shared, atol=1e-12)
        np.testing.assert_allclose(waited[step], own[step].max() - own[step])
        assert awaited[step].sum() == pytest.approx(waited[step].sum())


@pytest.mark.parametrize("seed", range(20))
def test_a_rank_that_takes_30_percent_longer_scores_so(seed):
    own = noisy(seed)
    own[:, 2] *= 1.3
    found = of(own)
    assert [one.kind for one in found] == ["on time", "on time", "chronic", "on time"]
    assert found[2].score == pytest.approx(1.3, abs=0.05)
    assert max(one.score for one in found if one.rank != 2) < 1.05


def test_a_rank_that_became_slow_is_chronic_though_its_usual_step_is_not():
    own = noisy()
    own[int(0.8 * STEPS) :, 1] *= 1.3
    slow = of(own)[1]
    assert slow.score < 1.1
    assert slow.kind == "chronic"
    assert slow.lately == pytest.approx(1.3, abs=0.05)
    assert slow.own == pytest.approx(1.3, abs=0.05)


def test_a_pause_is_told_from_being_slow():
    own = noisy()
    own[17, 0] = 9.0
    own[::10, 3] *= 3
    found = of(own)
    assert [(one.kind, one.hiccups) for one in found] == [("once", 1), ("on time", 0), ("on time", 0), ("at times", 20)]
    assert [one.late for one in found] == [False, False, False, True]


def test_a_step_that_is_long_for_all_is_nobodys_pause():
    own = noisy()
    own[::10] *= 4
    assert [one.kind for one in of(own)] == ["on time"] * 4


def test_one_rank_waits_for_nobody():
    (only,) = of(noisy(ranks=1))
    assert (only.score, only.waited_s, only.awaited_s) == (1.0, 0.0, 0.0)


def test_sizes_by_speed_take_all_samples_over_the_sum_of_speeds():
    times = np.array([1.0, 1.3, 2.0, 0.7])
    shares, arrivals = by_speed(stamped(np.tile(times, (5, 1))))
    np.testing.assert_allclose(shares, (1 / times) / (1 / times).sum())
    np.testing.assert_allclose(arrivals, len(times) / (1 / times).sum())


def test_what_comes_before_the_passes_is_not_divided():
    times = np.array([[1.0, 1.0, 3.0]])
    _, arrivals = by_speed(stamped(times + 0.5, before=0.5))
    np.testing.assert_allclose(arrivals, 0.5 + 3 / (1 + 1 + 1 / 3))


def test_a_reduce_takes_what_the_last_rank_sees_of_it():
    stamps = stamped([[1.0, 2.0], [1.0, 4.0]], reduce_s=0.25)
    assert reduce_time(stamps) == pytest.approx(0.25)
    report = reported(stamps, np.zeros(2), np.zeros(2), [0, 1], 2, None)
    assert (report.step_s, report.reduce_s) == (pytest.approx(3.25), pytest.approx(0.25))
    assert report.waiting == pytest.approx(1 / 3.25)  # one rank waits 1 and 3 seconds, the other none
    assert profile_of(stamps, [0, 1], 4, None).costs.message == pytest.approx(0.25)


def test_a_report_says_of_how_many_steps_it_is():
    report = reported(stamped(noisy()), np.zeros(4), np.zeros(4), [0, 1, 2, 3], 900, None)
    assert str(report).startswith("200 steps (the latest of 900) of 4 ranks")
    assert "is late" not in str(report)


@pytest.mark.parametrize("ranks", [1, 2, 16, 17, 300, 5000])
def test_a_profile_has_parts_for_all_ranks(ranks):
    parts = usual_parts(ranks)
    assert 2 <= parts <= 16
    profile = profile_of(stamped(np.ones((3, ranks))), range(ranks), parts, None)
    assert profile.workload.critical == parts * ranks
    np.testing.assert_allclose(profile.speeds.mean, 1 / parts)
    assert not profile.speeds.std.any()


def test_steps_that_some_rank_did_not_stamp_are_known():
    stamps = stamped(np.ones((4, 2)))
    stamps[1, 0], stamps[3, 1] = MISSING, CLOSED
    assert complete(stamps).tolist() == [0, 2]


def test_rows_need_all_marks():
    clock, before = HostClock(), Step(reduced=1.0)
    assert Step(2.0, 3.0, 4.0, 5.0).row(before, clock) == (1.0, 2.0, 3.0, 4.0)
    assert Step(None, 3.0, 4.0, 5.0).row(before, clock) is MISSING
    assert Step(2.0, 3.0, 4.0, 5.0).row(Step(), clock) is MISSING
    assert Step(closed=True).row(before, clock) is CLOSED
    assert clock.seconds(clock.mark(), clock.mark()) >= 0


class Event:
    """An event of a device, which says when it was only after it was waited for."""

    def __init__(self, at):
        self.at, self.passed = at, False

    def synchronize(self):
        self.passed = True

    def elapsed_time(self, other):
        assert self.passed
        assert other.passed
        return 1000.0 * (other.at - self.at)


def test_events_are_passed_before_they_are_read():
    clock = DeviceClock(map(Event, range(3)).__next__)
    first, second, third = (clock.mark() for _ in range(3))
    assert clock.seconds(first, third) == 2.0
    assert clock.seconds(second, third) == 1.0


def test_a_record_on_a_full_disk_ends_and_says_so(caplog):
    record = StepRecord(Path("/dev/full"), ["rank 0"], parts=2)
    record.add(stamped([[1.0]]))
    assert "the record" in caplog.text
    assert "the training goes on" in caplog.text
    record.add(stamped([[1.0]]))
    record.close()


def test_a_record_that_cannot_be_opened_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match=r"record: .* is not allowed; No such file"):
        StepRecord(tmp_path / "nowhere" / "run.jsonl", ["rank 0"], parts=2)
