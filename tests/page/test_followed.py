"""Records as pages: those that are done, those that grow, and those that are none."""

import json
import os
import threading
from threading import Event

import pytest

from echelon.errors import ArgumentError
from echelon.page.followed import Followed, show_record, whole_record
from echelon.page.one_file import html
from tests.page.asked import Events
from tests.page.test_board import RUN, one_round

JOB = {"kind": "job", "time": 0.0, "job": 0, "name": "fit", "iterations": 3}


def line(entry):
    return json.dumps(entry).encode() + b"\n"


def take_all(followed):
    while followed.go_on():
        pass
    return followed.board


def test_a_record_is_taken_in_as_it_grows_and_half_a_line_waits(tmp_path):
    path = tmp_path / "run"
    path.write_bytes(line(RUN) + line(JOB) + line(one_round(0)))
    followed = Followed(path)
    assert take_all(followed).rounds == 1
    last = line(one_round(1))
    with path.open("ab") as file:
        file.write(last[:20])
        file.flush()
        assert take_all(followed).rounds == 1
        file.write(last[20:])
    assert take_all(followed).rounds == 2
    followed.close()


def test_a_record_that_is_written_anew_is_begun_anew(tmp_path):
    path = tmp_path / "run"
    path.write_bytes(line(RUN) + line(JOB) + b"".join(line(one_round(number)) for number in range(5)))
    followed = Followed(path)
    assert take_all(followed).rounds == 5
    path.write_bytes(line(RUN) + line(JOB))  # the same file, shorter
    assert take_all(followed).rounds == 0
    other = tmp_path / "other"
    other.write_bytes(line(RUN) + line(JOB) + b"".join(line(one_round(number)) for number in range(50)))
    os.replace(other, path)  # another file, longer
    assert take_all(followed).rounds == 50
    path.unlink()
    assert take_all(followed).rounds == 50  # what was there stays
    followed.close()


def test_a_line_that_can_not_be_meant_is_named(tmp_path):
    path = tmp_path / "run"
    for damaged, said in (
        (b"{\n", "line 2 can't be taken in; must be JSON"),
        (b"[]\n", "line 2 can't be taken in; must be an object with a kind"),
        (b"\xff\n", "line 2 can't be taken in; "),
        (line(one_round(0)), "line 2 can't be taken in; job: 0 is not allowed"),
    ):
        path.write_bytes(line(RUN) + damaged)
        followed = Followed(path)
        with pytest.raises(ArgumentError, match=said):
            take_all(followed)
        followed.close()


def test_what_is_no_record_is_refused_before_anything_listens(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    none = {"empty": "not the record of a run", "none": "can't be read", ".": "can't be read"}
    for name, said in none.items():
        with pytest.raises(ArgumentError, match=said):
            show_record(tmp_path / name, ("127.0.0.1", 0), pytest.fail, Event())
    with pytest.raises(ArgumentError, match="must begin with an entry of kind 'run'"):
        whole_record(tmp_path / "empty")


def test_readers_see_a_record_grow_and_be_written_anew(tmp_path):
    path, until, urls = tmp_path / "run", Event(), []
    there = Event()

    def told(url):
        urls.append(url)
        there.set()

    path.write_bytes(line(RUN) + line(JOB) + line(one_round(0)))
    thread = threading.Thread(target=show_record, args=(path, ("127.0.0.1", 0), told, until))
    thread.start()
    try:
        assert there.wait(20)
        with Events(urls[0]) as events:
            state, rounds = events.until(lambda state: state["rounds"] == 1)
            assert (state["title"], state["running"], state["over"], len(rounds)) == ("run", False, False, 1)
            with path.open("ab") as file:
                file.write(line(one_round(1)) + line({"kind": "over"}))
            state, rounds = events.until(lambda state: state["over"])
            assert [one["n"] for one in rounds] == [1]
            path.write_bytes(line(RUN) + line(JOB) + line(one_round(0)))
            _, rounds = events.until(lambda state: not state["over"])
            assert [one["n"] for one in rounds] == [0]
    finally:
        until.set()
        thread.join(20)
    assert not thread.is_alive()


def test_a_page_that_is_one_file_holds_the_whole_record(tmp_path):
    path = tmp_path / "run"
    path.write_bytes(line(RUN) + line(JOB) + b"".join(line(one_round(number)) for number in range(3)))
    data = whole_record(path, {"sentence": "as it was"})
    assert (data["state"]["rounds"], len(data["rounds"]), data["state"]["what_if"]) == (3, 3, {"sentence": "as it was"})
    assert json.dumps(data["rounds"], separators=(",", ":")) in html(data, title="run")
