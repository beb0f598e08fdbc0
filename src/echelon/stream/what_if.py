"""What other strategies would have taken on the very times of a recorded run, and whom its rounds waited for."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from echelon import checks
from echelon.arrays import FloatArray
from echelon.errors import ArgumentError
from echelon.plan import Plan
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.search.replay import replayed
from echelon.search.strategies import STRATEGIES
from echelon.search.strategy import Strategy
from echelon.seeds import place_generator
from echelon.simulation import CONFIDENCE
from echelon.stream.part_times import PartTimes, part_times, plain
from echelon.stream.record import Record, RecordedRound
from echelon.stream.waiting import Waited, needed_messages, waiting

ENOUGH = 20  # rounds; fewer are not replayed
BATCHES = 40  # of consecutive rounds, whose means give the interval
WORTH_SAYING = 0.01  # share of the seconds of all rounds, or of a worker's parts
_MANY = 0.2  # share of a worker's parts of which too little is known
_SHORT = {"uncoded, by speed": "by speed", "pulled by 1": "by pulling", "by speed, with copies": "with copies"}


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a strategy would have taken.

    seconds: of all rounds. saved: of what they took; below 0 where it would have taken longer.
    error: half-width of the 99 % interval of `saved`.
    """

    strategy: Strategy
    seconds: float
    saved: float
    error: float

    @property
    def name(self) -> str:
        """Name of the strategy."""
        return self.strategy.name

    @property
    def family(self) -> str:
        """Its family: uncoded, pull, copies or coded."""
        return self.strategy.family

    def plan(self) -> Plan:
        """Return the plan by which a `SumJob` or `LinearJob` runs so."""
        made: Plan = self.strategy.plan()
        return made


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What other strategies would have taken on the times of a run, best first, and whom its rounds waited for.

    seconds: what all `rounds` took. replayed: how many rounds the strategies were replayed on; the others count as they
    were. work: "gradient" or "linear", by which coded rows were charged. notes: what else a reader should know.
    """

    rounds: int
    seconds: float
    replayed: int
    work: str
    waited: tuple[Waited, ...]
    strategies: tuple[Replayed, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Whom rounds waited for, and what would have saved how much of that."""
        if not self.strategies:
            return " ".join([self._waiting, *self.notes])
        told = [one for one in self.strategies if one.name in _SHORT]
        told.sort(key=lambda one: list(_SHORT).index(one.name))
        told += [one for one in self.strategies if one.family == "coded"]
        if not told:
            return self._waiting
        words = ["saved" if one.saved >= 0 else "lost" for one in told]
        ends = [f" would have been {words[0]}", *(f" {word}" if len(set(words)) > 1 else "" for word in words[1:])]
        said = [
            f"{_SHORT.get(one.name, 'with ' + repr(one.name))} {_shown(abs(one.saved), self.seconds)}{end}"
            for one, end in zip(told, ends, strict=True)
        ]
        return f"{self._waiting[:-1]}; {', '.join(said)}."

    @property
    def _waiting(self) -> str:
        worst = max(self.waited, key=lambda one: one.seconds)
        total = _shown(self.seconds, self.seconds)
        if worst.seconds <= WORTH_SAYING * self.seconds:
            return f"Of {total} s that rounds took, less than 1 % were spent waiting for any one worker."
        waited = _shown(worst.seconds, self.seconds)
        return f"Of {total} s that rounds took, {waited} were spent waiting for {worst.name}."

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """The table of strategies: name, seconds, seconds saved, half-width of the interval of these."""
        scale = self.seconds
        return [
            (one.name, _shown(one.seconds, scale), _shown(one.saved, scale), _shown(one.error, scale))
            for one in self.strategies
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, for JSON."""
        told = {name: getattr(self, name) for name in ("sentence", "rounds", "seconds", "replayed", "work")}
        strategies = [
            {name: getattr(one, name) for name in ("name", "family", "seconds", "saved", "error")}
            for one in self.strategies
        ]
        waited = [asdict(one) for one in self.waited]
        return told | {"waited": waited, "strategies": strategies, "notes": list(self.notes)}


def what_if(record: Record, *, work: str | None = None, adding_s: float = 0.0, seed: int = 1) -> WhatIf:
    """Return what other strategies would have taken on the times of a recorded run, and whom its rounds waited for.

    Round i of every strategy sees round i of the record: each worker takes for its first parts what its parts took in
    that round, one after another, and is as late with its first result; what the round took beside (loading a job,
    decoding) is left as it was. Coded rows are charged what they cost in parts.

    Parts that the record does not show are drawn: of a task that a purge cut short, it is known how long it took at
    least, and what it took is drawn from the worker's law (Kaplan-Meier) beyond that; further parts are drawn so that
    parts of a round are as alike as those seen (`PartTimes.times`). Shares by speed are by the speeds of the whole
    record, which nobody knows beforehand, and the code is the best of several on these very rounds.

    Intervals are those of the mean of rounds like these, at 99 %, from the means of up to 40 stretches of consecutive
    rounds: they cover chance, bursts that are short beside the run included, but not the choice of the code.

    Replayed are the rounds of the most frequent size (parts) among those in which no worker was lost, nothing was left
    out, and nothing came before the start. Others count as they were.

    work: "gradient" where a coded row costs the parts that it combines, "linear" where it costs one part, since it is
        encoded before; by default what the run's own rows show, and "gradient" where they show nothing.
    adding_s: seconds to add one result to another: a profile's `combining` times the bytes of a result.
    """
    checks.instance("record", record, Record)
    if work is not None:
        checks.one_of("work", work, STRATEGIES)
    checks.number("adding_s", adding_s, least=0)
    checks.whole("seed", seed, least=0)
    if not record.rounds:
        raise ArgumentError("record: no round is in it; there is nothing to replay")
    took = float(sum(seen.end - seen.start for seen in record.rounds))
    sizes = [_parts(seen, record) for seen in record.rounds]
    size, count = Counter(one for one in sizes if one).most_common(1)[0] if any(sizes) else (0, 0)
    kind = replace(record, rounds=[seen for seen, one in zip(record.rounds, sizes, strict=True) if one == size])
    charged = work or _work(kind, size)
    nothing = WhatIf(len(record.rounds), took, 0, charged, waiting(record), ())
    if count < ENOUGH:
        said = f"{count} rounds can be replayed, too few to say what others would have taken; {ENOUGH} are enough."
        return replace(nothing, notes=(said,))
    rngs = [place_generator(seed, place) for place in range(len(record.names))]
    of_places, beside = part_times(kind, rngs)
    known = {name: times for name, times in zip(record.names, of_places, strict=True) if times is not None}
    if len(known) < 2:
        return replace(nothing, notes=("Fewer than two workers finished a task, so nothing could be shared out.",))
    profile = _profile(known, size)

    def parts(rounds: slice, most: int) -> list[FloatArray]:
        return [times.times(rounds, most, rng) for times, rng in zip(known.values(), rngs, strict=False)]

    lasted = np.array([seen.end - seen.start for seen in kind.rounds])
    beside += [_after(seen) for seen in kind.rounds]
    strategies = []
    for strategy, times in replayed(profile, charged, parts, count, adding_s=adding_s):
        saved = lasted - (beside + times)
        total = float(saved.sum())
        strategies.append(Replayed(strategy, took - total, total, count * _error(saved)))
    strategies.sort(key=lambda one: one.seconds)
    return replace(nothing, replayed=count, strategies=tuple(strategies), notes=_notes(record, count, known))


def _parts(seen: RecordedRound, record: Record) -> int | None:
    """Return how many parts of work a round was, or None where it can't be replayed."""
    lost = any(seen.start <= time <= seen.end for time, _ in record.losses)
    if lost or seen.came or seen.left_out or not seen.messages:
        return None
    if plain(seen):
        return sum(seen.needed)
    costs: dict[tuple[int, int], float] = {}
    for place, lane in seen.rows.items():
        for row, cost in zip(lane, seen.lanes[place], strict=True):
            costs[row] = max(cost, costs.get(row, 0.0))
    if len(costs) == sum(seen.needed):  # no row to spare: each is a sum of parts of its own
        total = sum(costs.values())
        return round(total) if abs(total - round(total)) < 1e-6 else None
    # of a code: those for sums have as many rows as parts
    return len(costs) if len(seen.needed) == 1 else None


def _work(kind: Record, size: int) -> str:
    """Return "linear" where rows to spare cost one part each."""
    spare = any(
        plain(seen) and len({row for lane in seen.rows.values() for row in lane}) > size for seen in kind.rounds
    )
    return "linear" if spare else "gradient"


def _profile(known: dict[str, PartTimes], size: int) -> Profile:
    workers = [
        Worker(name, mean=max(times.mean, 1e-9), std=times.std, link=times.link) for name, times in known.items()
    ]
    return Profile(Workload(critical=size, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0)), workers)


