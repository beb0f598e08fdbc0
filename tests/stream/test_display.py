"""What people see of a running stream."""

import logging
import os
import re
import select
import subprocess
import sys
import textwrap
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from threading import Thread

import numpy as np
import pytest
from rich.console import Console

import echelon as ec
from echelon.clusters import seat
from echelon.stream.around import Around, taken
from echelon.stream.display import Display, rendered, wanted
from tests.stream.jobs import sum_job, sum_result


def test_the_display_shows_jobs_rounds_and_every_worker(capsys):
    with ec.Stream(cluster="threads", workers=2, redundancy=1.3, progress=True) as stream:
        np.testing.assert_allclose(stream.submit(sum_job(iterations=50)).result(), sum_result(iterations=50))
        (display,) = (told for told in stream._told._all if isinstance(told, Display))
        file = StringIO()
        Console(file=file, width=120).print(rendered(display.now()))
    text = file.getvalue()
    assert re.search(r"no job; (49|50) rounds so far", text)  # the last round is told when there is time
    assert "workers 2 of 2" in text
    assert "any 9 of 12 rows" in text
    assert "ms per round" in text
    assert "expected" in text
    for column in ("worker", "state", "rows", "results", "ms per part", "slower", "losses"):
        assert column in text
    assert text.count("idle") == 2


def test_log_lines_tell_it_where_there_is_no_terminal(caplog):
    with caplog.at_level(logging.INFO, logger="echelon"):
        with ec.Stream(cluster="threads", workers=1) as stream:
            stream.submit(sum_job(name="quiet")).result()
        assert stream._told._all == []
    assert any("quiet done after" in record.message for record in caplog.records)
    assert any("worker 0 (place 0) is ready" in record.message for record in caplog.records)


def test_without_linux_threads_are_used_and_it_is_said(monkeypatch, caplog):
    monkeypatch.setattr(sys, "platform", "darwin")
    with ec.Stream(workers=1) as stream:
        np.testing.assert_allclose(stream.submit(sum_job()).result(), sum_result())
    assert "processes.ProcessCluster needs Linux; threads.ThreadCluster is used instead" in caplog.text


def test_a_program_without_standard_error_has_no_display(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert not wanted(None)
    closed = StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    assert not wanted(None)
    with ec.Stream("threads", workers=1) as stream:
        np.testing.assert_allclose(stream.submit(sum_job()).result(), sum_result())


# what is printed meanwhile


class Terminal(StringIO):
    def isatty(self):
        return True


@contextmanager
def around():
    """Stand in place of a terminal, within a test; yield it, and the lines that the display gets instead."""
    terminal, shown = Terminal(), []
    with redirect_stdout(terminal), redirect_stderr(StringIO()):
        display = Around(shown.extend, ["w1", "w2"])
        display.begin()
        yield terminal, shown, display
        display.end()


def in_thread(work):
    thread = Thread(target=work)
    thread.start()
    thread.join()


def test_lines_of_threads_are_whole_and_those_of_workers_have_their_names():
    def worker():
        seat.take(1, process=False)
        print("part", 7, end=" ", flush=True)
        in_thread(lambda: print("from elsewhere"))
        print("done")

    with around() as (_, shown, _):
        print("begun ", end="")
        in_thread(worker)
        print("ended")
    assert shown == ["from elsewhere", "[w2] part 7 done", "begun ended"]


def test_a_question_is_shown_at_once():
    with around() as (_, shown, _):
        print("go on? ", end="", flush=True)
    assert shown == ["go on? "]


def test_only_a_terminal_is_replaced_and_it_is_given_back_with_what_was_begun():
    with around() as (terminal, shown, display):
        kept = sys.stdout
        print("an error", file=sys.stderr)
        assert sys.stderr.getvalue() == "an error\n"
        print("no end", end="")
        assert taken(), "a second display would draw over this one"
        display.end()
        assert not taken()
        assert sys.stdout is terminal
        print("later", file=kept)
    assert terminal.getvalue() == "no end\nlater\n"
    assert shown == []


PROGRAM = """
import sys, time
import echelon as ec

def part(state, chunk):
    for line in range(10):
        print(f"chunk {chunk} line {line}", "x" * 30)
        time.sleep(0.001)
    return float(chunk)

job = ec.SumJob(
    partial=part, update=lambda state, total: total, state=0.0, chunks=[1, 2, 3, 4], iterations=60, name="sum"
)
with ec.Stream(workers=4, patience_s=1e6) as stream:
    print("result", stream.submit(job).result())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="worker processes need Linux")
def test_on_a_terminal_four_workers_print_whole_lines_around_percent_and_time_left(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    terminal, theirs = os.openpty()
    program = subprocess.Popen(
        [sys.executable, str(script)], stdin=theirs, stdout=theirs, stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    os.close(theirs)
    text = b""
    try:
        while select.select([terminal], [], [], 60)[0]:
            text += os.read(terminal, 1 << 16)
    except OSError:  # the program has ended
        pass
    os.close(terminal)
    assert program.wait(60) == 0
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode()))
    printed = [line for line in lines if "xxx" in line or "chunk" in line]
    assert all(re.fullmatch(r"\[w[1-4]\] chunk [1-4] line \d x{30}", line) for line in printed)
    assert len(printed) >= 60 * 4 * 10  # rows that are given out twice print twice
    assert "result 10.0" in lines
    said = r"sum: iteration \d+ of 60 +\d+% +ETA 0:\d\d +[\d.]+ rounds/s +workers 4 of 4"
    assert any(re.search(said, line) for line in lines)
