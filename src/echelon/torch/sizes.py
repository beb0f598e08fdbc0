"""How many samples of a batch each worker takes: as many as it is quick.

Worker p takes n_p samples in c_p + n_p m_p seconds, link and time per sample. A step is over when the last is done, and
so is shortest where all are done at once: Theorem 2 with samples in place of tasks, and gamma = 0.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.clusters import Cluster
from echelon.codes import uncoded
from echelon.errors import ArgumentError
from echelon.jobs import SumJob
from echelon.plan import Task
from echelon.profile import Speeds
from echelon.schemes import CodedPlan
from echelon.splits import largest_remainder, theorem2
from echelon.torch.minibatches import Cuts, apart, span

_WORTH = 0.02  # share of a step that other sizes must save
_LITTLE = 0.01  # samples that an empty chunk is said to cost, since a task must cost something


class Sizes:
    """Sizes of chunks, one per worker. samples: of a batch. shares: what each worker has of it, equal at first.

    least: how many samples a chunk must have, unless it has none.

    >>> sizes = Sizes(100, 2)
    >>> sizes.follow(Speeds([3.0, 1.0], [0.0, 0.0], [0.0, 0.0]))  # the second worker is three times as quick
    >>> sizes.cuts
    (0, 25, 100)
    """

    def __init__(self, samples: int, chunks: int, shares: Sequence[float] | None = None, *, least: int = 1) -> None:
        if samples < chunks:
            raise ArgumentError(f"batch_size: {samples} is not allowed with {chunks} chunks; must be at least as many")
        self.samples, self.chunks, self._least = samples, chunks, least
        given = np.ones(chunks) if shares is None else np.array(shares, dtype=float)
        self.cuts = self._cuts(largest_remainder(samples * given / given.sum(), samples).tolist())
        self.plan, self._planned = self.planned(samples), (samples, self.cuts, least)

    def planned(self, samples: int) -> CodedPlan:
        """Return the plan of a step with so many samples: what each row costs, in equal chunks of a whole batch."""
        part = self.samples / self.chunks
        spans = [span(samples, chunk, self.chunks, self.cut(samples)) for chunk in range(self.chunks)]
        counts = [max(where.stop - where.start, _LITTLE) for where in spans]
        lanes = [[Task(slot=0, row=i, cost=count / part)] for i, count in enumerate(counts)]
        return CodedPlan([uncoded(parts=self.chunks)], lanes)

    def cut(self, samples: int) -> Cuts:
        """Return the cuts of a batch that may have fewer samples than others."""
        return apart(samples, self.chunks, self.cuts, self._least) or self.cuts

    def begin(self, samples: int, speeds: Speeds | None, *, least: int = 1) -> None:
        """Get ready for a step whose batch has so many samples, which may be fewer than others have.

        speeds: of parts, which have as many samples as an equal chunk; other sizes are chosen if they save time.
        """
        if least != self._least:
            self._least = least
            self.cuts = self._cuts(np.diff(self.cuts).tolist())
        if speeds is not None:
            self.follow(speeds)
        if (samples, self.cuts, least) != self._planned:
            self.plan, self._planned = self.planned(samples), (samples, self.cuts, least)

    def follow(self, speeds: Speeds) -> None:
        """Choose other sizes if they save time; see `begin`."""
        by_sample = Speeds(speeds.mean * self.chunks / self.samples, np.zeros(self.chunks), speeds.link)
        wanted = self._cuts(_rounded(theorem2(by_sample, self.samples, 0.0).real, by_sample, self.samples))
        if _longest(wanted, by_sample) < (1 - _WORTH) * _longest(self.cuts, by_sample):
            self.cuts = wanted

    def _cuts(self, counts: list[int]) -> Cuts:
        """Return where chunks begin and end; none is left empty, so that every worker goes on showing its speed."""
        least = min(self._least, self.samples // self.chunks)
        for i in range(self.chunks):
            while counts[i] < least:
                counts[counts.index(max(counts))] -= 1
                counts[i] += 1
        return (0, *accumulate(counts))

    def resume(self, cuts: object) -> None:
        """Cut batches as they were cut before."""
        listed = list(cuts) if isinstance(cuts, Sequence) else []
        whole = all(isinstance(cut, int) and not isinstance(cut, bool) for cut in listed)
        ends = len(listed) == self.chunks + 1 and (listed[0], listed[-1]) == (0, self.samples)
        if not whole or not ends or any(stop <= start for start, stop in pairwise(listed)):
            raise ArgumentError(
                f"cuts: {cuts!r} is not allowed; must be {self.chunks + 1} whole numbers that grow from 0 to "
                f"{self.samples}"
            )
        self.cuts = tuple(listed)


class SizedJob(SumJob):
    """A sum over chunks whose sizes change from round to round, and what a row costs with them."""

    def __init__(self, sizes: Sizes, **options: Any) -> None:
        super().__init__(plan=sizes.plan, **options)
        self._sizes = sizes

    def open(self, cluster: Cluster, state: Any) -> CodedPlan:
        """Return the plan of this step."""
        return self._sizes.plan


def checked_shares(sizes: object, chunks: int) -> list[float] | None:
    """Return the shares of a batch that chunks have, if they are given; None for "equal" and "speed"."""
    if isinstance(sizes, str):
        checks.one_of("sizes", sizes, ("equal", "speed"))
        return None
    if isinstance(sizes, np.ndarray):
        sizes = sizes.tolist()
    if not isinstance(sizes, Sequence) or len(sizes) != chunks:
        raise ArgumentError(f"sizes: {sizes!r} is not allowed; must be 'equal', 'speed', or {chunks} numbers")
    return [checks.number(f"sizes[{i}]", share, above=0) for i, share in enumerate(sizes)]


def _rounded(shares: FloatArray, speeds: Speeds, samples: int) -> list[int]:
    """Return whole counts: what is left over goes, one by one, to those who are done with it first."""
    counts = np.floor(shares)
    while counts.sum() < samples:
        counts[np.argmin(speeds.link + (counts + 1) * speeds.mean)] += 1
    return [int(count) for count in counts]


def _longest(cuts: Cuts, speeds: Speeds) -> float:
    return float((speeds.link + np.diff(cuts) * speeds.mean).max())
