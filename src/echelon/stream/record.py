"""The record of a run: one file, one line of JSON per entry (docs/record.md says what they hold)."""

import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, combinations
from pathlib import Path
from typing import Any, BinaryIO

from echelon.errors import ArgumentError, JobFailed
from echelon.master.actions import Outcome
from echelon.reprs import short_repr
from echelon.stream.observer import Observer, RoundSeen, Running

FORMAT = 1

log = logging.getLogger("echelon.stream")


def check_apart(**files: str | Path | None) -> None:
    """Refuse files that a stream writes where two of them, given by their names, are one, by whatever paths."""
    given = [(name, path) for name, path in files.items() if path is not None]
    for (first, one), (name, path) in combinations(given, 2):
        if Path(one).resolve() == Path(path).resolve() or (
            os.path.exists(one) and os.path.exists(path) and os.path.samefile(one, path)
        ):
            raise ArgumentError(f"{name}: {str(path)!r} is not allowed; must be another file than the {first}")


class Entries(Observer, ABC):
    """Turns what happens in a stream into the entries of a record; `write` says what becomes of them.

    names: of the places; without, they are numbered.
    """

    def __init__(self, places: int, split: str, redundancy: float | None, names: Sequence[str] | None) -> None:
        names = list(names) if names is not None else [f"w{place + 1}" for place in range(places)]
        self.places: dict[int, int] = {}
        self._write("run", format=FORMAT, names=names, split=split, redundancy=redundancy)

    @abstractmethod
    def write(self, entry: dict[str, Any]) -> None:
        """Take in an entry."""

    def _write(self, kind: str, **fields: Any) -> None:
        self.write({"kind": kind, **fields})

    def submitted(self, time_s: float, running: Running) -> None:
        """Note that a job came in."""
        self._write(
            "job", time=round(time_s, 6), job=running.number, name=running.name, iterations=running.job.iterations
        )

    def worker_up(self, time_s: float, worker: int, place: int) -> None:
        """Note that a worker joined."""
        self.places[worker] = place
        self._write("up", time=round(time_s, 6), worker=worker, place=place)

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        """Note that a worker was lost."""
        self._write("down", time=round(time_s, 6), worker=worker, place=place, reason=reason)

    def wrong_result(self, time_s: float, worker: int, place: int | None, round: int, slot: int, row: int) -> None:
        """Note a wrong result."""
        self._write("wrong", time=float(f"{time_s:.6f}"), place=place, round=round, slot=slot, row=row)

    def round_over(self, seen: RoundSeen) -> None:
        """Note a round with all its messages."""
        known = {
            worker: lane
            for worker, lane in zip(seen.workers, seen.lanes(), strict=True)
            if lane and worker in self.places
        }
        lanes = {str(self.places[worker]): [task.cost for task in lane] for worker, lane in known.items()}
        # what a row costs depends on the lane it is in; one that was given out again costs what it does at most
        costs: dict[tuple[int, int, int], float] = {}
        most = {(task.slot, task.row): task.cost for task in seen.plan.pooled}
        for worker, lane in known.items():
            for task in lane:
                costs[worker, task.slot, task.row] = task.cost
                most[task.slot, task.row] = max(task.cost, most.get((task.slot, task.row), 0.0))
        messages = [
            [
                self.places[came.worker],
                came.slot,
                came.row,
                round(came.time - seen.start, 6),
                round(came.seconds, 9),
                costs.get((came.worker, came.slot, came.row)) or most.get((came.slot, came.row), 1.0),
            ]
            for came in seen.messages
        ]
        rows = {str(self.places[worker]): [[task.slot, task.row] for task in lane] for worker, lane in known.items()}
        listed = [at for lane in rows.values() for at in lane]
        more: dict[str, Any] = {}
        if listed != [[0, row] for row in range(len(listed))]:
            # not consecutive rows of one slot, as most plans have them
            more = {
                "rows": rows,
                "recovered": [
                    round(seen.recovered.get(slot, seen.end) - seen.start, 6) for slot in range(len(seen.plan.slots))
                ],
            }
        if seen.came:
            more["came"] = seen.came
        if seen.residual:
            more |= {"residual": seen.residual, "without": list(seen.without)}
        if seen.plan.ending is not None and seen.left_out:
            more["left_out"] = seen.left_out
        if seen.error_estimate.relative_to_terms:
            more["error"] = seen.error_estimate.relative_to_terms
        sizes = [came.nbytes for came in seen.messages]
        if any(sizes):
            more["bytes"] = sizes[0] if len(set(sizes)) == 1 else sizes
        self._write(
            "round",
            job=seen.job,
            round=seen.round,
            iteration=seen.iteration,
            start=round(seen.start, 6),
            end=round(seen.end, 6),
            needed=[slot.threshold for slot in seen.plan.slots],
            lanes=lanes,
            messages=messages,
            **more,
        )

    def delivered(self, time_s: float, running: Running, outcome: Outcome, error: JobFailed | None) -> None:
        """Note that a job ended."""
        more = {} if error is None else {"error": "\n".join([str(error), *getattr(error, "__notes__", ())])}
        self._write("end", time=round(time_s, 6), job=running.number, outcome=outcome.value, **more)


