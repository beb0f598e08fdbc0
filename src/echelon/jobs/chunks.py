"""The data of a job, cut into chunks: given as they are, or loaded on the worker that needs them."""

from collections.abc import Callable, Sequence
from typing import Any

from echelon import checks
from echelon.errors import ArgumentError
from echelon.jobs.base import checked_function

MOST_CHUNKS = 10**4


class Chunks:
    """Chunks by number; `loaded` says whether they come from a function, called when a chunk is first needed.

    >>> len(Chunks([1.0, 2.0], None, None)), Chunks(None, lambda i: i * i, 3)[2]
    (2, 4)
    """

    def __init__(
        self, chunks: Sequence[Any] | None, load: Callable[[int], Any] | None, parts: int | None
    ) -> None:  # fmt: skip
        if (chunks is None) == (load is None):
            raise ArgumentError("chunks, load: one of them must be given, not both")
        self._load = None if load is None else checked_function("load", load)
        self._held: dict[int, Any] = {}
        if chunks is None:
            self._count = checks.whole("parts", parts, least=1, most=MOST_CHUNKS)
            return
        if isinstance(chunks, str | bytes | dict | set) or not hasattr(chunks, "__len__"):
            raise ArgumentError(f"chunks: {type(chunks).__name__} is not allowed; must be a list of chunks")
        if parts is not None:
            raise ArgumentError(f"parts: {parts!r} is not allowed together with chunks; their number is len(chunks)")
        self._count = checks.whole("chunks: their number", len(chunks), least=1, most=MOST_CHUNKS)
        self._held = dict(enumerate(chunks))

    def __len__(self) -> int:
        return self._count

    @property
    def loaded(self) -> bool:
        """Whether workers load what they need."""
        return self._load is not None

    def __getitem__(self, number: int) -> Any:
        if number not in self._held:
            assert self._load is not None
            self._held[number] = self._load(number)
        return self._held[number]
