"""Where lines go: an output that is slow, stuck, replaced or missing holds up nobody for good."""

import io
import os
import select
import sys
from contextlib import contextmanager, suppress

import pytest

from echelon.clusters import outlet as module
from echelon.clusters.outlet import Outlet, wanted


@pytest.fixture
def output(monkeypatch):
    """Return what puts a pipe in place of standard output and yields the end to read from, within a test.

    Before and after a test pytest itself changes the descriptor.
    """

    @contextmanager
    def replaced():
        ours, theirs = os.pipe()
        kept = os.dup(1)
        os.dup2(theirs, 1)
        os.close(theirs)
        monkeypatch.setattr(sys, "stdout", sys.__stdout__)
        try:
            yield ours
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            with suppress(OSError):  # a test has closed it
                os.close(ours)

    return replaced


def readable(descriptor):
    return bool(select.select([descriptor], [], [], 0)[0])


def test_lines_are_written_as_they_are(output):
    with output() as pipe:
        Outlet(1).put(b"one\ntwo \xff\n")
        assert os.read(pipe, 100) == b"one\ntwo \xff\n"


def test_an_output_that_nobody_reads_is_given_up_and_what_it_missed_is_counted(output, monkeypatch):
    with output() as pipe:
        monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
        outlet, line = Outlet(1), b"x" * 999 + b"\n"
        while not outlet.behind:
            outlet.put(line)
        outlet.put(line * 3)
        outlet.put(line * 4)
        found = b""
        while outlet.behind or readable(pipe):
            found += os.read(pipe, 1 << 16)
            outlet.flush()
        assert set(found.split(b"\n")) == {line[:-1], b""}, "what was begun is ended"
        outlet.put(b"last\n")
        assert os.read(pipe, 1000) == b"echelon: 7 lines of workers were left out: nobody read stdout\nlast\n"


def test_an_output_whose_reader_is_gone_is_no_error(output):
    with output() as pipe:
        os.close(pipe)
        outlet = Outlet(1)
        outlet.put(b"line\n")
        assert not outlet.behind


def test_what_the_program_has_put_in_place_of_the_output_gets_text(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    outlet = Outlet(1)
    assert wanted(1)
    assert outlet.shown
    outlet.put(b"caf\xc3\xa9 \xff\n")
    assert sys.stdout.getvalue() == "café \ufffd\n"
    sys.stdout.close()
    outlet.put(b"nobody hears this\n")


def test_nothing_is_wanted_where_output_goes_nowhere(output, monkeypatch):
    with output():
        assert wanted(1)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        assert not wanted(1)
        monkeypatch.setattr(sys, "stdout", None)
        assert not wanted(1)
