"""What a worker's task raised, as bytes on their way to the master: texts, and the exception itself where that works.

The exception is pickled by the worker, and unpickled by nobody but the master of that worker: what is unpickled here
was made by the job that the master sent out.
"""

import json
import pickle
import struct

import cloudpickle

from echelon.cause import Cause
from echelon.errors import RemoteError

_HEAD = struct.Struct("<III")  # bytes of what happened, of the traceback, of the pickled exception
_MOST_PARTS = 100  # parts that are told


def packed(cause: Cause, *, most: int) -> bytes:
    """Return a cause as bytes: at most `most` of the traceback, whose middle is left out, and of the exception."""
    said = [cause.what, cause.slot, cause.row, cause.parts[:_MOST_PARTS]]
    head, text = json.dumps(said).encode(), cause.traceback.encode(errors="backslashreplace")
    if len(text) > most:
        text = text[: most // 2] + b"\n[...]\n" + text[-most // 2 :]
    try:
        error = b"" if cause.error is None else cloudpickle.dumps(cause.error)
    except BaseException:  # the user's own code may be asked how to pickle it
        error = b""
    if len(error) > most:
        error = b""
    return _HEAD.pack(len(head), len(text), len(error)) + head + text + error


def unpacked(raw: bytes) -> Cause:
    """Return the cause; an exception that can't be made here is a `RemoteError` with its name and text."""
    sizes, at, pieces = _HEAD.unpack_from(raw), _HEAD.size, []
    for size in sizes:
        pieces.append(raw[at : at + size])
        at += size
    what, slot, row, parts = json.loads(pieces[0])
    error = _exception(pieces[2]) or RemoteError(what)
    return Cause(what, error, pieces[1].decode(errors="replace"), slot=slot, row=row, parts=tuple(parts))


def _exception(pickled: bytes) -> BaseException | None:
    try:
        found = pickle.loads(pickled) if pickled else None
    except BaseException:  # its class says how, and may say anything
        return None
    return found if isinstance(found, BaseException) else None
