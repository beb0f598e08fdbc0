"""Results checked before a job takes its step: by the rows that a code has to spare, or by two workers that agree.

To the master both are one thing: rows that do not count as a worker sent them (`Rejected`). Messages that were found
doubtful are kept until their row is settled; whoever sent one that differs from what was settled is named.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from echelon.arrays import NumberArray
from echelon.cause import Cause
from echelon.clusters import Cluster, Message
from echelon.codes import Checks, Decoder, rounding
from echelon.errors import ArgumentError
from echelon.jobs import IterativeJob, RoundJob, precisions
from echelon.master import events
from echelon.plan import Plan
from echelon.stream.blame import Blame
from echelon.stream.observer import Running

_TRIES = 6  # results of a row on which no two places agree, after which its job fails
_ALONE = 50  # the same while no third place has sent one: its worker may be away, or hang
_HELD = 6  # different results of a row that are kept
_VOTERS = 3  # places that a vote needs

_UNSURE = (
    "slot {}: results of different workers do not agree, time after time, and no third one settles it: either a worker "
    "is broken and there are too few others, or `partial` does not depend on its arguments alone, or rounding differs "
    "more than the job's tolerance allows; add workers, raise `tolerance`, or leave out `verify`"
)


class Verifying:
    """Checks the messages of the round that is open, if its job asks for it; blames who sent wrong ones.

    Where the rows to spare show that something is wrong, and not what, a vote decides about all rows of the slot.
    """

    def __init__(self, cluster: Cluster, blame: Blame) -> None:
        self._cluster, self._blame = cluster, blame
        self._running: Running | None = None
        self._round, self._terms = 0, 0.0
        self._tries: Counter[tuple[int, int]] = Counter()
        self._spoke: defaultdict[tuple[int, int], set[int | None]] = defaultdict(set)  # places, of a row
        self._voted: set[int] = set()  # slots that had rows to spare, and need a vote
        self._doubtful: dict[tuple[int, int], list[Message]] = {}  # results of a row that no other worker confirmed

    def begin(self, running: Running, round: int, terms: float) -> None:
        """Turn to a round of a job that is verified; `terms` as its job says."""
        self._running, self._round, self._terms = running, round, terms

    def end(self) -> None:
        """Give back the messages that were kept."""
        for message in (message for held in self._doubtful.values() for message in held):
            self._cluster.release(message)
        self._doubtful.clear()
        self._tries.clear()
        self._spoke.clear()
        self._voted.clear()
        self._blame.end_round()

    # a vote: two workers that agree

    def votes(self, slot: int) -> bool:
        """Return whether rows of a slot count only when two workers agree on them."""
        assert self._running is not None
        return self._running.verify == "vote" or slot in self._voted

    def vote(self, message: Message, now: float) -> Message | events.Event:
        """Return the message of a row on which two workers agree, or what to tell the master as long as they do not."""
        at = message.slot, message.row
        held = self._doubtful.setdefault(at, [])
        self._spoke[at].add(self._blame.place(message))
        same = next((i for i, one in enumerate(held) if self._agree(one, message)), None)
        if same is None:
            held.append(message)
            if len(held) > _HELD:
                self._cluster.release(held.pop(0))
        else:
            self._cluster.release(message)
        # no worker confirms itself, or the one that it succeeds: what was wrong with the place may still be
        if same is None or self._blame.place(held[same]) == self._blame.place(message):
            self._tries[at] += len(self._spoke[at]) > 1  # a place alone waits for another
            all_spoke = len(self._spoke[at]) >= min(_VOTERS, self._cluster.workers)
            if self._tries[at] >= (_TRIES if all_spoke else _ALONE):
                return events.Failed(
                    now, self._round, Cause(_UNSURE.format(message.slot), slot=message.slot, row=message.row)
                )
            return events.Rejected(now, self._round, message.slot, ((message.row, message.worker),))
        right = held.pop(same)
        for other in self._doubtful.pop(at):
            self._reject(other)
        return right

    def _reject(self, message: Message) -> None:
        self._blame.name(message)
        self._cluster.release(message)

    # rows to spare

    def check(self, slot: int, messages: dict[tuple[int, int], Message], now: float) -> events.Event | None:
        """Return None where the messages of a slot fit together, or what to tell the master where they do not."""
        assert self._running is not None
        if self.votes(slot):
            return None
        rows = sorted(row for of, row in messages if of == slot)
        decoder = self._running.decoders[slot % len(self._running.decoders)]
        checks, all_here = decoder.checker.of(rows), len(rows) == decoder.code.rows
        if not checks.seen and not all_here:
            return events.Refused(now, self._round, slot)
        fitting = [messages[slot, row] for row in rows]
        wrong = self._wrong(checks, fitting)
        if wrong is not None and not wrong:
            return None
        if wrong is None and not all_here and all(map(_finite, fitting)):
            return events.Refused(now, self._round, slot)  # one more row may tell
        taken = [messages.pop((slot, row)) for row in (rows if wrong is None else wrong)]
        for message in taken:
            if wrong is None:
                self._voted.add(slot)
                self._doubtful[slot, message.row] = [message]
            else:
                self._reject(message)
        return events.Rejected(now, self._round, slot, tuple((message.row, message.worker) for message in taken))

    def _wrong(self, checks: Checks, messages: Sequence[Message]) -> set[int] | None:
        """Return the rows that are wrong; None if it can't be told which. What is not finite may be right."""
        wrong: set[int] = set()
        for i in range(len(messages[0].segments)):
            segments, tolerance = [message.segments[i] for message in messages], self._tolerance(messages[0], i)
            failing = checks.failing(segments, tolerance, self._terms)
            if failing is not None:
                told = all(map(_finite, messages)) and checks.verdict(segments, failing, tolerance).corrupt
                if not told:
                    return None
                wrong.update(told)
        return wrong

    # what both need

    def _agree(self, one: Message, other: Message) -> bool:
        """Return whether two messages of a row are the same, but for rounding."""
        terms = self._terms * self._length(one)
        pairs = zip(one.segments, other.segments, strict=True)
        return all(_close(a, b, self._tolerance(one, i), terms) for i, (a, b) in enumerate(pairs))

    def _length(self, message: Message) -> float:
        """Return the length of the row of a message."""
        assert self._running is not None
        codes = self._running.codes
        return float(np.linalg.norm(codes[message.slot % len(codes)].matrix[message.row]))

    def _tolerance(self, message: Message, segment: int) -> float:
        """Return by how much a message may be off, relative to its terms."""
        assert self._running is not None
        return max(rounding(precisions(message, segment)[0]), self._running.job.tolerance or 0.0)


