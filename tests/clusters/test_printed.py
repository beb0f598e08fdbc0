"""What worker processes print: whole lines with their names, nothing of it lost, and nobody held up."""

import os
import re
import subprocess
import sys
import textwrap
import threading

import pytest

from echelon.clusters import printed as module
from echelon.clusters.printed import Printed
from tests.clusters.desk import LIMIT_S
from tests.clusters.test_processes import descriptors, opened

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="worker processes need Linux")


@pytest.fixture
def said(capfd):
    """Return a function that has two workers write, in turns, and returns what came out in all."""

    def write(*turns):
        printed = Printed(["w1", "w2"])
        ends = [printed.pipes(place) for place in range(2)]
        for place, text in turns:
            os.write(ends[place][0], text)
        for end in (end for each in ends for end in each):
            os.close(end)
        printed.close()
        return capfd.readouterr().out.splitlines()

    return write


def test_lines_of_several_workers_never_mix_however_they_are_cut(said):
    found = said((0, b"on"), (1, b"tw"), (0, b"e\nthr"), (1, b"o\n"), (0, b"ee\n"))
    assert sorted(found) == ["[w1] one", "[w1] three", "[w2] two"]
    assert found.index("[w1] one") < found.index("[w1] three")


def test_a_last_line_without_an_end_comes_out_too(said):
    assert said((1, b"no end")) == ["[w2] no end"]


def test_of_a_bar_that_goes_back_to_the_start_of_its_line_the_last_state_is_shown(said):
    assert said((0, b"10 %\r50 %\r"), (0, b"100 %"), (0, b"\nnext\r\n")) == ["[w1] 100 %", "[w1] next"]


def test_a_line_that_never_ends_is_cut(said, monkeypatch):
    monkeypatch.setattr(module, "_LONGEST", 10)
    monkeypatch.setattr(module, "_CHUNK", 4)
    assert said((0, b"0123456789abcdefghijkl\n")) == ["[w1] 0123456789ab", "[w1] cdefghijkl"]


def test_closing_leaves_no_thread_and_no_descriptor_even_if_somebody_still_holds_a_pipe(capfd):
    before, threads = descriptors(), set(threading.enumerate())
    printed = Printed(["w1"])
    ends = printed.pipes(0)
    os.write(ends[0], b"held")
    printed.close()
    printed.close()
    assert set(threading.enumerate()) <= threads
    assert capfd.readouterr().out == "[w1] held\n"
    for end in ends:
        os.close(end)
    assert not opened(before)


PROGRAM = """
import os, signal, sys
import echelon as ec

LINES = {lines}

def part(state, chunk):
    for line in range(LINES):
        print(f"chunk {{chunk}} line {{line}}", "x" * {width})
    print("error of chunk", chunk, file=sys.stderr)
    if chunk == {dies} and not os.path.exists(sys.argv[1]):
        open(sys.argv[1], "w").close()
        os.write(1, b"last words")
        os.kill(os.getpid(), signal.SIGKILL)
    return float(chunk)

sys.argv[1:] = {arguments!r}
job = ec.SumJob(partial=part, update=lambda state, total: total, state=0.0, chunks=[1, 2, 3, 4], iterations=1)
with ec.Stream(workers=4, patience_s=1e6) as stream:
    result = stream.submit(job).result()
print("result", result, file=sys.stderr)
"""


def program(path, **values):
    script = textwrap.dedent(PROGRAM).format(**{"lines": 100, "width": 20, "dies": 0, "arguments": []} | values)
    # a part knows the arguments of the program by what is written into it, since workers have others
    path.write_text(script.replace("sys.argv[1]", repr(str(path) + ".died")))
    return [sys.executable, str(path)]


def test_output_of_four_workers_is_whole_lines_on_the_right_output(tmp_path):
    ended = subprocess.run(program(tmp_path / "p.py"), capture_output=True, text=True, timeout=LIMIT_S, check=True)
    lines = ended.stdout.splitlines()
    assert sorted({re.fullmatch(r"\[w[1-4]\] chunk (\d) line \d+ x{20}", line)[1] for line in lines}) == list("1234")
    assert len(lines) == 400
    errors = ended.stderr.splitlines()
    assert sorted(re.sub(r"\[w\d\]", "[w]", line) for line in errors) == [
        *(f"[w] error of chunk {chunk}" for chunk in (1, 2, 3, 4)), "result 10.0",
    ]  # fmt: skip


def test_what_a_worker_printed_before_it_was_killed_is_not_lost(tmp_path):
    command = program(tmp_path / "p.py", dies=2)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert "result 10.0" in ended.stderr
    lines = [re.sub(r"\[w\d\] ", "", line) for line in ended.stdout.splitlines()]
    assert sorted(line for line in lines if line.startswith("chunk 2")) == sorted(
        [f"chunk 2 line {line} {'x' * 20}" for line in range(100)] * 2
    )
    assert lines.count("last words") == 1


def test_workers_go_on_where_nobody_reads_the_program_s_output(tmp_path):
    ours, theirs = os.pipe()
    command = program(tmp_path / "p.py", lines=2000, width=500)  # 4 MB, and 64 kB in the pipe
    ended = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True)
    assert "result 10.0" in ended.stderr
    os.close(ours)
    os.close(theirs)
