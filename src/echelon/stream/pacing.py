"""Following the workers' speeds while jobs run, and splitting rows by them; planning again where it pays.

Nothing is known at first unless a profile says it, so the first round is split evenly: it is the calibration. From then
on every round shows how long each worker computed and what it finished.
"""

from collections.abc import Mapping

import numpy as np

from echelon.arrays import FloatArray, IntArray
from echelon.codes import Code, tracker
from echelon.estimate import SpeedEstimator
from echelon.profile import Speeds
from echelon.schemes import split_code
from echelon.splits import SPLITS
from echelon.stream.observer import Arrival, RoundSeen
from echelon.stream.spread import Seen, Spread

PRIOR = 2.0  # tasks that a declared speed counts for: little, since every round shows many
MEMORY = 200.0  # parts per worker that are remembered
JUMP = 2.0  # a speed that changes by more than this, twice in a row, is believed at once
UNLIKELY = 3.0  # standard deviations that a round must be off for a jump to be considered
SHORT = 100.0  # how many times shorter than believed a task must be to be unlikely, however much tasks vary
RESCALE = 1.5  # a job whose parts take this much more or less time than those before is other work
DRIFT = 1.15  # how much a speed must have changed for another split to be considered
GAIN = 0.02  # share of an iteration that another split must save
FIRMER = (5, 10, 20)  # rounds after which another split is considered, since speeds are known better
PROBE = 16  # rounds after which workers that get no rows are tried again
GAMMA = 1.0  # of Theorem 2's metric


