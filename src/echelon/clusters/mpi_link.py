"""One rank's end of an MPI run: frames and raw buffers that leave and arrive, without ever waiting for the other side.

A message is one frame, whose tag is the number of the stream it belongs to; buffers that it announces follow on a
communicator of their own. MPI keeps messages of two ranks in order, so what was announced first comes first. The
receive for the next frame is always posted: asking whether it came is one cheap call. What ranks send each other has a
third communicator, and one tag per operation.
"""

import contextlib
import os
import pickle
import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cache, partial
from threading import Event, RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from echelon.clusters import frames, shipping
from echelon.errors import ClusterError

if TYPE_CHECKING:
    from mpi4py import MPI

_TOLERANT = "OMPI_MCA_mpi_ft_enable"  # what Open MPI's launcher sets for ``--with-ft ulfm``
# MPI ends without its last fence, in which it now and then waits for ranks that died (Open MPI 5.0); ours is enough
_NO_FENCE = "OMPI_MCA_async_mpi_finalize"
# where all ranks are on one host they talk through its memory; Open MPI would listen on all interfaces all the same
_LOCAL, _ALL_RANKS = "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"
_TRANSPORTS, _NO_TCP = "OMPI_MCA_btl", "^tcp"
LEAVE = 1  # the tag of frames about the end; streams have theirs from 2 on
_BUFFER, _LONG, _END = 0, 1, 2  # tags on the other communicator: of buffers, frames too long for a post, the end
_ROOM = 128 * 1024  # bytes of the longest frame that is received as it is
SHORT = 4000  # bytes that every MPI library takes without asking the other side first
_OPERATIONS = 1 << 24  # tags of operations, used again after so many
_LONGEST = 1 << 30  # bytes of one message: MPI counts in C's int
_SPIN_S, _SHORTEST_S, _SLEEP_S = 5e-4, 2e-5, 1e-3
_yield = getattr(os, "sched_yield", partial(time.sleep, 0))

MASTER = 0  # the rank
_NOBODY = -99  # no rank, and none of MPI's own numbers

Places = Sequence[tuple[int, int]]  # offset and bytes of buffers in a memory


def library() -> ModuleType:
    """Return mpi4py's MPI; importing it takes part in the run that `mpiexec` started."""
    if _tolerant():
        os.environ.setdefault(_NO_FENCE, "1")
    if _LOCAL in os.environ and os.environ[_LOCAL] == os.environ.get(_ALL_RANKS):
        os.environ.setdefault(_TRANSPORTS, _NO_TCP)
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the package is missing, or the MPI library beside it
        raise ClusterError(
            f"cluster='mpi' needs mpi4py and an MPI library: pip install 'echelon-compute[mpi]' ({error})"
        ) from error
    return MPI


def _tolerant() -> bool:
    """Return whether the launcher lets ranks go on after another one died."""
    return os.environ.get(_TOLERANT, "0") not in ("0", "false")


@cache
def joined() -> "Link":
    """Return this process's end of the run, which is the same for all its streams."""
    mpi = library()
    if mpi.COMM_WORLD.size < 2:
        raise ClusterError(
            "cluster='mpi' needs at least two ranks, a master and a worker, and this program is the only one: start it "
            "with 'mpiexec -n 6 python FILE.py' or 'mpiexec -n 6 echelon run FILE.py:NAME --cluster mpi'"
        )
    if mpi.Query_thread() < mpi.THREAD_SERIALIZED:
        raise ClusterError("cluster='mpi' needs MPI's thread level 'serialized' or 'multiple' (mpi4py.rc.thread_level)")
    return Link(mpi)


