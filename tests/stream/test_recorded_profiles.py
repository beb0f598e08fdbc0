"""Profiles that are made of records: laws of workers, tables of rounds, and the job of the run."""

import numpy as np
import pytest
from scipy import stats

import echelon as ec
from echelon.delays import task_laws
from echelon.errors import ArgumentError
from echelon.seeds import place_generator
from echelon.simulation import RoundSampler
from echelon.stream.record import RecordedRound
from echelon.stream.recorded import tasks_seen
from echelon.stream.traced import ENOUGH_GAPS, traced
from tests.stream.test_recorded import NORMAL_99, exponential, one_round, purged_run, rng


def paced(mean: float):
    """Return a law of one pace per round."""
    return lambda draw, size: np.full(size, draw.exponential(mean))


def test_rounds_stay_together_where_that_is_asked_for(tmp_path):
    """Nothing is cut short: the table is that of the paces, round by round."""
    record = purged_run(tmp_path / "run.jsonl", [paced(1.0), paced(2.0)], [[1.0] * 3, [1.0] * 2], 5, rounds=50)
    draw = rng()
    truth = np.array([[law(draw, 1)[0] for law in (paced(1.0), paced(2.0))] for _ in range(50)])
    found = traced(record, rng(), together=True).profile
    assert [worker.law for worker in found.workers] == ["recorded", "recorded"]
    table = np.array([worker.parameters["times"] for worker in found.workers]).T
    np.testing.assert_allclose(table, truth, rtol=1e-4)
    for worker, column in zip(found.workers, table.T, strict=True):
        assert (worker.mean, worker.std) == pytest.approx((column.mean(), column.std()))
    took = [seen.end - seen.start - 0.03 for seen in record.rounds]
    sampler = RoundSampler(ec.schemes.any_k([3, 2], 5), task_laws(found), np.full(2, 0.05))
    again = sampler.draw([np.zeros(1, dtype=int)] * 2, 1, 50, rng())[0].times[0]
    np.testing.assert_allclose(again, took, rtol=1e-4, atol=1e-5)  # arrivals are recorded in microseconds


def test_what_was_cut_short_is_drawn_from_what_takes_longer(tmp_path):
    record = purged_run(tmp_path / "run.jsonl", [paced(1.0), paced(2.0)], [[1.0] * 4, [1.0] * 3], 4, rounds=200)
    found = traced(record, rng(), together=True).profile
    table = np.array([worker.parameters["times"] for worker in found.workers]).T
    finished, least = np.zeros((200, 2)), np.zeros((200, 2))
    for task in tasks_seen(record):
        kept = finished if task.finished else least
        kept[task.round, task.place] = max(kept[task.round, task.place], task.seconds / task.cost)
    known = finished > 0
    assert 10 < (~known).sum() < 200
    np.testing.assert_allclose(table[known], finished[known], rtol=1e-3, atol=1e-4)
    assert (table[~known] >= least[~known] * (1 - 1e-5)).all()
    one, same, other = (traced(record, rng(seed), together=True).profile for seed in (1, 1, 2))
    assert one == same != other


def test_the_times_are_shuffled_by_the_generator_alone_and_keep_the_mean(tmp_path):
    record = purged_run(tmp_path / "run.jsonl", [exponential(1.0)] * 2, [[1.0] * 5] * 2, 8, rounds=200)
    one, same, other = (traced(record, place_generator(seed, 0)).profile.workers[0] for seed in (1, 1, 2))
    times = one.parameters["times"]
    assert times == same.parameters["times"]
    assert times != other.parameters["times"]
    assert sorted(times) == sorted(other.parameters["times"])
    assert (len(times), np.mean(times), np.std(times)) == (200, pytest.approx(one.mean), pytest.approx(one.std))
    # neighbours are as good as independent: a rank correlation of 200 pairs is within 0.19 of 0, 99 % of the time
    assert abs(stats.spearmanr(times[:-1], times[1:]).statistic) < 0.19


