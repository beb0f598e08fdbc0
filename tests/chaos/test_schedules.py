"""Whole programs in virtual time under seeded faults: the production driver with journal, record and deliveries."""

import pytest

from bench.chaos import run_schedule, run_schedules
from bench.planted import BUGS, ROOT
from echelon.errors import EchelonError
from echelon.master.machine import Master
from echelon.stream import Journal

BLOCK = 100


@pytest.fixture(autouse=True)
def _no_log(caplog):
    caplog.set_level("CRITICAL", logger="echelon")


@pytest.mark.parametrize("block", range(40))
def test_a_hundred_whole_stack_schedules_keep_every_promise(block):
    """4 000 schedules in all; a failure names its seed, and the command that replays it."""
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        try:
            run_schedule(seed)
        except Exception as error:
            raise AssertionError(f"replay by: python -m bench.chaos --seed {seed}") from error


def test_a_schedule_is_the_same_each_time(monkeypatch):
    """What happens depends on the seed alone: the same events, in the same order."""
    from bench.chaos.watch import Rows

    events = []
    check = Rows.check
    monkeypatch.setattr(Rows, "check", lambda self, event, actions: events.append(event) or check(self, event, actions))
    for seed in (1, 2, 3):
        run_schedule(seed)
    first, events[:] = list(map(repr, events)), []
    for seed in (1, 2, 3):
        run_schedule(seed)
    assert first == list(map(repr, events))
    assert len(first) > 100


@pytest.mark.parametrize(
    ("owner", "method", "broken"),
    [
        (Master, "_mend", lambda self, collection: []),
        (Master, "_alarm", lambda self, event: []),
        (Master, "_joined", lambda self, event: self.workers.setdefault(event.worker) or []),
        (Journal, "undelivered", lambda self: iter(())),
    ],
    ids=["orphans", "alarms", "newcomers", "a journal that forgets"],
)
def test_what_is_broken_is_caught_within_a_few_schedules(monkeypatch, capsys, owner, method, broken):
    monkeypatch.setattr(owner, method, broken)
    with pytest.raises((AssertionError, EchelonError)):
        run_schedules(0, 200)
    assert "replay it by: python -m bench.chaos --seed" in capsys.readouterr().err


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_bug_that_make_planted_plants_has_its_place(bug):
    text = (ROOT / "src" / "echelon" / bug.file).read_text(encoding="utf-8")
    assert bug.old in text
