"""The error of a job that failed, with the names that the caller has for things."""

import numpy as np

from echelon.cause import Cause, failed
from echelon.errors import JobFailed
from echelon.stream.observer import Running


def job_failed(running: Running, cause: Cause) -> JobFailed:
    """Return the error of a job, which names the chunks that were being computed where it has chunks."""
    parts = cause.parts or _parts_of(running, cause)
    found = dict.fromkeys(running.job.chunk_of(part) for part in parts)
    return failed(running.name, cause, [chunk for chunk in found if chunk is not None])


def _parts_of(running: Running, cause: Cause) -> tuple[int, ...]:
    """Return the parts that a row combines; none where the row is not known."""
    if cause.slot is None or cause.row is None or not running.codes:
        return ()
    code, plan = running.codes[cause.slot % len(running.codes)], running.store.plan
    names = range(code.parts) if plan is None else plan.chunks[cause.slot]
    return tuple(names[i] for i in np.flatnonzero(code.support[cause.row]).tolist())