class Recorder(Entries):
    """Writes a record while a stream runs. Where it can't be written (a full disk), it ends, and the run goes on."""

    def __init__(
        self, path: Path, places: int, split: str, redundancy: float | None, names: Sequence[str] | None
    ) -> None:
        self._path = path
        try:
            self._file: BinaryIO | None = path.open("wb", buffering=0)  # each line is written out at once
        except OSError as error:
            raise ArgumentError(f"record: {str(path)!r} is not allowed; {error.strerror}") from None
        super().__init__(places, split, redundancy, names)

    def write(self, entry: dict[str, Any]) -> None:
        """Write an entry as a line."""
        if self._file is None:
            return
        line = memoryview(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        try:
            while line:
                line = line[self._file.write(line) or 0 :]
        except OSError as error:
            log.warning("the record %s ends here: %s; the run goes on", self._path, error.strerror)
            self._end()

    def close(self) -> None:
        """Note that the run is over, and close the file."""
        self._write("over")
        self._end()

    def _end(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()


Message = tuple[int, int, int, float, float, float]  # place, slot, row, arrival after the start, seconds, cost


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """A round of a record.

    needed: rows that recover each slot.
    lanes: the cost of every task, by place. rows: its slot and row.
    messages: (place, slot, row, arrival after the start, seconds for the task, cost).
    recovered: when each slot had enough, after the start; empty where there is one slot.
    came: messages that came before the start, while another job was served; lanes and messages are without these.
    left_out: slots that the round ended without. residual: how far its sum was from the exact one. without: places
        whose rows it ended without.
    error: which decoding may have brought into it, relative to its terms. sizes: bytes of each message; empty where
        nothing is known of them.
    """

    job: int
    iteration: int
    start: float
    end: float
    needed: list[int]
    lanes: dict[int, list[float]]
    messages: list[Message]
    rows: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    recovered: list[float] = field(default_factory=list)
    came: int = 0
    left_out: list[int] = field(default_factory=list)
    residual: float = 0.0
    without: list[int] = field(default_factory=list)
    error: float = 0.0
    sizes: list[int] = field(default_factory=list)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if not self.rows:
            object.__setattr__(self, "rows", _rows(self.lanes))


@dataclass(slots=True)
class Record:
    """A run as it was recorded; times in seconds since the stream opened.

    iterations: of each job, None where that is not known before it ends. errors: of the jobs that failed.
    joins, losses: when a worker came to a place, or was lost there; reasons: what is known of why, one per loss.
    wrong: when and where a wrong result was found; no place where that is not known.
    over: whether the stream was closed; a run that was cut off never was.
    """

    names: list[str]
    split: str
    redundancy: float | None  # None: none was given
    arrivals: dict[int, float] = field(default_factory=dict)
    job_names: dict[int, str] = field(default_factory=dict)
    departures: dict[int, float] = field(default_factory=dict)
    outcomes: dict[int, str] = field(default_factory=dict)
    rounds: list[RecordedRound] = field(default_factory=list)
    losses: list[tuple[float, int]] = field(default_factory=list)
    iterations: dict[int, int | None] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    joins: list[tuple[float, int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    wrong: list[tuple[float, int | None]] = field(default_factory=list)
    over: bool = False

    __repr__ = short_repr


def _rows(lanes: dict[int, list[float]]) -> dict[int, list[tuple[int, int]]]:
    """Return slot and row of every task where lanes hold consecutive rows of one slot."""
    ends = accumulate(map(len, lanes.values()))
    return {
        place: [(0, row) for row in range(end - len(costs), end)]
        for (place, costs), end in zip(lanes.items(), ends, strict=True)
    }