def _after(seen: RecordedRound) -> float:
    """Return how long a round went on after the last row that it needed."""
    needed = needed_messages(seen, seen.messages)
    return max(0.0, seen.end - seen.start - needed[-1][3]) if needed else 0.0


def _error(values: FloatArray) -> float:
    """Return the half-width of the 99 % interval of a mean, from the means of batches of consecutive rounds."""
    batches = [float(batch.mean()) for batch in np.array_split(values, min(BATCHES, len(values) // 2))]
    factor = float(stdtrit(len(batches) - 1, (1 + CONFIDENCE) / 2))
    return factor * float(np.std(batches, ddof=1) / len(batches) ** 0.5)


def _notes(record: Record, count: int, known: dict[str, PartTimes]) -> tuple[str, ...]:
    notes = []
    if count < len(record.rounds):
        notes.append(
            f"{len(record.rounds) - count} of {len(record.rounds)} rounds count as they were: a worker was lost in "
            "them, a part of their rows was there before or left out, or they were of another size."
        )
    early = sum(seen.residual > 0 for seen in record.rounds)
    if early:
        notes.append(
            f"{early} of {len(record.rounds)} rounds ended before they were exact; all strategies are of exact rounds, "
            "which give more and take longer."
        )
    missing = [name for name in record.names if name not in known]
    if missing:
        notes.append(f"{', '.join(missing)}: no strategy gives them work, since none of their tasks was seen to end.")
    for name, times in known.items():
        if times.beyond > _MANY:
            notes.append(
                f"{name}: of {times.beyond:.0%} of its parts only a lower bound is known, so strategies that wait "
                "for it would have taken longer than is said here."
            )
    return tuple(notes)


def _shown(seconds: float, scale: float) -> str:
    """Return seconds with as many digits as a run of this length deserves."""
    digits = 0 if scale >= 100 else 1 if scale >= 10 else 2 if scale >= 1 else 4
    return f"{seconds:.{digits}f}"
