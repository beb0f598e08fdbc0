"""Records read back: every entry is checked here, so that whoever works on a `Record` may rely on it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from echelon import checks
from echelon.errors import ArgumentError
from echelon.master.actions import Outcome
from echelon.stream.record import FORMAT, Message, Record, RecordedRound

LONGEST = 1e12  # seconds, or parts: more is a damaged number
MOST = 10**9  # rows, slots, iterations
SLACK_S = 1e-5  # each time is rounded by itself, to microseconds
_NO_RUN = "is not the record of a run; it must begin with an entry of kind 'run'"


def read_record(path: str | Path) -> Record:
    """Return a record from its file; a last line that was cut off by a crash is left out.

    An entry that can't be meant as written raises `ArgumentError`, which names the file, the line and the field.
    """
    path = Path(path)
    reader = RecordReader()
    for number, entry in _entries(path):
        try:
            reader.take(entry)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: line {number}: {error}") from None
    if reader.record is None:
        raise ArgumentError(f"{path}: {_NO_RUN}")
    return reader.record


class RecordReader:
    """Takes in a record, entry by entry, as its lines have them.

    record: what was said so far; None before the first entry.

    >>> reader = RecordReader()
    >>> reader.take({"kind": "run", "format": 1, "names": ["a"], "split": "uniform", "redundancy": None})
    >>> reader.take({"kind": "job", "time": 0.5, "job": 0, "name": "fit"})
    >>> reader.record.arrivals
    {0: 0.5}
    """

    def __init__(self) -> None:
        self.record: Record | None = None

    def take(self, entry: dict[str, Any]) -> None:
        """Add an entry; one that can't be meant as written raises `ArgumentError`, which names the field."""
        if self.record is None:
            self.record = _begun(entry)
        else:
            _take_in(self.record, entry)


