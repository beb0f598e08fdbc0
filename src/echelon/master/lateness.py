"""Which workers of a round are late, where the master learns how long silence is normal.

A worker is late when it owes rows and has said nothing for longer than

    1.5 times the longest that the master had to wait for a message

in the rounds of this job before (what `Planned.silence` says) or in this one so far (what `Alarm.gap` says), whichever
is longer, and never less than 0.02 s. The limit doubles each time that rows were given out again, so that a part which
just takes long is not computed by everybody. In a job's first round nothing is known: the limit is 30 s until half of
the workers that have something to do have sent a message, which show what it takes.

So equal and steady workers are never late, and workers that vary are late as rarely as they were that slow before. A
hung worker's rows are with others after 1.5 task times, and there after 2.5. If everybody is silent, or nobody else may
do what the late ones owe, there is no one to compare with; then messages may be lost, and everything is given out
again, but only after 30 s and ten times the limit before it was doubled (600 s if nothing is known).
"""

from collections.abc import Iterable

from echelon.master.collection import Collection
from echelon.master.events import Alarm

FACTOR = 1.5
LEAST_S = 0.02  # shorter silences are a busy machine's
START_S = 30.0  # the limit while nothing is known
LOST = 10.0  # limits after which a message that nobody waits for alone may be lost
FIRST_S = 600.0  # the same while nothing is known
_AGAIN = 0.5  # share of a round's age after which one of which nothing is known is looked at again


class Lateness:
    """Who is late in one round that began at `start`.

    silence: the longest that the master normally waits for a message; None if that is not known.
    due: when to look for the first time.
    """

    def __init__(self, start: float, silence: float | None) -> None:
        self._start, self._silence = start, silence
        self._since: dict[int, float] = {}  # when a worker that had nothing to do got something
        self.due = start + (LEAST_S if silence is None else max(LEAST_S, FACTOR * silence))

    def judge(self, event: Alarm, collection: Collection, workers: list[int]) -> tuple[set[int], bool]:
        """Return which workers are late beside others, and whether all that owe something are silent for long."""
        now = event.time
        self._since |= dict.fromkeys(collection.fresh, now)
        collection.fresh.clear()
        owing = [worker for worker in workers if collection.pending.get(worker) or collection.busy[worker] > 0]
        usual, known = self._usual(event, owing)
        limit = usual * 2.0 ** min(event.attempt, 6)
        waits = {worker: max(event.heard.get(worker, self._start), self._since.get(worker, self._start))
                 for worker in owing}  # fmt: skip
        silent = {worker for worker, since in waits.items() if now >= since + limit}
        late = {worker for worker in silent if collection.pending.get(worker)}
        for worker in silent - late:  # it owes only what others have sent, and its message may be lost
            collection.busy[worker] = 0
        soon = now + max(LEAST_S, _AGAIN * (now - self._start))
        last = max(waits.values(), default=max([self._start, *event.heard.values(), *self._since.values()]))
        lost = last + (max(START_S, LOST * usual) if known else FIRST_S)
        if not owing or len(late) == len(workers):
            self.due = min(lost, soon)
            return set(), now >= lost
        looks = [since + limit for worker, since in waits.items() if worker not in silent]
        self.due = min(looks, default=max(min(soon, lost), now + limit))
        if not known:  # what is said from now on may shorten the limit
            self.due = min(self.due, soon)
        return late, now >= lost

    def _usual(self, event: Alarm, owing: list[int]) -> tuple[float, bool]:
        """Return how long a worker may be silent at first, and whether that is known rather than assumed."""
        known = self._silence is not None or 2 * len(event.heard) >= len(event.heard.keys() | set(owing))
        limit = FACTOR * max(event.gap, self._silence or 0.0) if known else START_S
        return max(LEAST_S, limit), known

    def repeated(self, now: float, workers: Iterable[int]) -> None:
        """Note that these workers were given everything again."""
        self._since |= dict.fromkeys(workers, now)
        self.due = now + START_S
