"""Codes and decoders, made once for all jobs of a kind and size."""

import logging
from collections.abc import Hashable
from threading import Lock
from typing import Any

from echelon.codes import Code, Decoder
from echelon.jobs import IterativeJob
from echelon.schemes import CodedPlan
from echelon.seeds import place_generator

log = logging.getLogger("echelon.stream")

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
        self._lock, self._told = Lock(), False

    def of(self, job: IterativeJob, plan: CodedPlan | None) -> Coded:
        """Return the codes of a job's slots and their decoders; may take long the first time."""
        with self._lock:
            own = job.codes if plan is None else plan.codes
            codes = (self._code(job, self._of(job)),) if own is None else own
            if own is None and job.own_code is None:
                self._tell_none(job, codes[0])
            decoders = {code: self._decoders.get(code) or Decoder(code, limit=job.noise_limit) for code in codes}
            self._decoders |= decoders
            _keep(self._decoders, max(_DECODERS, len(decoders)))
            return codes, tuple(decoders[code] for code in codes)

    def _tell_none(self, job: IterativeJob, code: Code) -> None:
        """Say once that a redundancy which was asked for is none."""
        if self._told or self._redundancy is None or self._redundancy == 1 or not code.plain:
            return
        self._told = True
        log.warning(
            "redundancy %g of %d parts rounds to none: no row may be late; cut the job into more parts, or ask for %g",
            self._redundancy,
            job.parts,
            1.5 if job.parts > 1 else 2.0,
        )

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
