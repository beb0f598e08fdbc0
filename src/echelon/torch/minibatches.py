"""Which samples a step takes, and which of them are in a chunk: from the seed alone, so that all workers agree."""

from functools import lru_cache

import numpy as np

from echelon.arrays import IntArray
from echelon.seeds import place_generator


class Minibatches:
    """Mini-batches of sample numbers, drawn as a loader that shuffles draws them.

    An epoch is all samples in an order of its own, cut into batches one after the other; the last may be smaller. A
    batch is cut into `chunks` of nearly equal size, some of them empty where it has fewer samples. Without `batch_size`
    a batch is all samples, as they are numbered.

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
        self._size, self._seed = batch_size, seed

    def batch(self, step: int) -> IntArray:
        """Return the samples of a step."""
        if self._size is None:
            return np.arange(self.samples)
        epoch, number = divmod(step, -(-self.samples // self._size))
        return _order(self._seed, epoch, self.samples)[number * self._size : (number + 1) * self._size]

    def chunk(self, step: int, chunk: int) -> IntArray:
        """Return the samples of one chunk of a step."""
        batch = self.batch(step)
        return batch[chunk * len(batch) // self.chunks : (chunk + 1) * len(batch) // self.chunks]


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, samples: int) -> IntArray:
    order = place_generator(seed, epoch).permutation(samples)
    order.setflags(write=False)  # it is handed out, and used again
    return order
