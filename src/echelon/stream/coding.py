"""Codes and decoders, made once for all jobs of a kind and size."""

from threading import Lock

from echelon.codes import Code, Decoder
from echelon.jobs import IterativeJob, RoundJob
from echelon.schemes import CodedPlan
from echelon.seeds import place_generator

_DECODERS = 256  # that are kept for jobs to come
_DECODER_LIMIT = 1e12

Coded = tuple[tuple[Code, ...], tuple[Decoder, ...]]


class Coding:
    """What protects the jobs of a stream; for any thread."""

    def __init__(self, redundancy: float, seed: int) -> None:
        self._redundancy, self._seed = redundancy, seed
        self._codes: dict[tuple[type, int], Code] = {}
        self._decoders: dict[Code, Decoder] = {}
        self._lock = Lock()

    def of(self, job: IterativeJob, plan: CodedPlan | None) -> Coded:
        """Return the codes of a job's slots and their decoders; may take a while the first time."""
        with self._lock:
            if plan is not None:
                codes = plan.codes
            elif isinstance(job, RoundJob):
                codes = (self._code(job),)
            else:
                key = (type(job), job.parts)
                if key not in self._codes:
                    self._codes[key] = self._code(job)
                codes = (self._codes[key],)
            # the job's tolerance decides, and not the decoder; but one that goes on for many rounds can wait for more
            limit = None if isinstance(job, RoundJob) else _DECODER_LIMIT
            decoders = {code: self._decoders.get(code) or Decoder(code, limit=limit) for code in codes}
            self._decoders |= decoders
            while len(self._decoders) > max(_DECODERS, len(decoders)):
                del self._decoders[next(iter(self._decoders))]
            return codes, tuple(decoders[code] for code in codes)

    def _code(self, job: IterativeJob) -> Code:
        return job.code(self._redundancy, place_generator(self._seed, 0))
