"""The head of a request, read from a socket within a time and a size."""

import socket
import time

MOST = 16_384  # bytes of a head
HEAD_S = 5.0  # for all of it, however slowly it comes
_DRAINED, _DRAIN_S = 4 * 2**20, 2.0  # of what comes beyond a head that is too large, so that the refusal can be read


class BadHead(Exception):
    """A head that is refused; status: as HTTP has it."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


def read_head(connection: socket.socket, within_s: float = HEAD_S) -> bytes:
    """Return the head of a request, with the empty line that ends it; b"" if nothing came before the other side closed.

    >>> ours, theirs = socket.socketpair()
    >>> theirs.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    >>> read_head(ours)
    b'GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'
    >>> theirs.sendall(b"GET / HT")
    >>> read_head(ours, within_s=0.01)
    Traceback (most recent call last):
    ...
    echelon.page.head.BadHead: the request did not come to its end in 0.01 s
    >>> ours.close(), theirs.close()
    (None, None)
    """
    until, head = time.monotonic() + within_s, b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        left = until - time.monotonic()
        try:
            connection.settimeout(max(left, 1e-3))
            more = connection.recv(4096)
        except TimeoutError:
            more, left = b"", 0.0
        if left <= 0:
            raise BadHead(408, f"the request did not come to its end in {within_s:g} s")
        if not more:
            if head:
                raise BadHead(400, "the request broke off")
            return b""
        head += more
        if len(head) > MOST:
            _drain(connection)
            raise BadHead(431, f"the head of the request is longer than {MOST} bytes")
    return head


def _drain(connection: socket.socket) -> None:
    """Take in what still comes, for a while: an answer to what was not read would be lost with the connection."""
    until, drained = time.monotonic() + _DRAIN_S, 0
    connection.settimeout(0.2)
    try:
        while drained < _DRAINED and time.monotonic() < until:
            more = len(connection.recv(65_536))
            if not more:
                return
            drained += more
    except OSError:
        return
