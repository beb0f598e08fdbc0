"""Rounds that end by a policy: which ending each gets, what "auto" has learnt, and how near it came."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from echelon.arrays import NumberArray
from echelon.codes import Code, Decoder, Weights, weights_tracker
from echelon.endings import Curves, Policy, Sums
from echelon.plan import Plan
from echelon.stream.kept import Store
from echelon.stream.observer import RoundSeen, Running

FIRST = 5  # exact rounds before a time that is "auto" is learnt
PROBE = 20  # of so many rounds one is exact, from then on: it shows what the others do without
REMEMBERED = 20  # exact rounds that are learnt from


@dataclass(slots=True)
class _Learning:
    """What the rounds of one job's work have shown."""

    rounds: int = 0
    exact: deque[tuple[list[float], list[float]]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    learnt: Policy | None = None


class Approximating:
    """Gives rounds their endings, and says of each that was not exact how far it is off, and who was left out.

    places: of living workers; they change under it.
    """

    def __init__(self, places: Mapping[int, int]) -> None:
        self._places = places
        self._learning: WeakKeyDictionary[Store, _Learning] = WeakKeyDictionary()
        self._effective: dict[int, NumberArray] = {}  # of the slots that the open round ends without recovering
        self._ended: tuple[Plan, Policy | None, Plan] | None = None

    def begin(self, running: Running, plan: Plan) -> Plan:
        """Return the plan of a round with its ending: that of the job, or its own."""
        self._effective.clear()
        policy = running.job.ending
        if policy is None and isinstance(plan.ending, Policy):
            policy = plan.ending
        if policy is None:
            return plan
        ending = self._now(running.store, policy) if policy.learns else policy
        if self._ended is None or self._ended[0] is not plan or self._ended[1] != ending:
            self._ended = plan, ending, plan.ended(ending)
        return self._ended[2]

    def _now(self, store: Store, policy: Policy) -> Policy | None:
        """Return a policy with the times that were learnt; None for a round that is to show how long all rows take."""
        known = self._learning.setdefault(store, _Learning())
        known.rounds += 1
        if len(known.exact) < FIRST or known.rounds % PROBE == 0:
            return None
        if known.learnt is None:
            known.learnt = policy.learnt(Curves.of(list(known.exact)))
        return known.learnt

    def nearest(self, decoder: Decoder, slot: int, rows: Sequence[int]) -> Weights | None:
        """Return the weights by which rows come nearest to the sum of a slot; None if they have nothing to add."""
        found = decoder.nearest(rows)
        if not len(found.weights.rows):
            return None
        self._effective[slot] = found.effective
        return found.weights

    def close(self, running: Running, seen: RoundSeen, came: Mapping[tuple[int, int], object]) -> float:
        """Note in a round that is over how far it is off, and who was left out; return what its sum is to be scaled by.

        The sum over all parts has the weights 1, the round's has alpha, 0 where a slot is missing altogether.
        """
        ending = seen.plan.ending
        if ending is None or not ending.approximate or len(seen.recovered) == len(seen.plan.slots):
            return 1.0
        parts = [code.parts for code in seen.plan.codes]
        whole, total, squares = float(sum(parts)), 0.0, 0.0
        for slot, count in enumerate(parts):
            if slot in seen.recovered:
                total, squares = total + count, squares + count
            elif slot in self._effective:
                alpha = self._effective[slot]
                total, squares = total + float(alpha.sum()), squares + float(alpha @ alpha)
        scale = whole / total if running.job.unbiased and total > 0 else 1.0
        seen.residual = max(0.0, (scale**2 * squares - 2 * scale * total + whole) / whole) ** 0.5
        seen.nearly = tuple(self._effective)
        late = {
            self._places.get(worker)
            for worker, lane in zip(seen.workers, seen.lanes(), strict=True)
            if any(task.slot not in seen.recovered and (task.slot, task.row) not in came for task in lane)
        }
        seen.without = tuple(sorted(place for place in late if place is not None))
        return scale

    def observe(self, seen: RoundSeen, store: Store) -> None:
        """Learn from a round that was exact."""
        known = self._learning.get(store)
        if known is None or seen.plan.ending is not None or seen.loading or seen.came:
            return
        filled = _filled(seen.plan.codes, seen)
        if filled[1] and filled[1][-1] >= 1:
            known.exact.append(filled)
            known.learnt = None


def _filled(codes: Sequence[Code], seen: RoundSeen) -> tuple[list[float], list[float]]:
    """Return when the rows of a round came, after its start, and the share of the sums that was there then."""
    rows, sums = [weights_tracker(code) for code in codes], Sums([float(code.parts) for code in codes])
    times: list[float] = []
    shares: list[float] = []
    for message in seen.messages:
        if message.use == "new" and sums.share < 1:
            rows[message.slot].add(message.row)
            sums.miss(message.slot, rows[message.slot].residual ** 2)
            times.append(message.time - seen.start)
            shares.append(sums.share)
    return times, shares
