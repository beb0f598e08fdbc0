"""A job that goes on without a code, because its results are not finite, and rows that combine them hide that."""

import logging

import numpy as np

from echelon.codes import Decoder
from echelon.stream.kept import Store
from echelon.stream.observer import Running

log = logging.getLogger("echelon.stream")


def without_code(running: Running) -> bool:
    """Let a job go on from where it is by rows that are its parts; return whether it can.

    Its work travels to the workers once more; what they have of it is not used by this job any longer.
    """
    code = running.job.plain_code() if running.job.plan is None else None
    if code is None or np.array_equal(code.matrix, running.codes[0].matrix):
        return False
    log.warning("%s: its results are not finite; it goes on without a code, to tell inf from NaN", running.name)
    running.codes, running.decoders = (code,), (Decoder(code, limit=running.job.noise_limit),)
    running.store.users -= 1
    running.store = Store(users=1, coded=(running.codes, running.decoders))  # not to be encoded again
    return True
