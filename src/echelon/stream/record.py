"""The record of a run: one file, one line of JSON per entry (docs/record.md says what they hold)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from echelon.errors import ArgumentError
from echelon.master.actions import Outcome
from echelon.stream.observer import Observer, RoundSeen, Running

FORMAT = 1


class Recorder(Observer):
    """Writes a record while a stream runs."""

    def __init__(
        self, path: Path, places: int, split: str, redundancy: float | None, names: Sequence[str] | None
    ) -> None:
        try:
            self._file = path.open("w", encoding="utf-8", buffering=1)  # each line is written out at once
        except OSError as error:
            raise ArgumentError(f"record: {str(path)!r} is not allowed; {error.strerror}") from None
        names = list(names) if names is not None else [f"worker {place + 1}" for place in range(places)]
        self._write("run", format=FORMAT, names=names, split=split, redundancy=redundancy)
        self._places: dict[int, int] = {}

    def _write(self, kind: str, **fields: Any) -> None:
        self._file.write(json.dumps({"kind": kind, **fields}, separators=(",", ":")) + "\n")

    def submitted(self, time_s: float, running: Running) -> None:
        """Note that a job came in."""
        self._write("job", time=round(time_s, 6), job=running.number, name=running.name)

    def worker_up(self, time_s: float, worker: int, place: int) -> None:
        """Note that a worker joined."""
        self._places[worker] = place
        self._write("up", time=round(time_s, 6), worker=worker, place=place)

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        """Note that a worker was lost."""
        self._write("down", time=round(time_s, 6), worker=worker, place=place, reason=reason)

    def round_over(self, seen: RoundSeen) -> None:
        """Note a round with all its messages."""
        known = {
            worker: lane
            for worker, lane in zip(seen.workers, seen.lanes(), strict=True)
            if lane and worker in self._places
        }
        lanes = {str(self._places[worker]): [task.cost for task in lane] for worker, lane in known.items()}
        # what a row costs depends on the lane it is in; one that was given out again costs what it does at most
        costs: dict[tuple[int, int, int], float] = {}
        most = {(task.slot, task.row): task.cost for task in seen.plan.pooled}
        for worker, lane in known.items():
            for task in lane:
                costs[worker, task.slot, task.row] = task.cost
                most[task.slot, task.row] = max(task.cost, most.get((task.slot, task.row), 0.0))
        messages = [
            [
                self._places[came.worker],
                came.slot,
                came.row,
                round(came.time - seen.start, 6),
                round(came.seconds, 9),
                costs.get((came.worker, came.slot, came.row)) or most.get((came.slot, came.row), 1.0),
            ]
            for came in seen.messages
        ]
        rows = {str(self._places[worker]): [[task.slot, task.row] for task in lane] for worker, lane in known.items()}
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

    def delivered(self, time_s: float, running: Running, outcome: Outcome, error: str) -> None:
        """Note that a job ended."""
        self._write("end", time=round(time_s, 6), job=running.number, outcome=outcome.value)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """A round of a record.

    needed: rows that recover each slot.
    lanes: the cost of every task, by place. rows: its slot and row.
    messages: (place, slot, row, arrival after the start, seconds for the task, cost).
    recovered: when each slot had enough, after the start; empty where there is one slot.
    came: messages that came before the start, while another job was served; lanes and messages are without these.
    """

    job: int
    iteration: int
    start: float
    end: float
    needed: list[int]
    lanes: dict[int, list[float]]
    messages: list[tuple[int, int, int, float, float, float]]
    rows: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    recovered: list[float] = field(default_factory=list)
    came: int = 0

    def __post_init__(self) -> None:
        if not self.rows:
            object.__setattr__(self, "rows", _rows(self.lanes))


@dataclass(slots=True)
class Record:
    """A run as it was recorded; times in seconds since the stream opened."""

    names: list[str]
    split: str
    redundancy: float | None  # None: none was given
    arrivals: dict[int, float] = field(default_factory=dict)
    job_names: dict[int, str] = field(default_factory=dict)
    departures: dict[int, float] = field(default_factory=dict)
    outcomes: dict[int, str] = field(default_factory=dict)
    rounds: list[RecordedRound] = field(default_factory=list)
    losses: list[tuple[float, int]] = field(default_factory=list)


def read_record(path: str | Path) -> Record:
    """Return a record from its file; a last line that was cut off by a crash is left out."""
    path = Path(path)
    record: Record | None = None
    for number, entry in enumerate(_entries(path), start=1):
        try:
            record = _take_in(record, entry)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ArgumentError):
                raise ArgumentError(f"{path}: {error}") from None
            raise ArgumentError(f"{path}: line {number} is not an entry of a record: {error!r}") from None
    if record is None:
        raise ArgumentError(f"{path}: is not the record of a run; it must begin with an entry of kind 'run'")
    return record


def _take_in(record: Record | None, entry: dict[str, Any]) -> Record:
    """Return the record with one more entry."""
    if entry["kind"] == "run":
        if entry["format"] != FORMAT:
            raise ArgumentError(f"format {entry['format']} is not allowed; must be {FORMAT}")
        return Record(list(entry["names"]), entry["split"], entry["redundancy"])
    if record is None:
        raise ArgumentError("is not the record of a run; it must begin with an entry of kind 'run'")
    match entry["kind"]:
        case "job":
            record.arrivals[entry["job"]] = entry["time"]
            record.job_names[entry["job"]] = entry["name"]
        case "end":
            record.departures[entry["job"]] = entry["time"]
            record.outcomes[entry["job"]] = entry["outcome"]
        case "down":
            record.losses.append((entry["time"], entry["place"]))
        case "round":
            lanes = {int(place): costs for place, costs in entry["lanes"].items()}
            rows = {int(p): [(slot, row) for slot, row in held] for p, held in entry.get("rows", {}).items()}
            messages = [(place, slot, row, at, took, cost) for place, slot, row, at, took, cost in entry["messages"]]
            job, iteration, start, end, needed = (entry[k] for k in ("job", "iteration", "start", "end", "needed"))
            record.rounds.append(
                RecordedRound(
                    job,
                    iteration,
                    start,
                    end,
                    needed,
                    lanes,
                    messages,
                    rows,
                    entry.get("recovered", []),
                    entry.get("came", 0),
                )
            )
    return record


def _rows(lanes: dict[int, list[float]]) -> dict[int, list[tuple[int, int]]]:
    """Return slot and row of every task where lanes hold consecutive rows of one slot."""
    ends = accumulate(map(len, lanes.values()))
    return {
        place: [(0, row) for row in range(end - len(costs), end)]
        for (place, costs), end in zip(lanes.items(), ends, strict=True)
    }


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path}: can't be read; {error}") from None
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            entry["kind"]
        except (ValueError, TypeError, KeyError):
            if number == len(lines):
                return
            raise ArgumentError(f"{path}: line {number} is not an entry of a record") from None
        yield entry
