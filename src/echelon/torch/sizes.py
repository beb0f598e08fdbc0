"""How many samples of a batch each worker takes: as many as it is quick.

Worker p takes n_p samples in c_p + n_p m_p seconds, link and time per sample. A step is over when the last is done, and
so is shortest where all are done at once: Theorem 2 with samples in place of tasks, and gamma = 0.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from echelon import checks
from echelon.clusters import Cluster
from echelon.codes import uncoded
from echelon.errors import ArgumentError
from echelon.jobs import SumJob
from echelon.plan import Task
from echelon.profile import Speeds
from echelon.schemes import CodedPlan
from echelon.splits import largest_remainder, theorem2
from echelon.torch.minibatches import Cuts

_WORTH = 0.02  # share of a step that other sizes must save


class Sizes:
    """Sizes of chunks, one per worker. samples: of a batch. shares: what each worker has of it, equal at first.

    >>> sizes = Sizes(100, 2)
    >>> sizes.follow(Speeds([3.0, 1.0], [0.0, 0.0], [0.0, 0.0]))  # the second worker is three times as quick
    >>> sizes.cuts
    (0, 25, 100)
    """

    def __init__(self, samples: int, chunks: int, shares: Sequence[float] | None = None) -> None:
        if samples < chunks:
            raise ArgumentError(f"batch_size: {samples} is not allowed with {chunks} chunks; must be at least as many")
        self.samples = samples
        given = np.ones(chunks) if shares is None else np.array(shares, dtype=float)
        self.set(_cuts(largest_remainder(samples * given / given.sum(), samples).tolist()))

    def set(self, cuts: Cuts) -> None:
        """Cut batches here from now on."""
        self.cuts = cuts
        counts = [stop - start for start, stop in pairwise(cuts)]
        part = self.samples / len(counts)
        lanes = [[Task(slot=0, row=i, cost=count / part)] for i, count in enumerate(counts)]
        self.plan = CodedPlan([uncoded(parts=len(counts))], lanes)

    def follow(self, speeds: Speeds) -> None:
        """Choose other sizes if they save time. speeds: of parts, which have as many samples as an equal chunk."""
        chunks = len(self.cuts) - 1
        by_sample = Speeds(speeds.mean * chunks / self.samples, np.zeros(chunks), speeds.link)
        wanted = _cuts(theorem2(by_sample, self.samples, 0.0).counts.tolist())
        if _longest(wanted, by_sample) < (1 - _WORTH) * _longest(self.cuts, by_sample):
            self.set(wanted)


class SizedJob(SumJob):
    """A sum over chunks whose sizes change from round to round, and what a row costs with them."""

    def __init__(self, sizes: Sizes, **options: Any) -> None:
        super().__init__(plan=sizes.plan, **options)
        self._sizes = sizes

    def open(self, cluster: Cluster, state: Any) -> CodedPlan:
        """Return the plan with the sizes of now."""
        return self._sizes.plan


def checked_shares(sizes: object, chunks: int) -> list[float] | None:
    """Return the shares of a batch that chunks have, if they are given; None for "equal" and "speed"."""
    if isinstance(sizes, str):
        checks.one_of("sizes", sizes, ("equal", "speed"))
        return None
    if not isinstance(sizes, Sequence) or len(sizes) != chunks:
        raise ArgumentError(f"sizes: {sizes!r} is not allowed; must be 'equal', 'speed', or {chunks} numbers")
    return [checks.number(f"sizes[{i}]", share, above=0) for i, share in enumerate(sizes)]


def _cuts(counts: list[int]) -> Cuts:
    """Return where chunks begin and end; none is left empty, so that every worker goes on showing its speed."""
    for i, count in enumerate(counts):
        if count == 0:
            counts[counts.index(max(counts))] -= 1
            counts[i] = 1
    return (0, *accumulate(counts))


def _longest(cuts: Cuts, speeds: Speeds) -> float:
    return float((speeds.link + np.diff(cuts) * speeds.mean).max())
