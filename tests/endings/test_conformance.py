"""What every ending with due slots promises, and that the master handles one it never heard of."""

import re
from dataclasses import FrozenInstanceError, dataclass
from itertools import permutations, product

import numpy as np
import pytest

from bench.chaos.invariants import Watcher
from echelon.endings import ENDINGS, WAITING, Ending, EndRule
from echelon.errors import ArgumentError
from echelon.master.actions import Assign, Purge, Recover, SetTimer
from echelon.master.events import Alarm, Joined, Lost, Planned, Received, Recovered, Submitted
from echelon.master.machine import Master
from echelon.plan import Plan, Slot, Task
from echelon.schemes import diagonal_interleaved
from tests.conftest import ROOT
from tests.master.test_ending import END, TWO, plan, started

BY_ENDING = pytest.mark.parametrize("ending", WAITING.values(), ids=WAITING)
LANES = (((0, 0), (1, 0), (1, 3)), ((0, 1), (1, 1), (1, 4)), ((0, 2), (1, 2), (1, 5)))


class Play:
    """A round whose workers send what they were given, one message after another, until it ends.

    recovered: slots that are recovered.
    """

    def __init__(self, made):
        self.watcher, self.recovered, self.ended = Watcher(Master(patience=10.0)), set(), False
        self._lanes, self._timer, self._time = {worker: [] for worker in range(len(made.lanes))}, None, 0.0
        for worker in self._lanes:
            self.handle(Joined(0.0, worker))
        self.handle(Submitted(0.0, 0))
        self.handle(Planned(0.0, 1, made, tuple(self._lanes)))

    def send(self, worker):
        """Let a second pass, and one worker send its next message, if it has one."""
        self.pass_time(1.0)
        if self._lanes[worker]:
            self.handle(Received(self._time, worker, 1, *self._lanes[worker].pop(0)))

    def join(self, worker):
        self._lanes[worker] = []
        self.handle(Joined(self._time, worker))

    def lose(self, worker):
        self.handle(Lost(self._time, worker))

    def pass_time(self, seconds):
        self._time += seconds
        while self._timer is not None and self._timer.at <= self._time and not self.ended:
            timer, self._timer = self._timer, None
            self.handle(Alarm(timer.at, timer.round, timer.attempt))

    def handle(self, event):
        """Do what the master wants done."""
        for action in [] if self.ended else self.watcher.handle(event):
            match action:
                case Purge():
                    self.ended = True
                case SetTimer():
                    self._timer = action  # in place of the one before
                case Recover(slot=slot):
                    self.recovered.add(slot)
                    self.handle(Recovered(self._time, 1, slot))
                case Assign(worker=worker, tasks=tasks):
                    self._lanes[worker] += [(task.slot, task.row) for task in tasks]


@BY_ENDING
@pytest.mark.parametrize("due", [(), (1,), (0, 1)])
def test_a_round_ends_and_never_before_its_due_slots_are_there(ending, due):
    """All orders of three workers, and 40 orders of single messages; the watcher looks on."""
    rng = np.random.default_rng(1)
    orders = [[worker for worker in order for _ in range(3)] for order in permutations(range(3))]
    orders += [rng.permutation([0, 0, 0, 1, 1, 1, 2, 2, 2]).tolist() for _ in range(40)]
    for order in orders:
        play = Play(plan(ending(due=due), LANES))
        for worker in order:
            play.send(worker)
        play.pass_time(1e6)
        assert play.ended, order
        assert play.recovered >= set(due), order


@BY_ENDING
@pytest.mark.parametrize("thresholds", [(3, 4), (3, 2)])
def test_a_round_ends_whenever_workers_die(ending, thresholds):
    """Two of three die, each at any of ten moments; the third does what is given to it again."""
    for first, second in product(range(10), repeat=2):
        play = Play(plan(ending(due=(1,)), LANES, thresholds=thresholds, rows=20))
        for turn in range(40):
            for worker, death in ((1, first), (2, second)):
                if turn == death:
                    play.lose(worker)
            for worker in [0, *(worker for worker, death in ((1, first), (2, second)) if turn < death)]:
                play.send(worker)
        assert play.ended, (first, second)
        assert 1 in play.recovered, (first, second)


