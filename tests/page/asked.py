"""Requests to a page, as plain as they go over the wire."""

import json
import socket
import time
from contextlib import closing, suppress
from urllib.parse import urlsplit

LONGEST_S = 30.0


def answer(url, path=None, *, host=None, method="GET", headers=(), token=True, timeout=10.0):
    """Return status, headers and text of an answer; `path` replaces that of the address."""
    parts = urlsplit(url)
    where = path if path is not None else parts.path
    where += f"?{parts.query}" if token else ""
    lines = [f"{method} {where} HTTP/1.1", f"Host: {parts.netloc if host is None else host}", *headers]
    return raw(url, "\r\n".join([*lines, "", ""]).encode(), timeout)


def raw(url, request, timeout=10.0):
    """Send bytes, and return what is answered until the other side closes."""
    with closing(connected(url, timeout)) as connection:
        with suppress(OSError):  # where it is refused before all of it was sent
            connection.sendall(request)
        found = b""
        while more := connection.recv(65_536):
            found += more
    return parsed(found)


def parsed(found):
    head, _, text = found.partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    return int(first.split()[1]), dict(field.split(": ", 1) for field in fields), text.decode()


def connected(url, timeout=10.0):
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout)


class Events:
    """Events of a page, read one at a time."""

    def __init__(self, url, headers=(), timeout=20.0):
        parts = urlsplit(url)
        self._connection = connected(url, timeout)
        lines = [f"GET /events?{parts.query} HTTP/1.1", f"Host: {parts.netloc}", *headers, "", ""]
        self._connection.sendall("\r\n".join(lines).encode())
        self._file = self._connection.makefile("rb")
        while self._file.readline().strip():
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()
        self._connection.close()

    def __iter__(self):
        fields = {}
        for line in self._file:
            line = line.decode().rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                yield fields.get("event"), json.loads(fields.get("data", "null"))
                fields = {}

    def until(self, wanted):
        """Return the first state for which something holds, and the rounds that came until then."""
        rounds, until = [], time.monotonic() + LONGEST_S
        for kind, value in self:
            if time.monotonic() > until:
                break
            if kind == "rounds":
                rounds += value
            elif kind == "state" and wanted(value):
                return value, rounds
        raise AssertionError("that was not seen")
