"""Steps of a training as the record of a run (docs/record.md): for `echelon report`, `trace` and `advise`."""

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from echelon.arrays import FloatArray
from echelon.errors import ArgumentError
from echelon.stream.record import FORMAT
from echelon.torch.scores import BEGUN, LAST, REDUCED

log = logging.getLogger("echelon.torch")


class StepRecord:
    """Writes steps as rounds of one job: a rank's share of the samples is a lane of so many equal parts.

    Parts come one after another between the beginning of the forward pass and the last bucket; what is before is the
    link. A round ends when the reduce does. Where the file can't be written any more, the record ends.
    """

    def __init__(self, path: Path, names: Sequence[str], parts: int) -> None:
        self._path, self._parts, self._ranks = path, parts, len(names)
        self._now, self._steps = 0.0, 0
        try:
            self._file: BinaryIO | None = path.open("wb")
        except OSError as error:
            raise ArgumentError(f"record: {str(path)!r} is not allowed; {error.strerror}") from None
        self._write("run", format=FORMAT, names=list(names), split="uniform", redundancy=1.0)
        for rank in range(self._ranks):
            self._write("up", time=0.0, worker=rank, place=rank)
        self._write("job", time=0.0, job=0, name="training")
        self._flush()

    def add(self, stamps: FloatArray) -> None:
        """Write some steps, shape (steps, ranks, 4)."""
        for step in stamps:
            self._add(step)
        self._flush()

    def _add(self, step: FloatArray) -> None:
        last, parts = step[:, LAST], self._parts
        length = round(max(0.0, float(last.max() + max(0.0, (step[:, REDUCED] - last).min()))), 6)
        messages = []
        for rank, (begun, ready) in enumerate(step[:, [BEGUN, LAST]].tolist()):
            each = max(ready - begun, 1e-9) / parts
            messages += [
                [rank, 0, rank * parts + part, round(min(begun + (part + 1) * each, length), 6), round(each, 9), 1.0]
                for part in range(parts)
            ]
        messages.sort(key=lambda message: message[3])
        self._write(
            "round",
            job=0,
            round=self._steps + 1,
            iteration=self._steps,
            start=round(self._now, 6),
            end=round(self._now + length, 6),
            needed=[self._ranks * parts],
            lanes={str(rank): [1.0] * parts for rank in range(self._ranks)},
            messages=messages,
        )
        self._steps += 1
        self._now += length

    def _write(self, kind: str, **fields: Any) -> None:
        if self._file is not None:
            line = json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode() + b"\n"
            self._try(lambda file: file.write(line))

    def _flush(self) -> None:
        self._try(lambda file: file.flush())

    def _try(self, act: Any) -> None:
        if self._file is None:
            return
        try:
            act(self._file)
        except OSError as error:
            log.warning("the record %s ends here: %s; the training goes on", self._path, error.strerror)
            with suppress(OSError):
                self._file.close()
            self._file = None

    def close(self) -> None:
        """Write that the training is over, and close the file."""
        self._write("end", time=round(self._now, 6), job=0, outcome="done")
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()