@BY_ENDING
def test_an_ending_is_a_value_that_refuses_slots_its_plan_does_not_have(ending):
    assert ending(due=(1,)) == ending(due=(1,)) != ending()
    with pytest.raises(FrozenInstanceError):
        ending().due = (1,)
    with pytest.raises(ArgumentError, match="ending: due: 2 is not allowed"):
        plan(ending(due=(2,)), TWO)


@BY_ENDING
def test_a_round_ends_though_every_worker_dies_and_one_joins_later(ending):
    """It has nothing that was on its way; the one that joins does what the round can't end without."""
    for due in ((), (0,), (1,)):
        play = Play(plan(ending(due=due), LANES, rows=20))
        play.send(0)
        for worker in range(3):
            play.lose(worker)
        play.join(3)
        for _ in range(40):
            play.send(3)
        play.pass_time(1e6)
        assert play.ended, due
        assert play.recovered >= set(due), due


@pytest.mark.parametrize("waiting", WAITING)
def test_a_chain_may_wait_by_every_ending_that_has_limits_and_a_tolerance(waiting):
    assert diagonal_interleaved(2, x=1, y=3, delay=1, waiting=waiting).waiting == waiting
    assert WAITING[waiting](due=(0,), limits=(((0,), 0),), tolerance=0.5).tolerance == 0.5


def test_a_waiting_rule_that_is_not_registered_is_refused():
    with pytest.raises(ArgumentError, match="waiting: 'slowest' is not allowed; must be one of due, fastest"):
        diagonal_interleaved(2, x=1, y=3, delay=1, waiting="slowest")


@dataclass(frozen=True, kw_only=True)
class Tide(Ending):
    """An ending that the package does not have: the clock ends the round, whatever came but for what is due."""

    due: tuple[int, ...] = ()
    seconds: float = 3.0

    def check(self, *, slots, lanes, sums):
        pass

    def needed(self, slots):
        return len(self.due)

    def rule(self, lanes, start, sums):
        return TideRule(self.due, start + self.seconds)


class TideRule(EndRule):
    def __init__(self, due, at):
        self.due, self.at = due, at

    def arrived(self, row, now):
        pass

    def settled(self, slot, now):
        return True

    def ripe(self, recovered):
        return self.at if self.met(recovered) else None

    def met(self, recovered):
        return all(recovered[slot] for slot in self.due)

    def over(self, recovered, coming):
        return all(recovered)

    def lacking(self, held):
        return []

    def awaited(self, short):
        return self.due


def test_the_master_handles_an_ending_it_never_heard_of():
    made = Plan([Slot(rows=2, threshold=2)], [[Task(slot=0, row=0)], [Task(slot=0, row=1)]], ending=Tide())
    watcher = started(made, start=10.0)
    assert watcher.master.ripe == 13.0  # the clock is set from the beginning
    assert watcher.handle(Received(11.0, 0, 1, 0, 0)) == []
    assert watcher.handle(Alarm(12.0, 1, 0)) == []
    assert watcher.handle(Alarm(13.0, 1, 0)) == END


def test_a_deadline_waits_for_what_is_due_and_no_longer():
    watcher = started(plan(Tide(due=(1,)), TWO))
    assert watcher.master.ripe is None
    for time, worker, (slot, row) in ((1.0, 0, TWO[0][0]), (4.0, 0, TWO[0][1]), (5.0, 1, TWO[1][0])):
        assert watcher.handle(Received(time, worker, 1, slot, row)) == []
    assert watcher.handle(Received(6.0, 1, 1, 1, 1)) == [Recover(1, 1, (0, 1))]
    assert watcher.handle(Recovered(6.0, 1, 1)) == [SetTimer(6.0, 1, 0)]
    assert watcher.handle(Joined(6.0, 9)) == []
    assert watcher.handle(Alarm(6.0, 1, 0)) == END


def test_no_concrete_ending_is_named_by_the_master():
    names = [ending.__name__ for ending in ENDINGS.values()]
    for path in (ROOT / "src" / "echelon" / "master").glob("*.py"):
        assert not re.search(rf"\b({'|'.join(names)}|LaneEnding|Policy)\b", path.read_text(encoding="utf-8")), path


def test_a_wait_counts_from_when_the_round_began():
    watcher = started(plan(ENDINGS["fastest"](tolerance=1.0), TWO), start=50.0)
    watcher.handle(Received(52.0, 0, 1, 0, 0))
    (timer,) = watcher.handle(Received(53.0, 0, 1, 1, 0))
    assert timer.at == pytest.approx(56.0)
