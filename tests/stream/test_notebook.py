"""The display in a notebook, with the few names of IPython that it uses."""

import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest

import echelon as ec
from echelon.stream import notebook
from tests.stream.jobs import sum_job

LIMIT_S = 20.0


class Cell:
    """The output of a cell: what was shown, and where."""

    def __init__(self):
        self.shown, self.updates, self.ids = [], threading.Semaphore(0), []

    def display(self, page, *, display_id):
        self.ids.append(display_id)
        self.shown.append(page.data)
        return self

    def update(self, page):
        self.shown.append(page.data)
        self.updates.release()


@pytest.fixture
def cell(monkeypatch):
    """Put a program into a notebook."""
    cell = Cell()
    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display, module.HTML = cell.display, lambda text: SimpleNamespace(data=text)
    package.display = module
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(notebook, "_EVERY_S", 0.01)
    return cell


def test_one_output_is_replaced_in_place_and_its_last_state_stays(cell):
    threads = set(threading.enumerate())
    with ec.Stream("threads", workers=2) as stream:
        stream.submit(sum_job(iterations=50, name="<fifty>")).result()
        assert cell.updates.acquire(timeout=LIMIT_S)
    assert cell.ids == [True], "one output, with an id"
    assert "no job; 50 rounds so far" in cell.shown[-1]
    assert "closed" in cell.shown[-1]
    assert "workers 2 of 2" in cell.shown[-1]
    assert set(threading.enumerate()) <= threads


def test_names_of_jobs_are_text_and_no_markup(cell):
    gate = threading.Event()

    def wait(state, total):
        gate.wait(LIMIT_S)
        return total

    with ec.Stream("threads", workers=1) as stream:
        handle = stream.submit(ec.SumJob(
            partial=lambda state, x: x, update=wait, state=0.0, chunks=[1.0], iterations=5, name="<i>&"
        ))  # fmt: skip
        for _ in range(1000):
            assert cell.updates.acquire(timeout=LIMIT_S)
            if "&lt;i&gt;&amp;: iteration 0 of 5" in cell.shown[-1]:
                break
        gate.set()
        handle.result()
    assert '<progress value="0.0000" max="1"></progress>' in "".join(cell.shown)
    assert not any("<i>&" in text for text in cell.shown)


def test_a_browser_that_fails_ends_the_display_and_not_the_stream(cell, caplog):
    def fail(page):
        raise ConnectionError("the kernel's socket is closed")

    cell.update = fail
    with ec.Stream("threads", workers=1) as stream:
        assert stream.submit(sum_job(iterations=3)).result() is not None
    assert "the display in the notebook ends here; the stream goes on" in caplog.text


def test_a_browser_that_hangs_holds_up_neither_rounds_nor_the_end(cell, monkeypatch):
    monkeypatch.setattr(notebook, "_JOIN_S", 0.01)
    gate = threading.Event()
    cell.update = lambda page: gate.wait(LIMIT_S)
    with ec.Stream("threads", workers=1) as stream:
        assert stream.submit(sum_job(iterations=3)).result() is not None
    assert not gate.is_set()
    gate.set()


def test_ipython_on_a_terminal_is_no_notebook_and_progress_false_shows_nothing(cell, monkeypatch):
    with ec.Stream("threads", workers=1, progress=False) as stream:
        stream.submit(sum_job()).result()
    assert cell.shown == []
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace())
    assert not notebook.there()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not notebook.there()
