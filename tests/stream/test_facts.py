"""What is collected of a running stream, from events alone."""

from types import SimpleNamespace

import numpy as np
import pytest

import echelon as ec
from echelon.master.actions import Outcome
from echelon.stream.facts import Facts
from tests.stream.jobs import sum_job


class Desk:
    """Facts of a driver that is played: its clock, its workers, their speeds."""

    def __init__(self, places=3, fixed=False):
        pacing = SimpleNamespace(known=True, means=np.ones(places), expected=None)
        self.time, self.driver = 0.0, SimpleNamespace(places={}, pacing=pacing, now=lambda: self.time)
        self.facts = Facts(self.driver, [f"w{place + 1}" for place in range(places)], fixed=fixed)
        self.round = 0

    def submit(self, number, **options):
        job = sum_job(**options)
        running = SimpleNamespace(number=number, name=f"job {number}", job=job, iteration=0)
        self.facts.submitted(self.time, running)
        return running

    def step(self, running, seconds):
        """Let a round go by in which a job takes a step."""
        self.round += 1
        start, self.time = self.time, self.time + seconds
        running.iteration += 1
        slots = [SimpleNamespace(threshold=9, rows=12)]
        seen = SimpleNamespace(start=start, end=self.time, plan=SimpleNamespace(slots=slots), workers=(), messages=[])
        self.facts.stepped(running, seen, False)
        self.facts.round_over(seen)

    def end(self, running):
        self.facts.delivered(self.time, running, Outcome.DONE, None)


def test_before_anything_runs_there_is_no_percent_and_no_time_left():
    now = Desk().facts.now()
    assert (now.share, now.left, now.per_s, now.job) == (None, None, None, None)
    assert now.progress() == ["workers 0 of 3"]


def test_percent_rate_and_time_left_follow_from_the_steps_of_all_jobs_since_the_stream_was_idle():
    desk = Desk()
    first, second = desk.submit(0, iterations=4), desk.submit(1, iterations=6)
    for _ in range(4):
        desk.step(first, 0.5)
    desk.end(first)
    desk.step(second, 0.5)
    now = desk.facts.now()
    assert (now.jobs, now.job, now.iteration, now.iterations) == (1, "job 1", 1, 6)
    assert now.share == pytest.approx(5 / 10)
    assert now.per_s == pytest.approx(2.0)
    assert now.left == pytest.approx(5 * 0.5)
    desk.time += 1.0  # a long round: what is left goes down meanwhile
    assert desk.facts.now().left == pytest.approx(1.5)
    desk.end(second)
    assert desk.facts.now().share is None
    third = desk.submit(2, iterations=2)
    desk.step(third, 4.0)
    now = desk.facts.now()
    assert (now.share, now.left) == (pytest.approx(0.5), pytest.approx(4.0))
    assert "50%" in now.progress()
    assert "ETA 0:04" in now.progress()


def test_a_job_that_may_end_before_has_at_most_so_much_left_and_one_without_a_length_has_no_percent():
    desk = Desk()
    running = desk.submit(0, iterations=10, until=lambda state: False)
    desk.step(running, 1.0)
    assert "ETA at most 0:09" in desk.facts.now().progress()
    desk.submit(1, iterations=None, until=lambda state: False)
    now = desk.facts.now()
    assert (now.share, now.left) == (None, None)
    assert "2 jobs in the stream" in now.progress()


def test_workers_that_are_not_there_yet_or_again_are_starting_and_gone_only_where_nobody_comes_after_them():
    for fixed, state in ((False, "starting"), (True, "gone")):
        desk = Desk(fixed=fixed)
        desk.submit(0)
        desk.driver.places.update({0: 0, 1: 1})
        del desk.driver.places[1]
        desk.facts.worker_down(0.0, 1, 1, "killed")
        now = desk.facts.now()
        assert [worker.state for worker in now.workers] == ["at work", state, "starting"]
        assert [worker.losses for worker in now.workers] == [0, 1, 0]
        assert "workers 1 of 3" in now.progress()


def test_workers_much_slower_than_the_fastest_are_named_the_slowest_first():
    desk = Desk(places=6)
    desk.driver.pacing.means[:] = [0.2, 0.1, 0.24, 0.11, 0.3, 0.9]
    assert "slow: w6 9.0x, w5 3.0x, w3 2.4x" in desk.facts.now().progress()
    desk.driver.pacing.known = False
    assert not any(word.startswith("slow") for word in desk.facts.now().progress())


def test_of_many_workers_those_that_need_to_be_looked_at_are_listed():
    desk = Desk(places=100)
    desk.driver.places.update({number: number for number in range(100) if number != 70})
    desk.driver.pacing.means[33] = 5.0
    listed, more = desk.facts.now().table()
    assert [row[0] for row in listed[:2]] == ["w71", "w34"]
    assert len(listed) == 16
    assert more == "and 84 more workers"


def test_a_stream_that_runs_tells_what_its_handles_say():
    with ec.Stream("virtual", workers=2, redundancy=1.3, progress=False) as stream:
        facts = Facts(stream._driver, ["a", "b"], fixed=False)
        stream.watch(facts)
        handle = stream.submit(sum_job(iterations=8, name="eight"))
        stream.sleep(0.0)
        stream.pass_time(lambda: handle.progress.iteration >= 4, None)
        now = facts.now()
        assert now.title() == f"eight: iteration {handle.progress.iteration} of 8"
        assert now.share == handle.progress.iteration / 8
        assert now.rows == (9, 12)
        assert [worker.state for worker in now.workers] == ["at work", "at work"]
        handle.result()
    now = facts.now()
    assert (now.jobs, now.rounds) == (0, 8)
