"""Which samples a step takes, and which of them are in a chunk: from the seed alone, so that all workers agree."""

from functools import lru_cache
from itertools import accumulate

import numpy as np

from echelon.arrays import IntArray
from echelon.seeds import place_generator

Cuts = tuple[int, ...]  # where the chunks of a batch begin and end, in samples


class Minibatches:
    """Mini-batches of sample numbers, drawn as a loader that shuffles draws them.

    An epoch is all samples in an order of its own, cut into batches one after the other; the last may be smaller. A
    batch is cut into `chunks` of nearly equal size, some of them empty where it has fewer samples; or in proportion to
    other cuts. Without `batch_size` a batch is all samples, as they are numbered.

    >>> batches = Minibatches(5, 2, 2, seed=1)
    >>> [len(batches.batch(step)) for step in range(3)]
    [2, 2, 1]
    >>> sorted(np.concatenate([batches.batch(step) for step in range(3)]).tolist())
    [0, 1, 2, 3, 4]
    >>> [batches.chunk(2, i).size for i in range(2)]
    [0, 1]
    """

    def __init__(self, samples: int, batch_size: int | None, chunks: int, seed: int) -> None:
        self.samples, self.chunks = samples, chunks
        self.size, self._seed = batch_size, seed
        self.per_epoch = 1 if batch_size is None else -(-samples // batch_size)

    def batch(self, step: int) -> IntArray:
        """Return the samples of a step."""
        if self.size is None:
            return np.arange(self.samples)
        epoch, number = divmod(step, self.per_epoch)
        return _order(self._seed, epoch, self.samples)[number * self.size : (number + 1) * self.size]

    def chunk(self, step: int, chunk: int, cuts: Cuts | None = None) -> IntArray:
        """Return the samples of one chunk of a step."""
        batch = self.batch(step)
        return batch[span(len(batch), chunk, self.chunks, cuts)]


def span(samples: int, chunk: int, chunks: int, cuts: Cuts | None = None) -> slice:
    """Return where a chunk lies in a batch of so many samples: the cuts are of a batch of ``cuts[-1]``.

    >>> span(10, 1, 3), span(20, 1, 3, cuts=(0, 7, 9, 10))
    (slice(3, 6, None), slice(14, 18, None))
    """
    first, last, whole = (chunk, chunk + 1, chunks) if cuts is None else (cuts[chunk], cuts[chunk + 1], cuts[-1])
    return slice(first * samples // whole, last * samples // whole)


def apart(samples: int, chunks: int, cuts: Cuts | None, least: int) -> Cuts | None:
    """Return cuts by which no chunk of a batch has fewer samples than `least`, unless it has none.

    The largest has those of smaller ones; where there are none of these, the cuts stay as they are.

    >>> apart(5, 3, None, 2), apart(10, 3, (0, 1, 5, 10), 2), apart(6, 3, None, 2)
    ((0, 0, 3, 5), (0, 0, 4, 10), None)
    """
    if least < 2:
        return cuts
    spans = [span(samples, chunk, chunks, cuts) for chunk in range(chunks)]
    counts = [where.stop - where.start for where in spans]
    kept = [0 if count < least else count for count in counts]
    if kept == counts:
        return cuts
    kept[kept.index(max(kept))] += samples - sum(kept)
    return (0, *accumulate(kept))


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, samples: int) -> IntArray:
    order = place_generator(seed, epoch).permutation(samples)
    order.setflags(write=False)  # it is handed out, and used again
    return order
