"""What each part of a round took, for rounds of a record: as far as it was seen, by the worker's law beyond that."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray, IntArray
from echelon.delays.base import parts_of
from echelon.stream.record import Record, RecordedRound
from echelon.stream.recorded import TaskSeen, links, tasks_seen
from echelon.stream.round_paces import longer, round_paces
from echelon.stream.traced import kaplan_meier


def part_times(record: Record, rngs: Sequence[Generator]) -> tuple[tuple["PartTimes | None", ...], FloatArray]:
    """Return what the parts of each place took in each round, and how late all places began it, shape (rounds,).

    None stands for places of which no task was seen to end.

    rngs: one for each place.
    """
    tasks: list[list[TaskSeen]] = [[] for _ in record.names]
    costs: list[list[float]] = [[] for _ in record.names]
    one_each = [plain(seen) for seen in record.rounds]
    for task in tasks_seen(record):
        cost = 1.0 if task.cost is None and one_each[task.round] else task.cost
        if cost is not None:
            tasks[task.place].append(task)
            costs[task.place].append(cost)
    link = np.nan_to_num(links(record))
    late, shared = _late(tasks, record, link)
    found = tuple(
        PartTimes.of(seen, costs[place], len(record.rounds), float(link[place]), late[place], rngs[place])
        if any(task.finished and task.seconds for task in seen)
        else None
        for place, seen in enumerate(tasks)
    )
    return found, shared


def plain(seen: RecordedRound) -> bool:
    """Return whether every row of a round costs one part: then it does so whoever computes it."""
    return all(cost == 1.0 for lane in seen.lanes.values() for cost in lane)


def _late(tasks: Sequence[Sequence[TaskSeen]], record: Record, link: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how late each place began each round, shape (places, rounds), and how late all did, which is taken off.

    Lateness is what goes beyond the link; 0 where it was not seen.
    """
    late = np.full((len(tasks), len(record.rounds)), np.nan)
    for place, seen in enumerate(tasks):
        for task in reversed(seen):
            begun = task.start - record.rounds[task.round].start - link[place]
            late[place, task.round] = begun if task.finished else np.nan
    heard, shared = ~np.isnan(late).all(axis=0), np.zeros(len(record.rounds))
    shared[heard] = np.maximum(0.0, np.nanmedian(late[:, heard], axis=0))
    own: FloatArray = np.nan_to_num(late - shared)
    return own, shared


@dataclass(frozen=True, eq=False)
class PartTimes:
    """What the parts of one worker took, in every round of a record.

    own: times of the parts that were finished, in order, shape (rounds, most parts of a round). A task of several parts
        is seen as a whole: its parts count as equally long.
    counts: how many of them each round has. least: what the next one took at least, where it was cut short, else 0.
    late: by how much each round began later than the link has it, beyond what it did for all.
    paces: of each round, in seconds per part (`round_paces`). values, masses: law of a part's time over the pace of its
        round, by the Kaplan-Meier estimate. beyond: share of it of which only a lower bound is known.
    link: by how much its first results are late.
    """

    own: FloatArray
    counts: IntArray
    least: FloatArray
    late: FloatArray
    paces: FloatArray
    values: FloatArray
    masses: FloatArray
    beyond: float
    link: float

    @classmethod
    def of(
        cls,
        seen: Sequence[TaskSeen],
        parts_each: Sequence[float],
        rounds: int,
        link: float,
        late: FloatArray,
        rng: Generator,
    ) -> "PartTimes":
        """Return the times that tasks of one place, in order, show; `parts_each` are their costs."""
        at, costs = np.array([task.round for task in seen]), np.array(parts_each)
        finished = np.array([task.finished for task in seen])
        seconds = np.array([task.seconds for task in seen])
        each = seconds / costs
        parts = np.array([parts_of(cost) for cost in costs[finished].tolist()])
        own, counts = _table(np.repeat(at[finished], parts), np.repeat(each[finished], parts), rounds)
        least = np.zeros(rounds)
        np.maximum.at(least, at[~finished], each[~finished])
        paces = round_paces(at, costs, seconds, finished, rounds, rng)
        values, masses, beyond = kaplan_meier(each / paces[at], finished)
        return cls(own, counts, least, late, paces, values, masses, beyond, link)

    @property
    def mean(self) -> float:
        """Mean time of a part; too small by what lies beyond the largest time seen."""
        return float(self.values @ self.masses) * float(self.paces.mean())

    @property
    def std(self) -> float:
        """Standard deviation of it."""
        second = float(np.square(self.values) @ self.masses) * float(np.square(self.paces).mean())
        return float(np.sqrt(max(0.0, second - self.mean**2)))

    def times(self, rounds: slice, most: int, rng: Generator) -> FloatArray:
        """Return the times of `most` parts in each of these rounds, shape (rounds, most): seen ones, then drawn ones.

        The part that was cut short is drawn given that it took longer than was seen; those after it are drawn by the
        law of parts at the pace of the round.
        """
        own, counts, least, paces = self.own[rounds], self.counts[rounds], self.least[rounds], self.paces[rounds]
        table = np.zeros((len(own), max(most, own.shape[1] + 1)))
        table[:, : own.shape[1]] = own
        table[np.arange(len(own)), counts] = paces * longer(self.values, self.masses, least / paces, rng)
        found = table[:, :most]
        unseen = np.arange(most) > counts[:, None]
        drawn = longer(self.values, self.masses, np.zeros(int(unseen.sum())), rng)
        found[unseen] = drawn * np.repeat(paces, unseen.sum(axis=1))
        found[:, 0] = np.maximum(found[:, 0] + self.late[rounds], 0.0)
        return found


def _table(rounds: IntArray, times: FloatArray, count: int) -> tuple[FloatArray, IntArray]:
    """Return times by round in a table, shape (rounds, most of one), and how many each round has."""
    counts = np.bincount(rounds, minlength=count)
    order = np.argsort(rounds, kind="stable")
    place = np.arange(len(rounds)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.zeros((count, max(1, int(counts.max(initial=0)))))
    table[rounds[order], place] = times[order]
    return table, counts
