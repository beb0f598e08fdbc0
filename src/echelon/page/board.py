"""All that the page shows of a run, collected from the entries of its record, in memory that does not grow."""

from collections import deque
from dataclasses import replace
from typing import Any

from echelon.errors import ArgumentError
from echelon.page.jobs import Jobs
from echelon.page.seats import Seats, received_bytes
from echelon.page.series import Series
from echelon.page.spread import Spread, round_law
from echelon.stream.record import Record, RecordedRound
from echelon.stream.record_reader import RecordReader
from echelon.stream.recorded import TaskSeen, tasks_of
from echelon.stream.timeline import LATE, PURGED, USEFUL

KEPT = 400  # rounds that are drawn, and replayed
_TASKS = 40_000  # of these rounds, together
_MARKS, _REPLANS = 150, 50
_LOSSES = 1000  # of the last rounds: which tasks they cut short
_WORTH_SAYING = 0.05  # share of the seconds of all rounds

Mark = dict[str, Any]


class Board:
    """What a page shows; entries are taken in their order, by one thread.

    rounds: how many there were. drawn: the last of them with their numbers and tasks, for pictures.

    >>> board = Board()
    >>> board.take({"kind": "run", "format": 1, "names": ["a", "b"], "split": "uniform", "redundancy": None})
    >>> board.take({"kind": "job", "time": 0.5, "job": 0, "name": "fit"})
    >>> board.state()["queue"]["open"]
    1
    """

    def __init__(self) -> None:
        self._reader = RecordReader()
        self._seats, self._jobs = Seats([]), Jobs()
        self._lasted = Spread()
        self._kind: tuple[int, ...] = ()
        self._seconds = self._first = self._end = self._clock = 0.0
        self._bytes, self._sized = [0, 0], False
        self._errors = Series()
        self._worst = {"decoding": 0.0, "residual": 0.0}
        self._marks: deque[Mark] = deque(maxlen=_MARKS)
        self._replans: deque[Mark] = deque(maxlen=_REPLANS)
        self._shares: tuple[int, dict[int, int]] | None = None  # job and rows by place, of the last round
        self.rounds = 0
        self.drawn: deque[tuple[int, RecordedRound, list[TaskSeen]]] = deque()
        self._tasks = 0

    @property
    def begun(self) -> bool:
        """Whether there was an entry."""
        return self._reader.record is not None

    @property
    def record(self) -> Record:
        """What the entries said that is still kept; rounds are in `drawn`."""
        if self._reader.record is None:
            raise ArgumentError("this is not the record of a run; it must begin with an entry of kind 'run'")
        return self._reader.record

    def take(self, entry: dict[str, Any]) -> None:
        """Take in an entry; one that can't be meant as written raises `ArgumentError`."""
        begun = self.begun
        self._reader.take(entry)
        record = self.record
        if not begun:
            self._seats = Seats(record.names)
            return
        match entry["kind"]:
            case "job":
                self._jobs.submitted(self._at(entry), entry["job"])
            case "end":
                self._jobs.ended(self._at(entry), entry["job"], record)
            case "up":
                place = entry["place"]
                self._seats.joined(place)
                again = " again" if self._seats.all[place].losses else ""
                self._mark(entry, "up", place, f"{record.names[place]} is there{again}")
                record.joins.clear()
            case "down":
                place, reason = entry["place"], record.reasons.pop()
                self._seats.lost(place, reason)
                self._mark(entry, "down", place, f"{record.names[place]} was lost: {reason}")
                del record.losses[:-_LOSSES]
            case "wrong":
                self._seats.wrong(entry["place"])
                name = "a worker" if entry["place"] is None else record.names[entry["place"]]
                self._mark(entry, "wrong", entry["place"], f"{name} sent a wrong result")
                record.wrong.clear()
            case "round":
                self._round_over(record.rounds.pop())

    def _at(self, entry: dict[str, Any]) -> float:
        time = float(entry["time"])
        self._clock = max(self._clock, time)
        return time

    def _mark(self, entry: dict[str, Any], kind: str, place: int | None, text: str) -> None:
        self._marks.append({"time": self._at(entry), "kind": kind, "place": place, "text": text})

    def _round_over(self, seen: RecordedRound) -> None:
        tasks = list(tasks_of(self.rounds, seen, self.record.losses, self._seats.links()))
        self._seats.round_over(seen, tasks)
        self._jobs.round_over(seen)
        if not self.rounds:
            self._first = seen.start
        self._end = max(self._end, seen.end)
        self._clock = max(self._clock, seen.end)
        self._seconds += seen.end - seen.start
        kind = (*seen.needed,)
        if kind != self._kind:
            self._kind = kind
            self._lasted.clear()
        self._lasted.add(seen.end - seen.start)
        if seen.sizes:
            self._sized = True
            for i, size in enumerate(received_bytes(seen, tasks)):
                self._bytes[i] += size
        self._errors.add(seen.end, seen.residual, seen.error)
        for name, value in (("decoding", seen.error), ("residual", seen.residual)):
            self._worst[name] = max(self._worst[name], value)
        self._note_replan(seen)
        self.drawn.append((self.rounds, seen, tasks))
        self.rounds += 1
        self._tasks += len(tasks)
        while len(self.drawn) > KEPT or (self._tasks > _TASKS and len(self.drawn) > 1):
            self._tasks -= len(self.drawn.popleft()[2])

    def _note_replan(self, seen: RecordedRound) -> None:
        shares = {place: len(lane) for place, lane in seen.lanes.items()}
        last, self._shares = self._shares, (seen.job, shares)
        if last is not None and last[0] == seen.job and last[1] != shares:
            moved = sum(abs(shares.get(p, 0) - last[1].get(p, 0)) for p in shares.keys() | last[1].keys())
            text = f"round {self.rounds}: rows are shared out anew, {moved} of them to others"
            self._replans.append({"time": seen.start, "kind": "replan", "place": None, "text": text})

    # what is shown

    def state(
        self,
        *,
        title: str = "",
        clock: float | None = None,
        running: bool = False,
        cluster: str | None = None,
        now: dict[str, Any] | None = None,
        over: bool = False,
        lost: int = 0,
    ) -> dict[str, Any]:
        """Return all that is shown but the rounds, as JSON has it.

        clock: the time now, where it goes on by itself (`running`); else that of the last entry. now: the open round.
        lost: how much of what happened was not taken in, since there was too much of it.
        """
        record, (law, says) = self.record, self._law()
        served = None if now is None else now["job"]
        at_work = set(range(len(record.names))) if self._jobs.open and not over else set()
        if now is not None:
            at_work = set(now["missing"])
        span_s = max(0.0, self._end - self._first)
        workers = self._seats.rows(span_s=span_s, at_work=at_work)
        return {
            "title": title,
            "over": over or record.over,
            "lost": lost,
            "clock": self._clock if clock is None else clock,
            "running": running,
            "names": record.names,
            "split": record.split,
            "redundancy": record.redundancy,
            "cluster": cluster,
            "rounds": self.rounds,
            "now": now,
            "workers": workers,
            "round_s": self._lasted.shown(law, says),
            "delay_s": self._jobs.delays.shown(says="Time from arrival to end of the jobs that were done."),
            "queue": self._jobs.queue(),
            "price": self._price(),
            "errors": self._told_errors(),
            "jobs": self._jobs.rows(record, served),
            "marks": sorted([*self._marks, *self._replans], key=lambda mark: float(mark["time"])),
            "advice": self._advice(workers),
            "what_if": None,
        }

    def snapshot(self) -> Record:
        """Return a record of the rounds that are kept, which stays as it is."""
        record = self.record
        return replace(
            record,
            rounds=[seen for _, seen, _ in self.drawn],
            arrivals=record.arrivals.copy(),
            departures=record.departures.copy(),
            losses=record.losses.copy(),
        )

    def _law(self) -> Any:
        if not self.drawn:
            return None, ""
        return round_law(self.drawn[-1][1], self._seats.speeds(), self.record.names)

    def _price(self) -> dict[str, Any]:
        useful, late, purged = (self._seats.seconds(work) for work in (USEFUL, LATE, PURGED))
        total = useful + late + purged
        says = "Nothing was computed yet." if not total else f"{useful / total:.0%} of all computing was of use"
        if total:
            says += f"; {late / total:.0%} came too late, {purged / total:.0%} was cut short by ends of rounds."
        return {
            "useful_s": useful,
            "late_s": late,
            "purged_s": purged,
            "useful_bytes": self._bytes[0] if self._sized else None,
            "wasted_bytes": self._bytes[1] if self._sized else None,
            "says": says,
        }

    def _told_errors(self) -> dict[str, Any]:
        last = self.drawn[-1][1] if self.drawn else None
        return {
            "decoding": None if last is None else last.error,
            "residual": None if last is None else last.residual,
            "decoding_most": self._worst["decoding"],
            "residual_most": self._worst["residual"],
            "series": list(self._errors),
        }

    def _advice(self, workers: list[dict[str, Any]]) -> str:
        """Return one sentence on whom rounds wait for, and what would help."""
        if not self.rounds or not self._seconds:
            return "No round is over yet."
        worst = max(workers, key=lambda worker: float(worker["awaited_s"]))
        share = worst["awaited_s"] / self._seconds
        if share < _WORTH_SAYING:
            return f"Rounds wait for nobody in particular: for {worst['name']} the longest, {share:.0%} of their time."
        said = f"Rounds waited {worst['awaited_s']:.3g} of {self._seconds:.3g} s for {worst['name']} alone"
        if worst["kind"] == "chronic" and self.record.split == "uniform":
            return f"{said}, which takes {worst['score']:.2g} times as long as the fastest: share rows out by speed."
        if worst["kind"] == "chronic":
            return f"{said}, which takes {worst['score']:.2g} times as long as the fastest: can it do with fewer rows?"
        return f"{said}, which is not always slow: rows to spare, or copies of what is late, would hide it."
