"""Typed frames between a master and its worker processes: a header, then raw bytes. Results are never pickled.

Sockets keep frames apart (SOCK_SEQPACKET), so a frame is sent and received whole or not at all.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from echelon import trees
from echelon.arrays import NumberArray
from echelon.cause import Cause
from echelon.clusters import raised
from echelon.plan import Task

INLINE = 32 * 1024  # bytes of payload that travel in the frame itself; larger ones lie in shared memory
FRAME = 128 * 1024  # room for the largest frame
TASKS = 5000  # tasks of a lane in one frame; what rows on both sides of a cut share is computed twice

# kinds, master to worker
LANE, LOAD, UNLOAD, QUIT = 1, 2, 3, 4
# kinds, worker to master; TAKEN says that a LOAD was taken in, with its descriptor
HELLO, RESULT, RAISED, TAKEN = 11, 12, 13, 14
# kinds, parent of the workers to master; REFUSED says that no process could be forked
ENDED, REFUSED = 21, 22
# kinds, master to parent of the workers
FORK = 23

Frame = bytes | bytearray

_TASK = struct.Struct("<IId")  # slot, row, cost
_LANE = struct.Struct("<BBxxIQQdQQ")  # kind, has state, tasks, round, key, start, buffers, pickled bytes
_LOAD = struct.Struct("<BxxxIQQ")  # kind, buffers, key, pickled bytes
_BUFFER = struct.Struct("<QQ")  # offset, bytes
_RESULT = struct.Struct("<BxHIIIdQq")  # kind, form bytes, slot, row, sizes, seconds, round, offset or below 0
_SHORT = struct.Struct("<BxxxiQ")  # kind, a number, another
_ENDED = struct.Struct("<BxxxIIi")  # kind, number of the worker, process, status as of `waitpid`

_SIZE = struct.Struct("<d")

NOWHERE = -1  # offset of a payload that is in the frame
DEVICE = 1 << 62  # set in the offset of a ticket for memory of a device
ELSEWHERE = -2  # of one that stays with its worker, and is only announced


@dataclass(frozen=True, slots=True)
class LaneFrame:
    """Tasks of a round; the first one also brings the state, pickled; an empty pickle is the first of the buffers."""

    round: int
    key: int
    start: float
    state: Frame | None
    buffers: tuple[tuple[int, int], ...]
    tasks: list[tuple[int, int, float]]  # slot, row, cost


def pack_lane(
    round: int,
    key: int,
    start: float,
    tasks: Sequence[Task],
    state: bytes | None,
    buffers: Sequence[tuple[int, int]] = (),
) -> bytes:
    """Return a lane frame; `state` is pickled, its large arrays lie in the state memory at `buffers`."""
    listed = b"".join([_TASK.pack(task.slot, task.row, task.cost) for task in tasks])
    pickled = state or b""
    head = _LANE.pack(LANE, state is not None, len(tasks), round, key, start, len(buffers), len(pickled))
    return head + listed + b"".join(_BUFFER.pack(*buffer) for buffer in buffers) + pickled


def unpack_lane(frame: Frame) -> LaneFrame:
    """Return what `pack_lane` packed."""
    _, has_state, tasks, round, key, start, buffers, pickled = _LANE.unpack_from(frame)
    at = _LANE.size
    listed = list(_TASK.iter_unpack(frame[at : at + tasks * _TASK.size]))
    at += tasks * _TASK.size
    places = tuple(_BUFFER.unpack_from(frame, at + i * _BUFFER.size) for i in range(buffers))
    at += buffers * _BUFFER.size
    return LaneFrame(
        round,
        key,
        start,
        frame[at : at + pickled] if has_state else None,
        places,
        listed,
    )


def pack_load(key: int, pickled: int, buffers: Sequence[tuple[int, int]]) -> bytes:
    """Return a frame that announces a job's work, which lies in the memory that is passed along."""
    return _LOAD.pack(LOAD, len(buffers), key, pickled) + b"".join(_BUFFER.pack(*buffer) for buffer in buffers)


def unpack_load(frame: Frame) -> tuple[int, int, list[tuple[int, int]]]:
    """Return key, pickled bytes and buffers."""
    _, buffers, key, pickled = _LOAD.unpack_from(frame)
    return key, pickled, [_BUFFER.unpack_from(frame, _LOAD.size + i * _BUFFER.size) for i in range(buffers)]


def pack_result(
    round: int, slot: int, row: int, seconds: float, form: bytes, offset: int, sizes: Sequence[float] = ()
) -> bytes:
    """Return the head of a result frame; the payload follows, lies in shared memory at `offset`, or elsewhere.

    sizes: the largest number of each segment, where the worker has looked.
    """
    head = _RESULT.pack(RESULT, len(form), slot, row, len(sizes), seconds, round, offset) + form
    return head + b"".join(map(_SIZE.pack, sizes)) if sizes else head


def with_payload(head: bytes, form: bytes, segments: Sequence[NumberArray]) -> Frame:
    """Return a whole result frame: its head, and the segments after it as they lie in the layout of their form."""
    if len(segments) == 1:
        return head + segments[0].tobytes()
    frame = bytearray(head) + bytearray(trees.layout(form).nbytes)
    for target, segment in zip(trees.views(form, frame, len(head)), segments, strict=True):
        target[:] = segment
    return frame


def unpack_result(frame: Frame) -> tuple[int, int, int, float, bytes, int, int, tuple[float, ...]]:
    """Return round, slot, row, seconds, form, offset in shared memory, where a payload starts in the frame, sizes."""
    _, size, slot, row, told, seconds, round, offset = _RESULT.unpack_from(frame)
    end = _RESULT.size + size
    form = bytes(frame[_RESULT.size : end])
    if not told:
        return round, slot, row, seconds, form, offset, end, ()
    after = end + told * _SIZE.size
    return round, slot, row, seconds, form, offset, after, struct.unpack_from(f"<{told}d", frame, end)


def pack_short(kind: int, first: int = 0, second: int = 0) -> bytes:
    """Return a frame of two numbers."""
    return _SHORT.pack(kind, first, second)


def unpack_short(frame: Frame) -> tuple[int, int]:
    """Return the two numbers of a frame."""
    _, first, second = _SHORT.unpack_from(frame)
    return first, second


def pack_ended(worker: int, pid: int, status: int) -> bytes:
    """Return a frame that says how a worker's process ended."""
    return _ENDED.pack(ENDED, worker, pid, status)


def unpack_ended(frame: Frame) -> tuple[int, int, int]:
    """Return the worker's number, its process, and the status."""
    _, worker, pid, status = _ENDED.unpack(frame)
    return worker, pid, status


def pack_raised(round: int, cause: Cause) -> bytes:
    """Return a frame that says that a task raised."""
    return _SHORT.pack(RAISED, 0, round) + raised.packed(cause, most=INLINE // 2)


def unpack_raised(frame: Frame) -> tuple[int, Cause]:
    """Return round and cause."""
    return _SHORT.unpack_from(frame)[2], raised.unpacked(bytes(frame[_SHORT.size :]))
