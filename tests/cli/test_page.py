"""Pages from the command line: `echelon run --page`, `echelon watch`, `echelon report --html`."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from echelon.cli import watch
from tests.conftest import ROOT
from tests.page.asked import Events, answer
from tests.stream.test_recorded import exponential, purged_run

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=[\w-]+")


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "run.jsonl"
    purged_run(path, [exponential(1.0), exponential(2.0)], [[1.0] * 6, [1.0] * 4], 8, rounds=50)
    return path


def test_a_report_is_one_file_with_all_of_the_run(run, record, tmp_path):
    page = tmp_path / "report.html"
    code, out, err = run("report", record, "--out", tmp_path / "pictures", "--html", page)
    assert (code, err) == (0, "")
    assert f"Page: {page}" in out
    text = page.read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    assert (data["state"]["rounds"], len(data["rounds"]), data["state"]["over"]) == (50, 50, False)
    assert data["state"]["what_if"]["sentence"] in " ".join(out.split())
    assert json.loads(run("report", record, "--html", page, "--json")[1])["html"] == str(page)


def test_a_report_that_can_not_be_written_is_one_line(run, record, tmp_path):
    code, _, err = run("report", record, "--json", "--html", tmp_path / "none" / "report.html")
    assert code == 2
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ((), ("127.0.0.1", 0)),
        (("--page",), ("127.0.0.1", 0)),
        (("--page", "8765"), ("127.0.0.1", 8765)),
        (("--page", "0.0.0.0:8765"), ("0.0.0.0", 8765)),
        (("--page=8765",), ("127.0.0.1", 8765)),
    ],
)
def test_a_page_may_be_given_a_port_and_an_address(run, record, monkeypatch, words, where):
    asked = []
    monkeypatch.setattr(watch, "show_record", lambda path, where, told, until: asked.append((path, where)))
    assert run("watch", *words, record)[0] == 0
    assert run("watch", record, *words)[0] == 0
    assert asked == [(record, where)] * 2


def test_watch_serves_a_record_until_ctrl_c(record):
    command = [Path(sys.executable).with_name("echelon"), "watch", record]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        try:
            url = ADDRESS.search(watching.stdout.readline())[0]
            assert answer(url)[0] == 200
            with Events(url) as events:
                state, rounds = events.until(lambda state: True)
            assert (state["title"], state["rounds"], len(rounds)) == ("run.jsonl", 50, 50)
            watching.send_signal(signal.SIGINT)
            out, err = watching.communicate(timeout=20)
        finally:
            watching.kill()
    assert (watching.returncode, err) == (0, "")
    assert out.endswith("The page is closed.\n")


def test_watch_of_what_is_no_record_is_one_line(run, tmp_path):
    (tmp_path / "none").write_text("{}\n")
    code, _, err = run("watch", tmp_path / "none")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "line 1" in err


@pytest.mark.parametrize("place", ["somewhere:x", "99999", "nowhere.invalid:1"])
def test_odd_places_are_one_line(run, record, place):
    code, _, err = run("watch", record, f"--page={place}")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "page: " in err


def test_run_prints_the_address_of_its_page(run, tmp_path):
    example = ROOT / "examples" / "example2.toml"
    source = tmp_path / "jobs.py"
    source.write_text(
        "import echelon as ec\n"
        "work = {'partial': lambda w, x: w * x, 'update': lambda w, total: total}\n"
        "jobs = [ec.SumJob(**work, state=1.0, chunks=[0.5] * 10, iterations=3)]\n"
    )
    where = ["run", f"{source}:jobs", "--cluster", "virtual", "--profile", example]
    for page in (["--page"], ["--page", "0"]):
        code, out, err = run(*where, *page)
        assert code == 0
        assert ADDRESS.search(err)
        assert "job 0" in out
    assert not ADDRESS.search(run(*where)[2])
