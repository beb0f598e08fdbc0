"""Frames to a worker that is behind: they wait for room, in their order, and none is lost."""

import contextlib
import errno
import os
import select
import socket
import sys

import pytest

from echelon.clusters.mailbox import LOADS, Mailbox
from echelon.clusters.shipping import Packed
from tests.clusters.test_processes import descriptors, opened

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="worker processes need Linux")


@pytest.fixture
def ends():
    """Return a mailbox and the socket that its frames come out of."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with select.epoll() as epoll, ours, theirs:
        for end in (ours, theirs):
            end.setblocking(False)
        epoll.register(ours, select.EPOLLIN)
        yield Mailbox(0, 0, ours, None, epoll, set()), theirs


def received(link):
    found = []
    try:
        while True:
            found.append(link.recv(1 << 17))
    except BlockingIOError:
        return found


def frame(number):
    return f"{number:06d}".encode() + bytes(4000)


def fill(mailbox):
    """Send until there is no room, and two frames more; return how many."""
    count = 0
    while not mailbox.full:
        mailbox.send(count + 1, frame(count))
        count += 1
    for _ in range(2):
        mailbox.send(count + 1, frame(count))
        count += 1
    return count


def test_frames_to_a_full_socket_wait_for_room_and_come_in_their_order(ends):
    mailbox, link = ends
    count = fill(mailbox)
    found = received(link)
    assert len(found) == count - 3
    mailbox.flush()
    found += received(link)
    assert found == [frame(number) for number in range(count)]
    assert not mailbox.full


def test_only_lanes_of_rounds_that_are_over_are_dropped(ends):
    mailbox, link = ends
    count = fill(mailbox)
    mailbox.send(0, b"work")
    mailbox.forget(over=count - 1)
    sent = len(received(link))
    mailbox.flush()
    assert sent == count - 3
    assert received(link) == [frame(count - 1), b"work"]


def loads(link):
    """Return the frames that came with a descriptor, which is closed again."""
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            frame, descriptors, _, _ = socket.recv_fds(link, 1 << 17, 1)
            for descriptor in descriptors:
                os.close(descriptor)
                found.append(frame)
    return found


def test_only_so_many_descriptors_are_under_way_and_the_rest_wait_for_the_worker_in_their_turn(ends):
    mailbox, link = ends
    sent = [f"load {key}".encode() for key in range(LOADS + 2)]
    for key, frame in enumerate(sent):
        mailbox.load(key, frame, Packed(key))
    mailbox.send(1, b"lane")
    assert loads(link) == sent[:LOADS]
    assert len(mailbox.outbox) == 3
    mailbox.taken()
    assert loads(link) == sent[LOADS : LOADS + 1]
    mailbox.taken()
    assert loads(link) == sent[LOADS + 1 :]
    assert not mailbox.outbox


def test_a_worker_that_does_not_read_costs_no_descriptor_for_what_is_no_longer_needed(ends):
    """A load that was not sent yet is dropped when its end comes; for one that was sent, the end is sent, too."""
    mailbox, link = ends
    before = descriptors()
    for key in range(500):
        mailbox.load(key, f"load {key}".encode(), Packed(key))
        if key >= 2:
            mailbox.unload(key, f"unload {key}".encode())
    assert not opened(before)
    assert [frame for _, frame, _ in mailbox.outbox] == []
    assert loads(link)[:2] == [b"load 0", b"load 1"]


def test_where_the_kernel_has_too_few_descriptors_under_way_the_frame_is_kept_for_later(ends, monkeypatch):
    mailbox, link = ends

    def refuse(*_):
        raise OSError(errno.ETOOMANYREFS, "Too many references: cannot splice")

    with monkeypatch.context() as patched:
        patched.setattr(socket, "send_fds", refuse)
        mailbox.load(7, b"load", Packed(7))
        mailbox.send(1, b"lane")
    assert mailbox in mailbox._short
    assert received(link) == []
    mailbox.flush()
    assert received(link) == [b"load", b"lane"]