def test_the_job_of_the_profile_is_that_of_the_run(tmp_path):
    record = purged_run(tmp_path / "run.jsonl", [exponential(1.0)] * 2, [[1.0] * 6, [1.0] * 5], 10, rounds=50)
    found = traced(record, rng())
    job = found.profile.workload
    assert (job.critical, job.tasks, job.redundancy, job.iterations) == (10, 11, 1.1, 10)
    assert job.arrivals.poisson_process
    arrivals = list(record.arrivals.values())
    assert job.arrivals.mean == pytest.approx((arrivals[-1] - arrivals[0]) / 4)
    assert [worker.link for worker in found.profile.workers] == pytest.approx([0.05, 0.05], abs=1e-6)
    took = [seen.end - 0.03 - seen.start for seen in record.rounds]
    # the mean of 50 rounds has this error, and the laws estimated from them lead to one of about the same size: at 99 %
    error = NORMAL_99 * np.sqrt(2) * np.std(took) / np.sqrt(len(took))
    simulated = ec.simulate_jobs(ec.schemes.any_k([6, 5], 10), found.profile, jobs=500, seeds=4)
    assert simulated.iteration_mean == pytest.approx(np.mean(took), abs=error)


def test_many_jobs_give_recorded_times_between_them(tmp_path):
    jobs = ENOUGH_GAPS + 1
    record = purged_run(tmp_path / "run.jsonl", [exponential(1.0)], [[1.0] * 2], 2, rounds=jobs, jobs=jobs)
    arrivals = traced(record, rng()).profile.workload.arrivals
    assert arrivals.times == pytest.approx(np.diff(list(record.arrivals.values())))


def test_one_job_gives_a_guess_and_says_so(tmp_path):
    record = purged_run(tmp_path / "run.jsonl", [exponential(1.0)], [[1.0] * 2], 2, rounds=10, jobs=1)
    found = traced(record, rng())
    assert found.profile.workload.arrivals.mean == pytest.approx(2 * (record.departures[0] - record.arrivals[0]))
    assert "one job every" in found.notes[-1]


def test_the_first_rows_surplus_is_part_of_the_link(tmp_path):
    record = purged_run(tmp_path / "run.jsonl", [exponential(1.0)] * 2, [[4.0, 1.0, 1.0]] * 2, 5, rounds=100)
    worker = traced(record, rng()).workers[0]
    assert worker.surplus == pytest.approx(3 * worker.mean)
    assert worker.link == pytest.approx(0.05 + worker.surplus, abs=1e-6)


def test_the_kind_of_job_with_the_most_rounds_counts(tmp_path):
    record = purged_run(tmp_path / "run.jsonl", [exponential(1.0)] * 2, [[1.0] * 3] * 2, 5, rounds=20, jobs=2)
    other = purged_run(tmp_path / "other.jsonl", [exponential(9.0)] * 2, [[1.0] * 4] * 2, 6, rounds=19, jobs=1)
    record.rounds += [
        RecordedRound(7, seen.iteration, seen.start, seen.end, seen.needed, seen.lanes, seen.messages)
        for seen in other.rounds
    ]
    record.arrivals[7] = 500.0
    found = traced(record, rng())
    assert (found.profile.workload.critical, found.profile.workload.tasks, found.profile.workload.iterations) == (
        5,
        6,
        10,
    )
    assert max(worker.mean for worker in found.workers) < 2.0
    assert found.notes[0].startswith("19 of 39 rounds were of other kinds of jobs")


def test_a_worker_of_whom_nothing_is_known_is_left_out():
    seen = one_round().rounds[0]
    messages = [message for message in seen.messages if message[0] == 0]
    record = one_round(rounds=[RecordedRound(0, 0, 10.0, 13.5, [3], seen.lanes, messages)])
    found = traced(record, rng())
    assert (found.profile.names, found.left_out) == (["a"], ("b",))
    assert "b: left out" in "\n".join(found.notes)


def test_a_record_without_a_round_or_a_finished_task_makes_no_profile():
    with pytest.raises(ArgumentError, match="no round is in this record"):
        traced(one_round(rounds=[]), rng())
    silent = RecordedRound(0, 0, 10.0, 13.5, [3], {0: [1.0] * 3}, [])
    with pytest.raises(ArgumentError, match="no worker finished a task"):
        traced(one_round(rounds=[silent]), rng())
    with pytest.raises(ArgumentError, match="times: 1 is not allowed"):
        traced(one_round(), rng(), times=1)
