"""The beginning and the end of an MPI run: ranks work for rank 0 until its program ends, and end with it."""

import atexit
import os
import signal
import sys
import time
from threading import current_thread, main_thread
from typing import Any

import numpy as np

from echelon import trees
from echelon.clusters import frames
from echelon.clusters.mpi_inbox import BYE, CLOSE
from echelon.clusters.mpi_link import MASTER, Link, Patience, joined
from echelon.clusters.mpi_plane import SUMMED, Summed, unpacked
from echelon.clusters.mpi_sums import drop
from echelon.clusters.mpi_worker import FOLLOWS, serve

_GRACE_S = 30.0  # how long ranks may take to end with the program; one that computes a part is ended after a second
_attended: list[Link] = []  # the link of rank 0, once the others work for it


def join() -> Link:
    """Take part in the run: return on rank 0; on any other rank work until rank 0 ends, then end this program, too."""
    link = joined()
    if link.rank != MASTER:
        serve(link)
    if not _attended:
        _attended.append(link)
        atexit.register(_dismiss, link)
        _explain_termination()
    return link


def _dismiss(link: Link) -> None:
    """End all workers with this program: MPI ends when every rank has."""
    link.lock.acquire()  # never released: a stream left open may still poll
    left = set(range(1, link.size)) - link.lost
    for rank in left:
        if link.user is not None:
            link.send(rank, link.streams, frames.pack_short(CLOSE))
        link.tell_the_end(rank)
    end, patience = time.monotonic() + _GRACE_S, Patience()
    late: list[Any] = []
    while left - link.lost or not link.flush():
        try:
            found = link.receive()
        except link.mpi.Exception as error:
            link.news_of_loss(error)
            continue
        if found is not None:
            rank, _, frame = found
            if frame[0] == BYE:
                left.discard(rank)
            elif frame[0] == frames.RESULT:
                late.append(following(link, rank, frames.unpack_result(frame)))
            elif frame[0] == SUMMED:
                drop(link, rank, Summed(*unpacked(frame)))
        elif time.monotonic() > end:
            print(
                f"echelon: ranks {sorted(left - link.lost)} do not end, and the run is aborted, with exit code 1",
                file=sys.stderr, flush=True,
            )  # fmt: skip
            link.comm.Abort(1)
        else:
            patience.wait(1.0)
    link.end()


def _explain_termination() -> None:
    """Say what happened when the launcher ends this program, which it does when another rank has died."""
    if current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)


def _terminated(number: int, frame: Any) -> None:
    text = (
        "echelon: this run is being ended from outside; mpiexec does so when a rank has died, and says which one. The "
        "jobs of a stream with a journal go on when the program is started again. With 'mpiexec --with-ft ulfm' (Open "
        "MPI) the other ranks go on without it.\n"
    )
    os.write(2, text.encode())
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def following(link: Link, rank: int, result: tuple[Any, ...], memory: Any = None) -> tuple[Any, list[Any]]:
    """Begin to receive the payload that follows a result's frame, if one does; return memory and requests."""
    form, offset = result[4], result[5]
    if offset != FOLLOWS:
        return None, []
    layout = trees.layout(form)
    if memory is None:
        memory = np.empty(layout.nbytes, dtype=np.uint8)
    places = [(segment.offset, segment.count * segment.dtype.itemsize) for segment in layout.segments]
    return memory, link.collect(rank, memory, places)
