"""Codes and decoders, made once for all jobs of a kind and size."""

from collections.abc import Hashable
from threading import Lock
from typing import Any

from echelon.codes import Code, Decoder
from echelon.jobs import IterativeJob
from echelon.schemes import CodedPlan
from echelon.seeds import place_generator

_DECODERS, _CODES = 256, 64  # kept for later jobs
_OWN = 1.1  # completes a job's own code, where the stream has no redundancy

Coded = tuple[tuple[Code, ...], tuple[Decoder, ...]]
_codes: dict[Hashable, Code] = {}  # of all streams: some take long to make
_keeping = Lock()


class Coding:
    """What protects the jobs of a stream; for any thread."""

    def __init__(self, redundancy: float | None, seed: int) -> None:
        self._redundancy, self._seed = redundancy, seed
        self._decoders: dict[Code, Decoder] = {}
        self._lock = Lock()

    def of(self, job: IterativeJob, plan: CodedPlan | None) -> Coded:
        """Return the codes of a job's slots and their decoders; may take long the first time."""
        with self._lock:
            codes = (self._code(job, self._of(job)),) if plan is None else plan.codes
            decoders = {code: self._decoders.get(code) or Decoder(code, limit=job.noise_limit) for code in codes}
            self._decoders |= decoders
            _keep(self._decoders, max(_DECODERS, len(decoders)))
            return codes, tuple(decoders[code] for code in codes)

    def at(self, job: IterativeJob, redundancy: float) -> Coded:
        """Return the code of a job at this redundancy, and its decoder."""
        code = self._code(job, redundancy)
        return (code,), (Decoder(code, limit=job.noise_limit),)

    def _of(self, job: IterativeJob) -> float:
        """Return the redundancy of a job: as given, and without, none; a code by its name needs some."""
        if self._redundancy is not None:
            return self._redundancy
        return 1.0 if job.own_code is None else _OWN

    def _code(self, job: IterativeJob, redundancy: float) -> Code:
        key = redundancy, self._seed, job.code_key
        found = _codes.get(key)
        if found is None:
            made = job.code(redundancy, place_generator(self._seed, 0))
            with _keeping:
                found = _codes.setdefault(key, made)  # another stream may have been quicker
                _keep(_codes, _CODES)
        return found


def _keep(known: dict[Any, Any], most: int) -> None:
    """Drop the oldest entries beyond this number."""
    while len(known) > most:
        del known[next(iter(known))]