class Link:
    """Sends and receives for one rank; hold the lock to call MPI.

    tolerant: whether the launcher lets the others go on after a rank died.
    lost: ranks that died.
    leaving: set when large buffers were sent, which may leave only during calls of MPI.
    nbytes: bytes that this rank has sent and received, or begun to.
    """

    def __init__(self, mpi: ModuleType) -> None:
        self.mpi = mpi
        # three of our own: the program's own messages are not taken for ours, nor buffers for frames
        self.comm: MPI.Intracomm = mpi.COMM_WORLD.Dup()
        self._beside: MPI.Intracomm = mpi.COMM_WORLD.Dup()
        self._plane: MPI.Intracomm = mpi.COMM_WORLD.Dup()
        for comm in (self.comm, self._beside, self._plane):
            comm.Set_errhandler(mpi.ERRORS_RETURN)
        self.rank, self.size = self.comm.rank, self.comm.size
        self.tolerant = _tolerant()
        self.lost: set[int] = set()
        self.lock = RLock()
        self.leaving = Event()
        self.streams = LEAVE  # the tag of the last stream that was opened
        self.user: Any = None  # the cluster that is open
        self.nbytes = 0
        self._operations = 0
        # the other rank, the request, the memory it uses
        self._under_way: deque[tuple[int, MPI.Request, Any]] = deque()
        self._stuck: list[tuple[int, MPI.Request, Any]] = []  # the same, to ranks that were given up: MPI may read it
        self._forsaken: list[tuple[MPI.Request, Any]] = []  # receives whose memory nobody wants any more
        self._status: MPI.Status = mpi.Status()
        self._room = memoryview(bytearray(_ROOM))
        source = mpi.ANY_SOURCE if self.rank == MASTER else MASTER
        self._posted: MPI.Prequest = self.comm.Recv_init(self._room, source, mpi.ANY_TAG)
        self._posted.Start()
        self._came = False  # whether the posted frame is there and not taken yet
        self._trouble: Exception | None = None  # what the last look met instead

    def send(self, rank: int, tag: int, frame: Any, buffers: Sequence[Any] = ()) -> None:
        """Send a frame and the buffers of bytes it announces; none may change until it has left."""
        with self.lock:
            if len(frame) > _ROOM:
                self._start(self._beside, rank, _LONG, frame)
                frame = b""
            self._start(self.comm, rank, tag, frame)
            for buffer in buffers:
                for piece in _pieces(memoryview(buffer)):
                    self._start(self._beside, rank, _BUFFER, piece)
            if buffers and self._under_way:
                self.leaving.set()

    def post(self, rank: int, tag: int, frame: Any) -> None:
        """Send a frame that is short enough for MPI to take it as it is; waits only if the other side is far behind."""
        self.nbytes += len(frame)
        try:
            with self.lock:
                self.comm.Send(frame, rank, tag)
        except self.mpi.Exception as error:
            self._check(error)

    def _start(self, comm: "MPI.Intracomm", rank: int, tag: int, data: Any) -> None:
        self.nbytes += len(data)
        try:
            request = comm.Isend(data, rank, tag)
            # what is short has left by now; a look at anything longer would be too early, and each look may yield
            if len(data) > SHORT or not request.Test():
                self._under_way.append((rank, request, data))
        except self.mpi.Exception as error:
            self._check(error)

    def flush(self) -> bool:
        """Release what has left, up to the first that has not; return whether that was all."""
        under_way = self._under_way
        if under_way:
            with self.lock:
                while under_way and ((over := self.over(under_way[0][1])) or under_way[0][0] in self.lost):
                    _, request, memory = under_way.popleft()
                    if not over:  # what goes to a rank that died, or comes from it, may never end
                        self._forsaken.append((request, memory))
        if self._forsaken:
            with self.lock:
                self._forsaken = [entry for entry in self._forsaken if not self.over(entry[0])]
        return not under_way

    def keep(self, rank: int, requests: "Iterable[MPI.Request]", memory: Any) -> None:
        """Hold a memory until the requests that use it have ended."""
        with self.lock:
            self._under_way += [(rank, request, memory) for request in requests]

    def give_up(self, rank: int) -> None:
        """Wait no longer for what was sent to a rank that does not take it."""
        with self.lock:
            self._stuck += [entry for entry in self._under_way if entry[0] == rank]
            self._under_way = deque(entry for entry in self._under_way if entry[0] != rank)

    def over(self, request: "MPI.Request") -> bool:
        """Return whether a request has ended, well or because the other side died."""
        try:
            with self.lock:
                return request.Test()
        except self.mpi.Exception as error:
            self._check(error)
            return True

    def receive(self) -> tuple[int, int, bytearray] | None:
        """Return sender, tag and bytes of the next frame, if one has arrived; an error if a rank died.

        The master receives from all ranks, every other rank from the master.
        """
        with self.lock:
            status = self._status
            trouble, self._trouble = self._trouble, None
            if trouble is not None:
                raise trouble
            if not self._came and not self._look():
                return None
            self._came = False
            source, tag, size = status.source, status.tag, status.count
            try:
                frame = bytearray(self._room[:size]) if size else self._long(source)
            finally:
                self._posted.Start()
            self.nbytes += len(frame)
            return source, tag, frame

    def _look(self) -> bool:
        """Return whether the posted frame is there; an error if a rank died."""
        status = self._status
        status.source = _NOBODY
        try:
            return self._posted.Test(status)
        except self.mpi.Exception:
            # Open MPI 5.0 leaves the error of a death that is known by now with the next frame, which is good
            if status.source == _NOBODY:
                raise
            return True

    def _long(self, source: int) -> bytearray:
        """Return a frame that was too long for the post; it was sent before its empty stand-in."""
        status = self.mpi.Status()
        message = self._beside.Mprobe(source, _LONG, status)
        frame = bytearray(status.count)
        message.Recv(frame)
        return frame

    def spin(self, seconds: float, bell: Event | None = None) -> None:
        """Look for a frame again and again, at most this long, until one comes, the bell rings, or a rank dies."""
        end = time.monotonic() + seconds
        with self.lock:
            while not (self._came or (bell is not None and bell.is_set()) or time.monotonic() > end):
                try:
                    self._came = self._look()
                except self.mpi.Exception as error:
                    self._trouble = error  # for the next receive
                    return
                if not self._came:
                    _yield()

    def tell_the_end(self, rank: int) -> None:
        """Let a worker know that the program has ended, even one that is in the middle of a part."""
        with self.lock:
            self._start(self._beside, rank, _END, b"")
        self.send(rank, LEAVE, frames.pack_short(frames.QUIT))

    def told_to_leave(self) -> bool:
        """Return whether the master's program has ended."""
        with self.lock:
            return self._beside.Iprobe(MASTER, _END)

    def end(self) -> None:
        """Stop waiting for frames, as MPI requires before the end."""
        with self.lock:
            self._posted.Cancel()
            self._posted.Wait()
            for request, _ in self._forsaken:
                request.Cancel()

    # what ranks send each other

    def new_operation(self) -> int:
        """Return the tag of a new operation; on the master only, so that no two are the same."""
        self._operations = self._operations % _OPERATIONS + 1
        return self._operations

    def ship(self, rank: int, operation: int, data: Any) -> "MPI.Request | None":
        """Begin to send bytes of an operation, which must not change until they have left; None if nobody is there."""
        self.nbytes += len(data)
        try:
            with self.lock:
                return self._plane.Isend(data, rank, operation)
        except self.mpi.Exception as error:
            self._check(error)
            return None

    def expect(self, rank: int, operation: int, memory: Any) -> "MPI.Request | None":
        """Begin to receive bytes of an operation; None if nobody is there to send them."""
        self.nbytes += len(memory)
        try:
            with self.lock:
                return self._plane.Irecv(memory, rank, operation)
        except self.mpi.Exception as error:
            self._check(error)
            return None

    def came(self, request: "MPI.Request") -> bool | None:
        """Return whether what a receive waits for is there; None if it never will be, because its sender died."""
        try:
            with self.lock:
                return request.Test()
        except self.mpi.Exception as error:
            self._check(error)
            return None

    def forsake(self, request: "MPI.Request", memory: Any, *, cancel: bool = True) -> bool:
        """Give up a receive; return whether it is over. Else MPI may still write, and the memory is kept for that."""
        with self.lock:
            if cancel and request:
                with contextlib.suppress(self.mpi.Exception):
                    request.Cancel()
            if self.over(request):
                return True
            self._forsaken.append((request, memory))
            return False

    def collect(self, source: int, memory: Any, places: Places) -> "list[MPI.Request]":
        """Begin to receive buffers that were announced, into a memory; to be called before the next `receive`."""
        view = memoryview(memory)
        self.nbytes += sum(size for _, size in places)
        with self.lock:
            return [
                self._beside.Irecv(piece, source, _BUFFER)
                for at, size in places
                for piece in _pieces(view[at : at + size])
            ]

    def news_of_loss(self, error: Exception) -> set[int]:
        """Return the ranks newly found to have died; an error of another kind is raised again."""
        self._check(error)
        with self.lock:
            self.comm.Ack_failed()  # first: a later death raises another error
            group = self.comm.Get_failed()
            found = set(group.Translate_ranks(list(range(group.size)), self.comm.Get_group())) - self.lost
        self.lost |= found
        return found

    def _check(self, error: Any) -> None:
        if error.Get_error_class() not in (self.mpi.ERR_PROC_FAILED, self.mpi.ERR_PROC_FAILED_PENDING):
            raise ClusterError(f"MPI: {error.Get_error_string()}") from error


