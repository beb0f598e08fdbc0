"""What is collected in one round: which rows arrived, which are on their way, which must be given out again."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence, Set
from itertools import chain, groupby

from echelon.cause import Cause
from echelon.codes import Code, CountTracker, PairTracker, SpanTracker, Tracker, tracker, weights_tracker
from echelon.endings import EndRule, Row, Sums
from echelon.master.actions import Assign
from echelon.plan import Plan, Task
from echelon.schemes.coded_plan import lane_tasks

KILLS = 20  # workers that one row may kill before its job is given up
OVERRUNS = 3  # workers on which one row may take too long


class Collection:
    """The rows of one round. It knows nothing of jobs.

    start: when the round began. rule: when it ends, where that is not when every slot is recovered.
    came: rows that were there before. ready: which slots have enough rows.
    sent: how many parts a worker's messages took, and when the last of them came.
    given: the worker and the cost of a row, each time that it was given out.
    fresh: workers that had nothing to do and got something, since that was last looked at.
    barred: workers that are not to compute a row again, because what they sent of it does not count.
    """

    def __init__(
        self, round: int, plan: Plan, codes: tuple[Code, ...], start: float = 0.0, came: Iterable[Row] = ()
    ) -> None:
        self.round, self.plan, self.codes, self.start = round, plan, codes, start
        # whether rows that are too few for a slot are worth something
        self.approximate = plan.ending is not None and plan.ending.approximate and plan.sums
        self.sums = Sums([float(code.parts) for code in codes] or [1.0] * len(plan.slots))
        self.recovered = self.sums.recovered
        self.rule = _rule(plan, start, self.sums)
        self.sent: dict[int, tuple[float, float]] = {}
        lanes = [{task.slot for task in lane} for lane in plan.lanes] if len(plan.slots) > 1 else []
        self._mixed = {slot for slots in lanes if len(slots) > 1 for slot in slots}
        self.trackers = [self._new_tracker(slot) for slot in range(len(plan.slots))]
        self.refused = [False] * len(plan.slots)
        self.received: set[Row] = set()
        # lanes as they stand: what a worker still has to send, in order
        self.pending: dict[int, dict[Row, Task]] = {}
        self.given: dict[Row, list[tuple[int, float]]] = {}
        self.fresh: set[int] = set()
        self.barred: dict[Row, set[int]] = {}
        self.kills: Counter[Row] = Counter()
        self.overruns: Counter[Row] = Counter()
        self.pool: deque[tuple[Task, ...]] = deque(() if plan.pool is None else plan.pool.batches)
        self.busy: Counter[int] = Counter()  # messages that a worker still has to send, needed or not
        self.ready = [False] * len(plan.slots)
        for slot, row in came:
            self.receive(slot, row, start)

    def _new_tracker(self, slot: int) -> Tracker:
        if self.codes:
            return weights_tracker(self.codes[slot]) if self.approximate else tracker(self.codes[slot])
        of = self.plan.slots[slot]
        return CountTracker(rows=of.rows, threshold=of.threshold, alone=of.alone)

    def knows(self, slot: int, row: int) -> bool:
        """Return whether there is such a row."""
        return 0 <= slot < len(self.plan.slots) and 0 <= row < self.plan.slots[slot].rows

    def give(self, worker: int, tasks: Iterable[Task]) -> Assign:
        """Note that a worker gets tasks, and return the action that tells it."""
        listed = tuple(tasks)
        lane, given = self.pending.setdefault(worker, {}), self.given
        self.busy[worker] += len(listed)
        if not lane:
            self.fresh.add(worker)
        for task in listed:
            at = task.slot, task.row
            lane[at] = task
            given.setdefault(at, []).append((worker, task.cost))
        return Assign(worker, self.round, listed)

    def pull(self, workers: Iterable[int]) -> list[Assign]:
        """Give each of these workers that is nearly done the next batch of the pool that it can work on."""
        given: list[Assign] = []
        if self.pool:
            assert self.plan.pool is not None
            for worker in workers:
                while self.busy[worker] <= self.plan.pool.ahead:
                    tasks = self._next_batch(worker)
                    if not tasks:
                        break
                    given.append(self.give(worker, tasks))
        return given

    def _next_batch(self, worker: int) -> list[Task]:
        """Take a batch out of the pool for a worker; batches no longer needed are dropped on the way."""
        passed: list[tuple[Task, ...]] = []
        found: list[Task] = []
        while self.pool and not found:
            batch = tuple(
                task
                for task in self.pool.popleft()
                if (task.slot, task.row) not in self.received and not self.recovered[task.slot]
            )
            found = [task for task in batch if self.may(worker, (task.slot, task.row))]
            if batch and not found:
                passed.append(batch)  # it is for another worker
        self.pool.extendleft(reversed(passed))
        return found

    def receive(self, slot: int, row: int, now: float) -> bool:
        """Note a row; return whether it is new and its slot, not recovered before, can be now."""
        at = (slot, row)
        if at in self.received:
            return False
        self.received.add(at)
        self.refused[slot] = False  # this may be the awaited row
        for worker, _ in self.given.get(at, ()):
            lane = self.pending.get(worker)
            if lane is not None:  # it may be lost by now
                lane.pop(at, None)  # it may have held the row twice
        self.ready[slot] = self.trackers[slot].add(row)
        if self.rule is not None:
            self._weigh(slot)
            self.rule.arrived(at, now)
        return self.ready[slot] and not self.recovered[slot]

    def _weigh(self, slot: int) -> None:
        """Note what the rows of a slot are worth."""
        rows = self.trackers[slot]
        if self.approximate and isinstance(rows, PairTracker | SpanTracker):
            self.sums.miss(slot, rows.residual**2)
        else:
            self.sums.miss(slot, 0.0 if self.ready[slot] else self.sums.sizes[slot])

    def nearly(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return the slots that are not recovered though rows came that are worth something, and these rows."""
        if not self.approximate:
            return []
        came = ((slot, tuple(self.trackers[slot].received)) for slot, done in enumerate(self.recovered) if not done)
        return [(slot, rows) for slot, rows in came if rows]

    def reject(self, slot: int, rows: Iterable[tuple[int, int]], now: float) -> bool:
        """Forget rows, (row, worker) each, and bar these workers from them; return whether others hold them all."""
        awaited = True
        for row, worker in rows:
            at = slot, row
            self.received.discard(at)
            self.barred.setdefault(at, set()).add(worker)
            if self.pending.get(worker, {}).pop(at, None) is not None:
                self.busy[worker] -= 1
            awaited &= any(at in self.pending.get(holder, ()) for holder, _ in self.given.get(at, ()))
        left = [row for row in self.trackers[slot].received if (slot, row) in self.received]
        if len(left) < len(self.trackers[slot].received):
            self.trackers[slot], self.ready[slot], self.refused[slot] = self._new_tracker(slot), False, False
            for row in left:
                self.ready[slot] = self.trackers[slot].add(row)
            self._weigh(slot)
            if self.rule is not None:
                self.rule.dropped(now)
        return awaited

    def may(self, worker: int, at: Row) -> bool:
        """Return whether a row may be given to a worker: it does not hold it, and is not barred from it."""
        return at not in self.pending.get(worker, ()) and worker not in self.barred.get(at, ())

    def progress(self, worker: int, slot: int, row: int, now: float) -> None:
        """Note how far a worker is, when its message of a row comes, needed or not."""
        costs = [cost for holder, cost in self.given.get((slot, row), ()) if holder == worker]
        if costs:
            self.sent[worker] = self.sent.get(worker, (0.0, 0.0))[0] + costs[-1], now

    def over(self) -> bool:
        """Return whether the round has what it needs, and nothing is left to wait for."""
        if self.rule is None:
            return all(self.recovered)
        coming = (at for lane in self.pending.values() for at in lane)
        return self.rule.over(self.recovered, chain(coming, self._pooled()))

    def settle(self, slot: int, now: float) -> bool:
        """Note that a slot is recovered; return whether workers still work on it and may stop.

        Lanes that were planned to serve several slots go on as they were planned, and all do where the ending says so.
        """
        self.recovered[slot] = True
        may_stop = not all(self.recovered) if self.rule is None else self.rule.settled(slot, now)
        if slot in self._mixed or not may_stop:
            return False
        working = False
        for worker, lane in self.pending.items():
            left = {at: task for at, task in lane.items() if at[0] != slot}
            working |= len(left) < len(lane)
            self.pending[worker] = left
            self.busy[worker] = min(self.busy[worker], len(left))
        return working

    def lose(
        self, worker: int, at: tuple[int, int, int] | None, reason: str = "", *, overran: bool = False
    ) -> Cause | None:
        """Forget a worker's lane; return why the row that it computed is given up, if it is."""
        self.pending.pop(worker, None)
        if at is None or at[0] != self.round or at[1:] in self.received:
            return None
        _, slot, row = at
        if not self.knows(slot, row):
            return None  # of the next job
        counter, most = (self.overruns, OVERRUNS) if overran else (self.kills, KILLS)
        counter[slot, row] += 1
        if counter[slot, row] < most:
            return None
        if overran:
            what = (
                f"row {row} of slot {slot} took too long on {most} workers, which were killed; it is given up. If its "
                "parts just need that long, raise the stream's part_timeout_s"
            )
        else:
            last = f" (the last one: {reason})" if reason else ""
            what = f"row {row} of slot {slot} was the work of {most} workers when they died{last}; it is given up"
        return Cause(what, worker=worker, slot=slot, row=row)

    def orphans(self, alive: Iterable[int]) -> list[Task]:
        """Return the tasks that must be given out so that every slot can be recovered from what is on its way."""
        held = {at for worker in alive for at in self.pending.get(worker, ())}
        return self._lacking(held | self._pooled())

    def overdue(self) -> list[Task]:
        """Return enough tasks to recover every slot, with the pool, if nothing that is on its way ever comes.

        No worker counts as busy any more: a worker whose message was lost may take the next batch.
        """
        self.busy.clear()
        return self._lacking(self._pooled())

    def _pooled(self) -> set[Row]:
        return {(task.slot, task.row) for batch in self.pool for task in batch}

    def _lacking(self, held: set[Row]) -> list[Task]:
        lanes = [] if self.rule is None else self.rule.lacking(held)
        wanted = [self._task(at) for at in lanes]
        held = held.union(lanes)
        if self.rule is None:
            slots: Iterable[int] = range(len(self.recovered))
        else:
            slots = self.rule.awaited(lambda slot: len(self._short(slot, held)))
        return wanted + [self._task(at) for slot in slots for at in self._short(slot, held)]

    def _short(self, slot: int, held: Set[Row]) -> list[Row]:
        """Return rows that recover a slot, beside those that came and those that are `held`; none if these do."""
        if self.recovered[slot]:
            return []
        trial = self.trackers[slot].copy()
        coming = [at for at in held if at[0] == slot and at not in self.received]
        # if refused, the rows that came would do but for noise: the round waits for any further one
        noisy = self.refused[slot]
        if bool(coming) if noisy else self.ready[slot] or any(trial.add(row) for _, row in coming):
            return []
        rest = [at for at in self._rows(slot) if at not in self.received and at not in held]
        wanted: list[Row] = []
        # the least tried first, so that a row that never comes is not tried for ever
        for at in sorted(rest, key=lambda at: (len(self.given.get(at, ())), at[1])):
            wanted.append(at)
            if trial.add(at[1]) or noisy:
                break
        return wanted

    def missing(self, slot: int) -> list[Task]:
        """Return the tasks of all rows of a slot that have not arrived."""
        return [self._task(at) for at in self._rows(slot) if at not in self.received]

    def exhausted(self, slot: int) -> bool:
        """Return whether every row of a slot has arrived."""
        return all(at in self.received for at in self._rows(slot))

    def _rows(self, slot: int) -> list[Row]:
        known = set(self.plan.slots[slot].known)
        return [(slot, row) for row in range(self.plan.slots[slot].rows) if row not in known]

    def rest(self, lane: Sequence[Task]) -> Sequence[Task]:
        """Return what of a lane has not come, at its cost for a worker that has computed nothing of it yet."""
        left = [task for task in lane if (task.slot, task.row) not in self.received] if self.received else lane
        if len(left) == len(lane):
            return lane
        if not self.codes or all(code.precoded for code in self.codes):
            return left
        runs = groupby(left, lambda task: task.slot)
        return [task for slot, run in runs for task in self.chained(slot, [task.row for task in run])]

    def chained(self, slot: int, rows: Iterable[int]) -> list[Task]:
        """Return the tasks of rows that a worker computes one after another, having computed nothing of them yet."""
        if not self.codes or self.codes[slot].precoded:
            return [self._task((slot, row)) for row in rows]
        return lane_tasks(self.codes, [range(code.parts) for code in self.codes], [(slot, row) for row in rows])

    def _task(self, at: Row) -> Task:
        """Return the task of a row that stands alone, at the cost that its code says or the largest planned."""
        slot, row = at
        if self.codes and not self.codes[slot].precoded:
            return Task(slot=slot, row=row, cost=float(self.codes[slot].cost(row)))
        planned = [task for lane in (*self.plan.lanes, self.plan.pooled) for task in lane if task.slot == slot]
        same = [task for task in planned if task.row == row] or planned
        return Task(slot=slot, row=row, cost=max((task.cost for task in same), default=1.0))

    def share(self, tasks: Iterable[Task], alive: Iterable[int], *, afresh: bool = False) -> list[Assign]:
        """Give each task to the living worker with the least to do, and not to one that holds it or is barred from it.

        With `afresh` a worker may get what it holds once more where no other is left: its message may be lost. Then the
        one that got it least often is asked, so that one which never answers is not asked for ever; and one that is
        barred, if all are.
        """
        workers = list(alive)
        load = {worker: sum(task.cost for task in self.pending.get(worker, {}).values()) for worker in workers}
        extra: dict[int, list[Task]] = {}
        for task in tasks:
            free = [w for w in workers if self.may(w, (task.slot, task.row))]
            if not free and not afresh:
                continue
            asked = Counter([] if free else [holder for holder, _ in self.given.get((task.slot, task.row), ())])
            free = free or [w for w in workers if w not in self.barred.get((task.slot, task.row), ())]
            chosen = min(free or workers, key=lambda worker: (asked[worker], load[worker], worker))
            load[chosen] += task.cost
            extra.setdefault(chosen, []).append(task)
        return [self.give(worker, extra[worker]) for worker in extra]


def _rule(plan: Plan, start: float, sums: Sums) -> EndRule | None:
    """Return the rule that says when a round is over; None where it is over when every slot is recovered."""
    if plan.ending is None:
        return None
    return plan.ending.rule([{(task.slot, task.row) for task in lane} for lane in plan.lanes], start, sums)
