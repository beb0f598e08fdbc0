"""What came of the round that is open, and the weights that recover its slots from it."""

from collections.abc import Callable, Sequence

from echelon import trees
from echelon.clusters import Cluster, Message
from echelon.codes import ErrorEstimate, Weights
from echelon.errors import NotDecodable
from echelon.jobs import Collected, precisions
from echelon.master import events
from echelon.stream.approximating import Approximating
from echelon.stream.observer import RoundSeen, Running
from echelon.stream.verifying import Verifying


class RoundMessages:
    """Holds the messages of a round until its job has taken its step, and gives their memory back.

    owner: the job whose messages are here.
    """

    def __init__(
        self, cluster: Cluster, approximating: Approximating, verifying: Verifying, now: Callable[[], float]
    ) -> None:
        self.owner: Running | None = None
        self._cluster, self._approximating, self._verifying, self._now = cluster, approximating, verifying, now
        self._held: dict[tuple[int, int], Message] = {}
        self._weights: dict[int, Weights] = {}
        self._forms: dict[int, bytes] = {}  # of the results, by slot where slots give different things

    def begin(
        self, running: Running, seen: RoundSeen, taken: dict[tuple[int, int], Message] | None
    ) -> tuple[tuple[int, int], ...]:
        """Turn to a round of a job, with what was taken over of it; return the rows that are there already."""
        self.owner = running
        if taken is not None:
            self._held = taken
        if self._held:
            seen.end, seen.came = seen.start, len(self._held)
            seen.received = seen.came
            seen.nbytes = sum(trees.layout(message.form).nbytes for message in self._held.values())
            self._forms = {self._kind(slot): message.form for (slot, _), message in self._held.items()}
        return tuple(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def _kind(self, slot: int) -> int:
        assert self.owner is not None
        return slot if self.owner.job.by_slot else 0

    # rows in

    def lacks(self, slot: int, row: int) -> bool:
        """Return whether a row has not come, and may still be of use."""
        return (slot, row) not in self._held and slot not in self._weights

    def form(self, message: Message) -> bytes:
        """Return the form that a message should have: that of the first one."""
        return self._forms.setdefault(self._kind(message.slot), message.form)

    def keep(self, message: Message) -> None:
        """Keep a message that counts."""
        self._held[message.slot, message.row] = message

    def lose(self, message: Message) -> bool:
        """Give back a message that can't be read; return whether its row is now needed again."""
        if self._held.get((message.slot, message.row)) is not message:
            return False
        self._cluster.release(self._held.pop((message.slot, message.row)))
        return message.slot not in self._weights

    # what the master chose

    def recover(self, seen: RoundSeen, slot: int, rows: tuple[int, ...]) -> events.Event:
        """Choose how a slot is recovered; say so, or why these rows are not enough."""
        running, round = self.owner, seen.round
        assert running is not None
        if running.verify == "spare":
            doubt = self._verifying.check(slot, self._held, self._now())
            if doubt is not None:
                return doubt
        message = self._held[slot, rows[-1]]
        coarsest, adding = max(precisions(message, i) for i in range(len(trees.layout(message.form).segments)))
        try:
            weights = running.decoders[slot % len(running.decoders)].weights(
                (*running.job.held(running.state, slot), *rows)
            )
        except NotDecodable:
            return events.Refused(self._now(), round, slot)
        error = weights.relative_to_terms(coarsest, adding)
        tolerance = running.job.tolerance
        if error > (coarsest**0.5 if tolerance is None else tolerance):
            return events.Refused(self._now(), round, slot)
        self._weights[slot] = weights
        seen.recovered[slot] = seen.end
        seen.error_estimate = seen.error_estimate.worst(ErrorEstimate(relative_to_terms=error))
        return events.Recovered(self._now(), round, slot)

    def approximate(self, slot: int, rows: Sequence[int]) -> None:
        """Choose how rows of a slot are used that the round ends without recovering."""
        assert self.owner is not None
        decoders = self.owner.decoders
        weights = self._approximating.nearest(decoders[slot % len(decoders)], slot, rows)
        if weights is not None:
            self._weights[slot] = weights

    def collected(self, seen: RoundSeen) -> Collected:
        """Return what the round gave, for the step of its job."""
        assert self.owner is not None
        scale = self._approximating.close(self.owner, seen, self._held)
        return Collected(self._held, self._weights, self._cluster.combine, self.owner.codes, scale)

    # the end

    def again(self) -> None:
        """Forget what was chosen; the rows that can still be read stay."""
        self._weights, self._forms = {}, {}
        self._verifying.end()

    def drop(self, left: dict[tuple[int, int], Message] | None = None) -> None:
        """Give all memory back: that of what a job's step has left, where it took the rest."""
        for message in (self._held if left is None else left).values():
            self._cluster.release(message)
        self._held, self._weights, self._forms, self.owner = {}, {}, {}, None
        self._verifying.end()