class Pacing:
    """Speeds of all places, and the split that follows from them.

    rule: a split of `SPLITS`. declared: speeds known beforehand, one per place, or None.
    adapt: whether declared speeds are followed as they change; without, the split stays as it was planned.
    """

    def __init__(self, places: int, rule: str, declared: Speeds | None, *, adapt: bool = True) -> None:
        self.rule = rule
        self.adapt = adapt or declared is None
        self.known = declared is not None
        self.rounds = 0
        self.spread = Spread(places, declared)
        if declared is None:
            ones = np.ones(places)
            declared = Speeds(ones, ones, np.zeros(places))
        self._link = declared.link.copy()
        self._estimator = SpeedEstimator(declared, prior=PRIOR, memory=MEMORY)
        self._mean, self._std = declared.mean.copy(), declared.std.copy()
        self._jumps = np.zeros(places, dtype=int)
        self.expected: float | None = None  # time of a round with the last split, if every task took its mean
        self._rescale = False
        self._last: tuple[tuple[int, ...], int, IntArray, FloatArray] | None = None  # places, job, counts, means then

    @property
    def means(self) -> FloatArray:
        """Seconds per part, by place, as believed now; meaningless before the first round without a profile."""
        return self._mean

    def speeds(self) -> Speeds:
        """Return means, deviations and links of all places, as believed now; from any thread."""
        return Speeds(self._mean, self._std, self._link)

    def link(self, place: int) -> float:
        """Return the delay of a place's link, as believed now."""
        return float(self._link[place])

    def new_job(self) -> None:
        """Expect other work: speeds relative to one another stay, the seconds per part may be quite different."""
        self._rescale = True

    def observe(self, seen: list[Seen]) -> None:
        """Note a round."""
        if not seen:
            return
        busy, done = np.zeros((1, len(self._mean))), np.zeros((1, len(self._mean)))
        for one in seen:
            busy[0, one.place], done[0, one.place] = one.busy, one.done
            if one.link is not None:
                old = self._link[one.place]
                # a late message tells little of a link, an early one much
                self._link[one.place] = one.link if one.link < old or not self.rounds else old + 0.1 * (one.link - old)
        self.rounds += 1
        if not self.adapt:
            return
        if not self.known or self._rescale:
            self._set_scale(busy[0], done[0])
        self._follow_jumps(busy[0], done[0])
        self._estimator.observe(busy=busy, done=done)
        self.spread.observe(seen, self._mean)
        self._mean, self._std = self._estimator.means(), self._estimator.deviations()

    def _set_scale(self, busy: FloatArray, done: FloatArray) -> None:
        """Begin again from what this round shows: all of it at first, the common scale when other work begins."""
        worked = done > 0
        if not worked.any():
            return
        now = np.full(len(busy), np.nan)
        now[worked] = busy[worked] / done[worked]
        if self.known:
            self._rescale = False
            factor = float(np.nanmedian(now / self._mean))
            if 1 / RESCALE < factor < RESCALE:
                return  # much the same work as before: what is remembered stays valid
            mean, std = self._mean * factor, self._std * factor
        else:
            # how much task times vary is not known before several rounds: assume as much as their mean
            mean = np.where(worked, now, np.nanmean(now))
            std = mean.copy()
        self._restart(mean, std)
        self.known = True

    def _restart(self, mean: FloatArray, std: FloatArray) -> None:
        mean, std = np.maximum(mean, 1e-9), np.maximum(std, 0.0)
        self._estimator = SpeedEstimator(Speeds(mean, std, self._link), prior=PRIOR, memory=MEMORY)
        self._mean, self._std = mean, std

    def _follow_jumps(self, busy: FloatArray, done: FloatArray) -> None:
        """Adopt at once a speed that was far from the believed one in two rounds running."""
        now = busy / np.maximum(done, 1.0)
        # few tasks that vary say little: their time must be unlikely, too
        unlikely = np.abs(busy - done * self._mean) > UNLIKELY * self._std * np.sqrt(np.maximum(done, 1.0))
        quicker = (done > 0) & (now * np.where(unlikely, JUMP, SHORT) < self._mean)
        far = quicker | (unlikely & (now > JUMP * self._mean))
        if not far.any():
            self._jumps[busy > 0] = 0
            return
        self._jumps = np.where(busy > 0, np.where(far, self._jumps + 1, 0), self._jumps)
        sudden = self._jumps >= 2
        if sudden.any():
            scale = np.where(sudden, now / self._mean, 1.0)
            self._restart(self._mean * scale, self._std * scale)
            self.spread.restart(sudden)
            self._jumps[sudden] = 0

    def counts(self, job: int, code: Code, places: tuple[int, ...], rounds_left: int, move_cost: float) -> IntArray:
        """Return the rows of each place for a job; its last split again unless another one pays.

        `move_cost` is the time, in parts, of a row whose data is new to a worker.
        """
        counts = self._counts(job, code, places, rounds_left, move_cost)
        if self.adapt and self.rounds % PROBE == 0 and not counts.all() and code.rows >= len(places):
            # a worker without rows shows nothing: now and then it gets one, to see whether it is faster by now
            counts = counts.copy()
            for idle in np.flatnonzero(counts == 0):
                counts[counts.argmax()] -= 1
                counts[idle] += 1
        return counts

    def counts_for_next(self, code: Code, places: tuple[int, ...]) -> IntArray:
        """Return rows of each place for a job whose turn has not come."""
        return self._split(code, np.array(places))

    def _counts(self, job: int, code: Code, places: tuple[int, ...], rounds_left: int, move_cost: float) -> IntArray:
        at = np.array(places)
        if self._last is None or self._last[:2] != (places, job):
            return self._keep(places, job, code, self._split(code, at))
        counts, then = self._last[2:]
        ratio = self._mean[at] / then
        if (
            not self.adapt
            or self.rule == "uniform"
            or not self.known
            or (ratio.max() < DRIFT and ratio.min() * DRIFT > 1 and self.rounds not in FIRMER)
        ):
            return counts
        fresh = self._split(code, at)
        before = self._time(code, at, counts)
        gain = before - self._time(code, at, fresh)
        moved = float(np.maximum(fresh - counts, 0).max()) * move_cost * float(self._mean[at].max())
        if gain * rounds_left > moved and gain > GAIN * before:
            return self._keep(places, job, code, fresh)
        # it does not pay: think again when speeds have changed once more
        return self._keep(places, job, code, counts)

    def _keep(self, places: tuple[int, ...], job: int, code: Code, counts: IntArray) -> IntArray:
        self._last = places, job, counts, self._mean[list(places)].copy()
        self.expected = self._time(code, np.array(places), counts) if self.known else None
        return counts

    def _split(self, code: Code, at: IntArray) -> IntArray:
        if not self.known:
            return SPLITS["uniform"](
                Speeds(np.ones(len(at)), np.ones(len(at)), np.zeros(len(at))), code.rows, GAMMA
            ).counts
        speeds = Speeds(self._mean[at], self._std[at], self._link[at])
        return split_code(code, speeds, self.rule, GAMMA).counts

    def _time(self, code: Code, at: IntArray, counts: IntArray) -> float:
        """Return when the code is recovered if every task took its mean: the first of a lane costs more than others."""
        lane = np.repeat(at, counts)
        place = np.arange(len(lane)) - np.repeat(np.cumsum(counts) - counts, counts)
        alone, after = code.mean_costs
        arrivals = self._link[lane] + self._mean[lane] * (alone + after * place)
        if code.counting:
            return float(np.partition(arrivals, code.threshold - 1)[code.threshold - 1])
        watch = tracker(code)
        return next(float(arrivals[row]) for row in np.argsort(arrivals, kind="stable") if watch.add(int(row)))


def observations(seen: RoundSeen, places: Mapping[int, int], pacing: Pacing) -> list[Seen]:
    """Return what a round showed of the workers that are still there, whose `places` these are."""
    found = []
    by_worker: dict[int, list[Arrival]] = {}
    for message in seen.messages:
        by_worker.setdefault(message.worker, []).append(message)
    for worker, lane in zip(seen.workers, seen.lanes(), strict=True):
        place = places.get(worker)
        if place is None or not lane:
            continue
        costs = {(task.slot, task.row): task.cost for task in lane}
        came = [message for message in by_worker.get(worker, []) if (message.slot, message.row) in costs]
        done = sum([costs[message.slot, message.row] for message in came])
        busy = sum([message.seconds for message in came])
        last = came[-1].time if came else seen.start + pacing.link(place)
        cut = 0.0
        if len(came) < len(lane):
            # its task was cut short by the purge or the end of its slot
            cut = max(0.0, max(seen.recovered.get(task.slot, seen.end) for task in lane) - last)
            busy += cut
        # a first message that waited for the work to be loaded tells nothing of the link
        link = max(0.0, came[0].time - seen.start - came[0].seconds) if came and not seen.loading else None
        if busy > 0:
            found.append(Seen(place, busy, done, link, cut))
    return found
