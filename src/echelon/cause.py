"""Why a job failed, on its way from where it happened to the error that the caller sees."""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from echelon.errors import JobFailed

_MOST_SAID = 2000  # characters of an exception's own text
_MOST_NAMED = 12  # chunks named in an error


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a job failed; masters and transports only pass it on.

    what: what happened, in a line.
    error: the exception that was raised, if one was, without its traceback.
    traceback: where it was raised, as text.
    worker, place: where that was; None on the master.
    slot, row, parts: what was being computed, as far as that is known.
    """

    what: str
    error: BaseException | None = None
    traceback: str = ""
    worker: int | None = None
    place: int | None = None
    slot: int | None = None
    row: int | None = None
    parts: tuple[int, ...] = ()


def caught(error: BaseException, *, at: tuple[int, int] | None = None, parts: Sequence[int] = ()) -> Cause:
    """Return an exception as the cause of a failure; `at` is the slot and the row that were being computed.

    >>> caught(ZeroDivisionError("division by zero"), at=(0, 2)).what
    'ZeroDivisionError: division by zero'
    """
    said = "".join(traceback.format_exception_only(error)).strip()
    if len(said) > _MOST_SAID:
        said = f"{said[:_MOST_SAID]} [...]"
    text = "".join(traceback.format_exception(error))
    _drop_frames(error, set())
    slot, row = (None, None) if at is None else at
    return Cause(said, error, text, slot=slot, row=row, parts=tuple(parts))


def _drop_frames(error: BaseException | None, seen: set[int]) -> None:
    """Let go of the frames of an exception and of those it came from: they hold data, and memory of the workers."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    error.__traceback__ = None
    _drop_frames(error.__cause__, seen)
    _drop_frames(error.__context__, seen)
    for one in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        _drop_frames(one, seen)


def failed(name: str, cause: Cause, chunks: Sequence[int] = ()) -> JobFailed:
    """Return the error of a job that failed, while it was computed from these chunks.

    >>> print(failed("fit", Cause("ZeroDivisionError: none", worker=3, place=1, slot=0, row=2), [7]))
    fit: ZeroDivisionError: none (on worker 3 at place 1, row 2 of slot 0, chunk 7)
    """
    where = []
    if cause.worker is not None:
        where.append(f"on worker {cause.worker}" + ("" if cause.place is None else f" at place {cause.place}"))
    elif cause.error is not None:
        where.append("on the master")
    row = f"row {cause.row} of slot {cause.slot}"
    if cause.row is not None and row not in cause.what:
        where.append(row)
    if chunks:
        more = ", ..." if len(chunks) > _MOST_NAMED else ""
        where.append(f"chunk{'s' * (len(chunks) > 1)} {', '.join(map(str, chunks[:_MOST_NAMED]))}{more}")
    error = JobFailed(f"{name}: {cause.what}" + (f" ({', '.join(where)})" if where else ""))
    error.__cause__ = cause.error
    error.traceback, error.worker, error.place = cause.traceback, cause.worker, cause.place
    error.slot, error.row, error.chunks = cause.slot, cause.row, tuple(chunks)
    if cause.traceback:
        error.add_note(f"where it was raised:\n{cause.traceback.rstrip()}")
    return error