def _finite(message: Message) -> bool:
    return all(bool(np.isfinite(segment).all()) for segment in message.segments)


def _close(one: NumberArray, other: NumberArray, tolerance: float, terms: float) -> bool:
    if np.array_equal(one, other, equal_nan=True):
        return True
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return False
    one, other = one[finite], other[finite]
    scale = max(float(np.abs(one).max(initial=0.0)), float(np.abs(other).max(initial=0.0)), terms)
    return bool(np.abs(one / 2 - other / 2).max(initial=0.0) <= tolerance * scale / 2)  # halves do not overflow


def check_choice(
    verify: str | None, job: IterativeJob, decoders: Sequence[Decoder], plan: Plan | None, places: int
) -> None:
    """Refuse a job whose results can't be checked in this way."""
    if verify is None:
        return
    if isinstance(job, RoundJob) or job.ending is not None or (plan is not None and plan.ending is not None):
        raise ArgumentError(f"verify: {verify!r} is not allowed for a job whose rounds end before every slot is there")
    if verify == "vote":
        if places < _VOTERS:
            raise ArgumentError(f"verify: 'vote' is not allowed with {places} workers; must have {_VOTERS} or more")
        return
    for decoder in dict.fromkeys(decoders):
        code = decoder.code
        if (code.counting and code.rows == code.threshold) or not decoder.checker.of(range(code.rows)).seen:
            raise ArgumentError(
                f"verify: 'spare' is not allowed with {code.rows} rows of which {code.threshold} may be needed; must "
                "be 'vote', which computes every row twice, or redundancy must give rows to spare"
            )
