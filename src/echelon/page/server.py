"""The server of the page: HTTP on this machine, for those who have the token."""

import logging
import secrets
import socket
from collections.abc import Iterator
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from ipaddress import ip_address
from threading import BoundedSemaphore, Event, Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from echelon.errors import ArgumentError
from echelon.page.head import BadHead, read_head
from echelon.page.one_file import html
from echelon.page.showing import EVERY_S, Showing, as_json

log = logging.getLogger("echelon.page")

READERS = 32  # connections at a time
SEND_S = 10.0  # for which a reader may take nothing, before it is left
BEAT_S = 5.0  # between signs of life to readers that have nothing new to be told
_BUFFER = 2**18  # bytes on their way to a reader
_ENDS_S = 2.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class PageServer:
    """Serves a page until it is closed; each reader has a thread of its own, which nobody waits for.

    address, port: where to listen; port 0 is any that is free. Beyond this machine only if the address says so.
    url: the page, with the token that every request must have.
    """

    def __init__(self, showing: Showing, address: str = "127.0.0.1", port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        kind = type("_Server", (_Server,), {"address_family": family})
        try:
            self._server: _Server = kind((address, port), _Reader)
        except (OSError, OverflowError) as error:
            said = getattr(error, "strerror", None) or error
            raise ArgumentError(f"page: '{address}:{port}' is not allowed; {said}") from None
        self._server.showing, self._server.token = showing, self.token
        self.port = int(self._server.server_address[1])
        self._server.hosts = _hosts(address)
        name = address if address in LOOPBACK else socket.gethostname()
        self.url = f"http://{f'[{name}]' if ':' in name else name}:{self.port}/?token={self.token}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="echelon-page-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and leave all readers when they have been sent the last state, or soon."""
        if self._server.closing.is_set():
            return
        self._server.closing.set()
        self._server.shutdown()
        self._thread.join(_ENDS_S)
        self._server.server_close()
        for _ in range(READERS):  # every reader has gone when all seats are free
            if not self._server.seats.acquire(timeout=_ENDS_S):
                break


def _hosts(address: str) -> set[str]:
    """Return the names by which the server may be called."""
    if address in LOOPBACK:
        return {*LOOPBACK, "[::1]"}
    return {address, f"[{address}]", socket.gethostname().lower(), socket.getfqdn().lower(), *LOOPBACK}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = READERS
    showing: Showing
    token: str
    hosts: set[str]

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self.seats, self.closing = BoundedSemaphore(READERS), Event()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a reader a thread, or refuse it where there are too many."""
        if self.seats.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with suppress(OSError):
            request.settimeout(0.1)
            request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a reader, and give its seat free."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.seats.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what a reader's request raised; that it has gone is no news."""
        log.debug("a reader of the page was left", exc_info=True)


class _Reader(BaseHTTPRequestHandler):
    server: _Server
    server_version = "echelon"
    sys_version = ""
    pages: ClassVar[dict[str, str]] = {"/": "page", "/events": "events", "/what-if": "what_if", "/metrics": "metrics"}

    def handle(self) -> None:
        """Read one request and answer it."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        self.requestline = self.command = ""
        try:
            head = read_head(self.connection)
        except BadHead as error:
            self._say(error.status, str(error))
            return
        self.connection.settimeout(SEND_S)
        self.rfile = BytesIO(head)
        self.handle_one_request()

    def do_GET(self) -> None:
        """Answer with the page, its events, a replay or metrics; only to those who have the token."""
        asked = urlsplit(self.path)
        if not self._known_host():
            self._say(403, "this page is not served under that host name; use the address that was printed")
        elif not compare_digest(self._token(asked.query).encode(), self.server.token.encode()):
            self._say(403, "the token is missing or wrong; use the address that was printed, with its token")
        elif asked.path not in self.pages:
            self._say(404, "there is no such page")
        else:
            getattr(self, f"_{self.pages[asked.path]}")()

    def _known_host(self) -> bool:
        host, colon, port = self.headers.get("Host", "").rpartition(":")
        if not colon:
            host, port = port, "80"  # which browsers leave out
        if port != str(self.server.server_port):
            return False
        return host.lower() in self.server.hosts or (not self.server.hosts <= _LOCAL and _is_address(host))

    def _token(self, query: str) -> str:
        said = self.headers.get("Authorization", "")
        if said.startswith("Bearer "):
            return said.removeprefix("Bearer ")
        return parse_qs(query).get("token", [""])[0]

    # pages

    def _page(self) -> None:
        self._send(200, "text/html; charset=utf-8", html(None, title=self.server.showing.title))

    def _metrics(self) -> None:
        if self.server.showing.metrics is None:
            self._say(404, "this run has no metrics: they are counted by streams, and not kept in records")
            return
        kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
        self._send(200, kind, self.server.showing.metrics())

    def _what_if(self) -> None:
        try:
            self._send(200, "application/json", as_json(self.server.showing.replay()))
        except ArgumentError as error:
            self._say(503, str(error))

    def _events(self) -> None:
        showing = self.server.showing
        showing.join()
        try:
            self._begin(200, "text/event-stream; charset=utf-8")
            for event in self._told(showing):
                self.wfile.write(event.encode())
        except OSError:
            pass  # the reader has gone, or takes nothing
        finally:
            showing.leave()

    def _told(self, showing: Showing) -> Iterator[str]:
        last = self.headers.get("Last-Event-ID", "")
        number, shown, quiet_s, over = int(last) if last.isdecimal() else 0, 0, 0.0, False
        while not over:
            over = showing.over or self.server.closing.is_set()
            count, state = showing.state(shown, EVERY_S)
            rounds, number, lost = showing.rounds.since(number)
            if lost and last:
                yield f"event: gap\ndata: {lost}\n\n"
            last = last or "0"
            if rounds:
                yield f"id: {number}\nevent: rounds\ndata: [{','.join(rounds)}]\n\n"
            quiet_s = 0.0 if rounds or count > shown else quiet_s + EVERY_S
            if count > shown:
                shown = count
                yield f"event: state\ndata: {state}\n\n"
            elif quiet_s >= BEAT_S:
                quiet_s = 0.0
                yield ": still there\n\n"

    # answers

    def _say(self, status: int, text: str) -> None:
        self._send(status, "text/plain; charset=utf-8", f"{status} {HTTPStatus(status).phrase}: {text}\n")

    def _send(self, status: int, kind: str, text: str) -> None:
        body = text.encode("utf-8", "replace")
        with suppress(OSError):
            self._begin(status, kind, len(body))
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request that this server knows, in words as all refusals have them."""
        self._say(code, message or "this is no request that can be answered")

    def _begin(self, status: int, kind: str, size: int | None = None) -> None:
        self.request_version = "HTTP/1.0"  # also to requests that say none, or nonsense: they get a head, too
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if size is not None:
            self.send_header("Content-Length", str(size))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *values: Any) -> None:
        """Log what was asked for, without the token."""
        log.debug("page: %s", (format % values).replace(self.server.token, "..."))


_LOCAL = {*LOOPBACK, "[::1]"}
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Connection": "close",
}


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
