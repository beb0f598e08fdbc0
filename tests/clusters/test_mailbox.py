"""Frames to a worker that is behind: they wait for room, in their order, and none is lost."""

import os
import select
import socket
import sys

import pytest

from echelon.clusters.mailbox import Mailbox

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="worker processes need Linux")


@pytest.fixture
def ends():
    """Return a mailbox and the socket that its frames come out of."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with select.epoll() as epoll, ours, theirs:
        for end in (ours, theirs):
            end.setblocking(False)
        epoll.register(ours, select.EPOLLIN)
        yield Mailbox(0, 0, ours, None, epoll), theirs


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


def test_a_descriptor_that_waits_for_room_is_closed_when_it_was_sent_or_discarded(ends):
    mailbox, link = ends
    fill(mailbox)
    waiting = [os.open(os.devnull, os.O_RDONLY) for _ in range(2)]
    mailbox.send(0, b"first", [waiting[0]])
    assert os.fstat(waiting[0])
    received(link)
    mailbox.flush()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(waiting[0])
    fill(mailbox)
    mailbox.send(0, b"second", [waiting[1]])
    mailbox.discard()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(waiting[1])
