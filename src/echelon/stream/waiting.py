"""Whom the rounds of a record waited for: pure functions on its messages."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from echelon.stream.record import Message, Record, RecordedRound

Row = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Waited:
    """What rounds waited for one worker.

    rounds: in how many of them it sent the last row that was needed.
    seconds: how long these waited for that row alone: from the last row that was needed of any other worker on.
    most: how much shorter they would have been had all of its rows been there at once; rows of others that came earlier
        and were then not needed count as well, so that it is at least `seconds`.
    """

    name: str
    rounds: int
    seconds: float
    most: float


def waiting(record: Record) -> tuple[Waited, ...]:
    """Return what the rounds waited for each worker, in the order of places.

    A row is needed if it is the first of its kind and its slot lacks rows when it comes. A round in which rows of one
    worker alone were needed waited for nobody.

    >>> messages = [(0, 0, 0, 1.0, 1.0, 1.0), (1, 0, 2, 1.5, 1.5, 1.0), (0, 0, 1, 4.0, 3.0, 1.0)]
    >>> seen = RecordedRound(0, 0, 0.0, 4.2, [3], {0: [1.0, 1.0], 1: [1.0]}, messages)
    >>> waiting(Record(["a", "b"], "uniform", 1.0, rounds=[seen]))[0]
    Waited(name='a', rounds=1, seconds=2.5, most=2.5)
    """
    rounds, seconds, most = [0] * len(record.names), [0.0] * len(record.names), [0.0] * len(record.names)
    for seen in record.rounds:
        found = last_awaited(seen)
        if found is None:
            continue
        place, alone, end = found
        rounds[place] += 1
        if alone is None:
            continue
        seconds[place] += alone
        without = [message for message in seen.messages if message[0] != place and message[3] <= end]
        earlier = needed_messages(seen, without, seen.rows.get(place, ()))
        most[place] += end - max((message[3] for message in earlier), default=0.0)
    return tuple(Waited(*found) for found in zip(record.names, rounds, seconds, most, strict=True))


def last_awaited(seen: RecordedRound) -> tuple[int, float | None, float] | None:
    """Return the place that a round waited for last, for how long it waited for that alone, and until when.

    None in place of the time where rows of that place alone were needed; None where no row was.
    """
    needed = needed_messages(seen, seen.messages)
    if not needed:
        return None
    place, *_, end = needed[-1][:4]
    others = next((message[3] for message in reversed(needed) if message[0] != place), None)
    return place, None if others is None else end - others, end


def needed_messages(seen: RecordedRound, messages: Iterable[Message], there: Collection[Row] = ()) -> list[Message]:
    """Return the messages of a round that brought a row which was needed, in order; rows `there` need not come."""
    lacking = list(seen.needed)
    known: set[Row] = set()
    for slot, row in there:
        if (slot, row) not in known:
            known.add((slot, row))
            lacking[slot] -= 1
    if len(lacking) == 1:
        lacking[0] -= seen.came
    needed = []
    for message in messages:
        slot, row = message[1:3]
        if lacking[slot] > 0 and (slot, row) not in known:
            known.add((slot, row))
            lacking[slot] -= 1
            needed.append(message)
    return needed
