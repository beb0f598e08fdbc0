"""Who may see a page, what is refused, and that nobody holds up anybody."""

import json
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from echelon.errors import ArgumentError
from echelon.page import head, server
from echelon.page.ring import Ring
from echelon.page.server import PageServer
from echelon.page.showing import Showing, as_json
from tests.page.asked import Events, answer, connected, parsed, raw
from tests.page.test_board import begun, one_round


class Shown:
    """A page of a few rounds, put out by the test itself."""

    def __init__(self, rounds=3, address="127.0.0.1", metrics=None):
        self.board = begun(*(one_round(number) for number in range(rounds)))
        self.showing = Showing("a run", metrics)
        self.server = PageServer(self.showing, address)
        self.url = self.server.url

    def put(self, *, over=False):
        self.showing._next_s = 0.0
        self.showing.put(self.board, lambda: self.board.state(title="a run"), over=over)

    def close(self):
        self.server.close()


@pytest.fixture
def shown():
    with closing(Shown()) as page:
        yield page


def test_the_page_is_there_for_those_who_have_the_token(shown):
    status, fields, text = answer(shown.url)
    assert (status, fields["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "<!doctype html>" in text.lower()
    assert fields["Cache-Control"] == "no-store"
    assert answer(shown.url, token=False, headers=[f"Authorization: Bearer {shown.server.token}"])[0] == 200


@pytest.mark.parametrize("path", ["/", "/events", "/what-if", "/metrics", "/../../etc/passwd", "/nothing"])
def test_without_the_token_everything_is_forbidden(shown, path):
    for refused in (
        answer(shown.url, path, token=False),
        answer(shown.url, f"{path}?token=", token=False),
        answer(shown.url, f"{path}?token={shown.server.token[:-1]}", token=False),
        answer(shown.url, f"{path}?token=%ff%00", token=False),
        answer(shown.url, path, token=False, headers=["Authorization: Bearer no"]),
    ):
        assert refused[0] == 403
        assert "the token is missing or wrong; use the address that was printed" in refused[2]


OTHERS = ["evil.example", "evil.example:{port}", "127.0.0.1:1", "", "127.0.0.1.evil.example:{port}", "10.0.0.1:{port}"]


@pytest.mark.parametrize("host", OTHERS)
def test_another_host_name_is_forbidden_even_with_the_token(shown, host):
    status, _, text = answer(shown.url, host=host.format(port=shown.server.port))
    assert status == 403
    assert "not served under that host name" in text


@pytest.mark.parametrize("host", ["localhost:{port}", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}"])
def test_this_machine_has_several_names(shown, host):
    assert answer(shown.url, host=host.format(port=shown.server.port))[0] == 200


PATHS = ["/../page.py", "/..%2f..%2fetc/passwd", "//etc/passwd", "/page.css", "/events/../..", "http://a/b"]


@pytest.mark.parametrize("path", PATHS)
def test_there_are_no_files_to_be_had_by_any_path(shown, path):
    assert answer(shown.url, path)[0] == 404


def test_other_methods_and_other_languages_are_refused(shown):
    assert answer(shown.url, method="POST")[0] == 501
    assert answer(shown.url, method="DELETE")[0] == 501
    assert raw(shown.url, b"\x16\x03\x01 hello\r\n\r\n")[0] == 400
    assert raw(shown.url, b"GET / HTTP/9.9\r\n\r\n")[0] == 505


def test_a_megabyte_of_headers_is_refused_in_words(shown):
    request = b"GET / HTTP/1.1\r\n" + b"X-Long: " + b"a" * 2**20
    status, _, text = raw(shown.url, request)
    assert status == 431
    assert "longer than 16384 bytes" in text
    assert raw(shown.url, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200_000)[0] == 431
    assert answer(shown.url)[0] == 200


def test_half_a_request_is_refused_when_its_time_is_over_or_its_sender_gone(shown, monkeypatch):
    monkeypatch.setattr(server, "read_head", lambda connection: head.read_head(connection, within_s=0.2))
    status, _, text = raw(shown.url, b"GET / HTTP/1.1\r\nHost: 127")
    assert status == 408
    assert "did not come to its end" in text
    with closing(connected(shown.url)) as connection:
        connection.sendall(b"GET / HT")
        connection.shutdown(socket.SHUT_WR)
        assert parsed(connection.recv(10_000))[0] == 400
    with closing(connected(shown.url)) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(10) == b""  # nothing was asked, nothing is answered


def test_more_readers_than_seats_are_told_so_and_seats_are_given_free(shown):
    shown.put()
    with ExitStack() as readers:
        for _ in range(server.READERS):
            readers.enter_context(Events(shown.url))
        assert answer(shown.url)[0] == 503
    for _ in range(1000):  # those who have gone are noticed by and by, since they are told nothing
        shown.board.take(one_round(shown.board.rounds))
        shown.put()
        if answer(shown.url)[0] == 200:
            return
    raise AssertionError("no seat was given free")


def test_events_have_the_state_and_all_rounds_that_are_kept(shown):
    with Events(shown.url) as events:
        while not shown.showing._readers:
            pass
        shown.put()
        state, rounds = events.until(lambda state: state["rounds"] == 3)
        assert [one["n"] for one in rounds] == [0, 1, 2]
        assert state == json.loads(as_json(shown.board.state(title="a run")))
        shown.board.take(one_round(3))
        shown.put()
        _, rounds = events.until(lambda state: state["rounds"] == 4)
        assert [one["n"] for one in rounds] == [3]


def test_a_reader_that_comes_back_goes_on_where_it_was_and_is_told_of_a_gap(shown):
    shown.put(over=True)
    with Events(shown.url, headers=["Last-Event-ID: 2"]) as events:
        assert [one["n"] for one in events.until(lambda state: True)[1]] == [2]
    shown.showing.rounds = Ring(most=2)
    for text in ('{"n": 5}', '{"n": 6}', '{"n": 7}'):
        shown.showing.rounds.add(text)
    with Events(shown.url, headers=["Last-Event-ID: 0"]) as events:
        told = list(events)
    assert told[:2] == [("gap", 1), ("rounds", [{"n": 6}, {"n": 7}])]
    with Events(shown.url, headers=["Last-Event-ID: nonsense"]) as events:
        assert next(iter(events))[0] in ("gap", "rounds")


def test_a_reader_that_never_reads_holds_up_nobody_and_nothing_grows(shown):
    ring = shown.showing.rounds
    with closing(connected(shown.url)) as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        where = f"/events?token={shown.server.token} HTTP/1.1"
        silent.sendall(f"GET {where}\r\nHost: 127.0.0.1:{shown.server.port}\r\n\r\n".encode())
        with Events(shown.url) as events:
            while shown.showing._readers < 2:
                pass
            for number in range(3, 1500):
                shown.board.take(one_round(number, lanes=(20, 20)))
                if number % 50 == 0:
                    shown.put()
            shown.put()
            state, _ = events.until(lambda state: state["rounds"] == 1500)
        assert state["clock"] == 1500.0
        assert len(ring._texts) <= 400
        assert ring._bytes <= 4 * 2**20


def test_the_last_state_reaches_readers_before_the_page_is_closed():
    before = set(threading.enumerate())
    page = Shown()
    with Events(page.url) as events:
        while not page.showing._readers:
            pass
        page.board.take({"kind": "over"})
        page.put(over=True)
        page.close()
        assert events.until(lambda state: state["over"])[0]["rounds"] == 3
        assert list(events) == []
    with pytest.raises(OSError, match=r"refused|reset"):
        answer(page.url)
    assert set(threading.enumerate()) <= before


def test_metrics_are_there_where_a_run_has_them(shown):
    assert answer(shown.url, "/metrics")[0] == 404
    with closing(Shown(metrics=lambda: "# EOF\n")) as other:
        status, fields, text = answer(other.url, "/metrics")
    assert (status, text) == (200, "# EOF\n")
    assert fields["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")


def test_a_replay_of_too_little_or_of_a_run_that_is_over_says_so(shown):
    with Events(shown.url), ThreadPoolExecutor() as others:
        asked = others.submit(answer, shown.url, "/what-if")
        while not asked.done():
            shown.put()
    assert asked.result()[0] == 200
    assert "3 rounds can be replayed, too few" in asked.result()[2]
    shown.put(over=True)
    status, _, text = answer(shown.url, "/what-if")
    assert status == 503
    assert "the stream is over, or too busy" in text


def test_the_token_is_in_no_log_line(shown, caplog):
    with caplog.at_level(logging.DEBUG, logger="echelon.page"):
        answer(shown.url)
        answer(shown.url, token=False)
        shown.close()
    assert caplog.records
    assert shown.server.token not in caplog.text


def test_a_port_that_is_taken_or_an_address_that_is_nobodys_is_one_clear_line(shown):
    with pytest.raises(ArgumentError, match=r"page: '127.0.0.1:\d+' is not allowed; Address already in use"):
        PageServer(shown.showing, port=shown.server.port)
    with pytest.raises(ArgumentError, match=r"page: 'nowhere.invalid:0' is not allowed; "):
        PageServer(shown.showing, "nowhere.invalid")


def test_beyond_this_machine_a_page_is_served_only_where_that_is_said_and_then_with_the_token():
    with closing(Shown(address="0.0.0.0")) as page:
        port = page.server.port
        local = f"http://127.0.0.1:{port}/?token={page.server.token}"
        assert answer(local)[0] == 200
        assert answer(local, host=f"192.0.2.7:{port}")[0] == 200
        assert answer(local, host=f"evil.example:{port}")[0] == 403
        assert answer(local, token=False)[0] == 403
