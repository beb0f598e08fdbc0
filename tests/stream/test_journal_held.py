"""Who has a journal: one process, whatever it forks, copies or opens; and what a forked child does not do to it."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

import echelon as ec
from echelon.errors import ArgumentError, JournalError
from echelon.stream import Journal
from tests.stream.jobs import sum_job, sum_result

FORKED = """
import os, signal, sys
import echelon as ec
from tests.stream.jobs import sum_job
path, how = sys.argv[1:]
stream = ec.Stream("virtual", workers=2, journal=path)
stream.submit(sum_job(1))
stream.sleep(1000.0)
child = os.fork()
if child == 0:
    try:
        stream.submit(sum_job(9))
    except ec.errors.JournalError as error:
        print(error, flush=True)
    if how == "hard":
        os._exit(0)
    stream.close(wait=False)
    sys.exit(0)
os.waitpid(child, 0)
stream.submit(sum_job(2))
stream.sleep(1000.0)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.parametrize("how", ["hard", "normally"])
def test_a_forked_child_that_ends_takes_nothing_from_its_parent_s_journal(tmp_path, how):
    path = tmp_path / "journal"
    program = subprocess.run([sys.executable, "-c", FORKED, path, how], capture_output=True, text=True)
    assert program.returncode == -9, program.stderr
    assert "of which this one is a fork" in program.stdout
    with ec.Stream("virtual", workers=2, journal=path) as stream:
        assert stream.taken == 2
        for seed, done in enumerate(stream, start=1):
            np.testing.assert_allclose(done.result, sum_result(seed), rtol=1e-9)
            assert done.number == seed


ORPHAN = """
import os, signal, sys
from pathlib import Path
from echelon.stream import Journal
journal = Journal(Path(sys.argv[1]))
if os.fork() == 0:
    sys.stdin.read()  # stays until the test lets it go
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_child_that_outlives_its_parent_does_not_hold_the_journal(tmp_path):
    path = tmp_path / "journal"
    program = subprocess.Popen([sys.executable, "-c", ORPHAN, path], stdin=subprocess.PIPE)
    try:
        assert program.wait(60) == -9
        Journal(path).close()
    finally:
        program.stdin.close()


def second_opener(path):
    """Return what another program says that opens the same journal."""
    code = "import pathlib, sys; from echelon.stream import Journal; Journal(pathlib.Path(sys.argv[1]), timeout_s=0)"
    return subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True).stderr


def test_a_copy_of_the_file_does_not_let_a_second_program_in(tmp_path):
    path = tmp_path / "journal"
    with ec.Stream("virtual", workers=2, journal=path) as stream:
        stream.submit(sum_job(1))
        shutil.copy(path, tmp_path / "backup")  # closes the file that it has read: POSIX drops its locks
        said = second_opener(path).splitlines()[-1]
        assert said.endswith(f"is not allowed; process {os.getpid()} holds it: wait until that has ended")
        (tmp_path / "link").symlink_to(path)
        with pytest.raises(ArgumentError, match="holds it"):
            Journal(tmp_path / "link", timeout_s=0)
        (done,) = stream
    np.testing.assert_allclose(done.result, sum_result(1), rtol=1e-9)
    assert sorted(os.listdir(tmp_path)) == ["backup", "journal", "link"]


def test_an_open_that_fails_keeps_no_lock_and_leaves_no_file(tmp_path):
    path = tmp_path / "journal"
    path.write_text("these are only notes, and long enough not to be taken for an empty file" * 20)
    with pytest.raises(ArgumentError, match="is not a database"):
        Journal(path)
    assert os.listdir(tmp_path) == ["journal"]
    path.unlink()
    Journal(path).close()
    with pytest.raises(ArgumentError, match=r"journal\.lock: No such file or directory"):
        Journal(tmp_path / "nowhere" / "journal")


def test_a_journal_that_is_refused_is_free_for_others_while_the_error_is_kept(tmp_path):
    path = tmp_path / "journal"
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE jobs (number INTEGER)")
    with pytest.raises(ArgumentError) as refused:
        Journal(path)
    with closing(sqlite3.connect(path, timeout=0)) as base:
        base.execute("DROP TABLE jobs")
    assert second_opener(path) == ""
    assert "an earlier version" in str(refused.value)


def test_a_lock_file_that_a_killed_program_left_holds_nobody_up(tmp_path):
    (tmp_path / "journal.lock").write_text("1\n")
    Journal(tmp_path / "journal").close()
    assert os.listdir(tmp_path) == ["journal"]


def test_a_closed_journal_says_so(tmp_path):
    journal = Journal(tmp_path / "journal")
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        journal.taken()


@pytest.mark.parametrize("name", ["journal", "./journal", "link", "hard link"])
def test_journal_and_record_must_be_two_files(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Journal(tmp_path / "journal").close()
    os.symlink("journal", "link")
    os.link("journal", "hard link")
    with pytest.raises(ArgumentError, match="must be another file than the journal"):
        ec.Stream("virtual", workers=2, journal="journal", record=name)
    Journal(tmp_path / "journal").close()