def _pieces(view: memoryview) -> list[memoryview]:
    if view.nbytes <= _LONGEST:
        return [view]
    return [view[at : at + _LONGEST] for at in range(0, view.nbytes, _LONGEST)]


class Patience:
    """Waits for what may come at any moment: at first it only yields, then it sleeps, up to a millisecond at a time.

    link: the link whose next frame is awaited, if any.
    """

    def __init__(self, link: Link | None = None) -> None:
        self._since, self._link = time.monotonic(), link
        self._pause = _SHORTEST_S

    def wait(self, most_s: float, bell: Event | None = None, *, moving: bool = False) -> None:
        """Wait a little, at most this long; a bell ends it.

        moving: whether bytes are under way, which may move only during calls of MPI: then waits stay short.
        """
        if time.monotonic() - self._since < _SPIN_S:
            if self._link is None or moving:
                _yield()
            else:
                self._link.spin(min(most_s, _SPIN_S), bell)
            return
        pause = _SHORTEST_S if moving else min(self._pause, most_s)
        self._pause = min(1.5 * self._pause, _SLEEP_S)
        if bell is None:
            time.sleep(pause)
        else:
            bell.wait(pause)


class Parcel:
    """A value on its way to all workers: a pickle, with large arrays beside it, which are copied where asked.

    >>> Parcel({"weights": [1, 2]}).value
    {'weights': [1, 2]}
    """

    def __init__(self, value: Any, *, copy: bool = True) -> None:
        self.pickled, beside = shipping.pack(value)
        self.places, self.size = shipping.place(beside, len(self.pickled))
        self.buffers: list[Any] = [bytes(buffer) for buffer in beside] if copy else list(beside)

    @property
    def value(self) -> Any:
        """The value, to be read only."""
        return pickle.loads(self.pickled, buffers=self.buffers)