def entry_of(line: str) -> dict[str, Any] | None:
    """Return the entry of a line; None where it is not JSON, as a line that was cut off."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
        raise ArgumentError("must be an object with a kind")
    return entry


def _entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path}: can't be read; {error}") from None
    for number, line in enumerate(lines, start=1):
        try:
            entry = entry_of(line)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: line {number} is not an entry of a record; {error}") from None
        if entry is None and number == len(lines):
            return
        if entry is None:
            raise ArgumentError(f"{path}: line {number} is not an entry of a record; must be JSON")
        yield number, entry


def _begun(entry: dict[str, Any]) -> Record:
    if entry["kind"] != "run":
        raise ArgumentError(_NO_RUN)
    if _field(entry, "format") != FORMAT:
        raise ArgumentError(f"format {entry['format']!r} is not allowed; must be {FORMAT}")
    names = [_text("names", name) for name in _listed("names", _field(entry, "names"))]
    if not names or len(set(names)) < len(names):
        raise ArgumentError(f"names: {names!r} is not allowed; must be one name per place, all different")
    redundancy = _field(entry, "redundancy")
    if redundancy is not None:
        redundancy = checks.number("redundancy", redundancy, above=0, size=1e9)
    return Record(names, _text("split", _field(entry, "split")), redundancy)


def _take_in(record: Record, entry: dict[str, Any]) -> None:
    """Add an entry to a record; kinds that are not known are left out."""
    match entry["kind"]:
        case "run":
            raise ArgumentError("kind: 'run' is not allowed; must be the first entry, and no other")
        case "job":
            job = _whole(entry, "job")
            if job in record.arrivals:
                raise ArgumentError(f"job: {job} is not allowed; it came in before, and must do so once")
            arrival, name = _time(entry, "time"), _text("name", _field(entry, "name"))
            length = entry.get("iterations")
            record.iterations[job] = None if length is None else checks.whole("iterations", length, least=0, most=MOST)
            record.arrivals[job], record.job_names[job] = arrival, name
        case "end":
            job = _job(entry, record)
            if job in record.departures:
                raise ArgumentError(f"job: {job} is not allowed; it ended before, and must do so once")
            outcome = checks.one_of("outcome", _field(entry, "outcome"), [each.value for each in Outcome])
            if entry.get("error") is not None:
                record.errors[job] = _text("error", entry["error"])
            record.departures[job] = _time(entry, "time", least=record.arrivals[job])
            record.outcomes[job] = outcome
        case "up":
            record.joins.append((_time(entry, "time"), _place("place", _field(entry, "place"), record)))
        case "down":
            time, place = _time(entry, "time"), _place("place", _field(entry, "place"), record)
            record.reasons.append(_text("reason", entry.get("reason", "")))
            record.losses.append((time, place))
        case "wrong":
            where = _field(entry, "place")
            record.wrong.append((_time(entry, "time"), None if where is None else _place("place", where, record)))
        case "over":
            record.over = True
        case "round":
            record.rounds.append(_round(entry, record))


def _round(entry: dict[str, Any], record: Record) -> RecordedRound:
    job = _job(entry, record)
    start = _time(entry, "start", least=record.arrivals[job])
    end = _time(entry, "end", least=start)
    needed = [checks.whole("needed", rows, least=1, most=MOST) for rows in _listed("needed", _field(entry, "needed"))]
    if not needed:
        raise ArgumentError("needed: [] is not allowed; must be one number per slot")
    lanes = {place: _costs(costs) for place, costs in _by_place("lanes", _field(entry, "lanes"), record).items()}
    rows: dict[int, list[tuple[int, int]]] = {}
    if "rows" in entry:
        rows = {
            place: [_at("rows", at, slots=len(needed)) for at in held]
            for place, held in _by_place("rows", entry["rows"], record).items()
        }
        if {place: len(held) for place, held in rows.items()} != {place: len(costs) for place, costs in lanes.items()}:
            raise ArgumentError("rows: these are not allowed; must be one slot and row for each task of lanes")
    recovered = [
        checks.number("recovered", after, least=0, size=LONGEST)
        for after in _listed("recovered", entry.get("recovered", []))
    ]
    if recovered and (len(recovered) != len(needed) or max(recovered) > end - start + SLACK_S):
        raise ArgumentError(f"recovered: {recovered!r} is not allowed; must be one time within the round per slot")
    messages = _messages(entry, len(record.names), len(needed), end - start + SLACK_S)
    return RecordedRound(
        job=job,
        iteration=_whole(entry, "iteration"),
        start=start,
        end=end,
        needed=needed,
        lanes=lanes,
        messages=messages,
        rows=rows,
        recovered=recovered,
        came=checks.whole("came", entry.get("came", 0), least=0, most=MOST),
        left_out=[
            checks.whole("left_out", slot, least=0, most=len(needed) - 1)
            for slot in _listed("left_out", entry.get("left_out", []))
        ],
        residual=checks.number("residual", entry.get("residual", 0.0), least=0),
        without=[
            checks.whole("without", place, least=0, most=len(record.names) - 1)
            for place in _listed("without", entry.get("without", []))
        ],
        error=checks.number("error", entry.get("error", 0.0), least=0),
        sizes=_sizes(entry.get("bytes"), len(messages)),
    )


def _costs(costs: list[Any]) -> list[float]:
    """Return the costs of a lane; there may be many, so they are checked at once."""
    if all(type(cost) is float and 0 < cost <= LONGEST for cost in costs):
        return costs
    return [checks.number("lanes", cost, above=0, size=LONGEST) for cost in costs]


def _messages(entry: dict[str, Any], places: int, slots: int, length: float) -> list[Message]:
    """Return the messages of a round; a record may have millions of them, so each is checked at once."""
    kept: list[Message] = []
    for message in _listed("messages", _field(entry, "messages")):
        if not isinstance(message, list) or len(message) != 6:
            raise ArgumentError(f"messages: {message!r} is not allowed; must be six numbers")
        place, slot, row, arrival, seconds, cost = message
        if not (
            type(place) is type(slot) is type(row) is int
            and type(arrival) in (float, int)
            and type(seconds) in (float, int)
            and type(cost) in (float, int)
            and 0 <= place < places
            and 0 <= slot < slots
            and 0 <= row <= MOST
            and 0 <= arrival <= length
            and 0 <= seconds <= LONGEST
            and 1 / LONGEST <= cost <= LONGEST
        ):
            raise ArgumentError(
                f"messages: {message!r} is not allowed; must be a place < {places}, a slot < {slots}, a row, arrival "
                "within the round, seconds >= 0 and a cost > 0"
            )
        kept.append((place, slot, row, arrival, seconds, cost))
    return kept


def _sizes(value: object, messages: int) -> list[int]:
    """Return the bytes of each message, which an entry has as one number where all are alike."""
    if value is None:
        return []
    if not isinstance(value, list):
        return [checks.whole("bytes", value, least=0, most=MOST**2)] * messages
    if len(value) != messages:
        raise ArgumentError(f"bytes: {len(value)} numbers are not allowed; must be one per message, or one for all")
    return [checks.whole("bytes", size, least=0, most=MOST**2) for size in value]


def _field(entry: dict[str, Any], name: str) -> Any:
    if name not in entry:
        raise ArgumentError(f"{name}: missing; every entry of kind {entry['kind']!r} has it")
    return entry[name]


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be a text")
    return value.encode("utf-8", "replace").decode()  # half a character, which JSON can spell, can't be printed


def _listed(name: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be a list")
    return value


def _whole(entry: dict[str, Any], name: str) -> int:
    return checks.whole(name, _field(entry, name), least=0, most=MOST)


def _time(entry: dict[str, Any], name: str, *, least: float = 0.0) -> float:
    time = checks.number(name, _field(entry, name), least=0, size=LONGEST)
    if time < least - SLACK_S:
        raise ArgumentError(f"{name}: {time!r} is not allowed; must be at least {least!r}, what comes before it")
    return max(time, least)


def _job(entry: dict[str, Any], record: Record) -> int:
    job = _whole(entry, "job")
    if job not in record.arrivals:
        raise ArgumentError(f"job: {job} is not allowed; must be one that came in before")
    return job


def _place(name: str, value: object, record: Record) -> int:
    return checks.whole(name, value, least=0, most=len(record.names) - 1)


def _by_place(name: str, value: object, record: Record) -> dict[int, list[Any]]:
    if not isinstance(value, dict):
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be lists by place")
    found = {
        _place(name, int(place) if place.isdecimal() and len(place) < 10 else place, record): _listed(name, held)
        for place, held in value.items()
    }
    if len(found) < len(value) or not all(found.values()):
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be one list per place, none of them empty")
    return found


def _at(name: str, value: object, *, slots: int) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be a slot and a row")
    return checks.whole(name, value[0], least=0, most=slots - 1), checks.whole(name, value[1], least=0, most=MOST)
