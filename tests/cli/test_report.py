"""`echelon report` as a user meets it."""

import json
import re

import numpy as np
import pytest

import echelon as ec
from echelon import schemes
from echelon.codes import uncoded
from echelon.jobs import HollowJob
from echelon.schemes import coded_rows
from tests.conftest import ROOT
from tests.stream.test_recorded import exponential, purged_run

PAGE = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "run.jsonl"
    purged_run(path, [exponential(1.0), exponential(2.0)], [[1.0] * 6, [1.0] * 4], 8, rounds=50)
    return path


def test_the_numbers_are_those_of_the_file(run, record):
    code, out, err = run("report", record, "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    entries = [json.loads(line) for line in record.read_text().splitlines()]
    rounds = [entry for entry in entries if entry["kind"] == "round"]
    came = {entry["job"]: entry["time"] for entry in entries if entry["kind"] == "job"}
    left = {entry["job"]: entry["time"] for entry in entries if entry["kind"] == "end"}
    delays = [left[job] - came[job] for job in came]
    took = [entry["end"] - entry["start"] for entry in rounds]
    for key, values in (("delay", delays), ("iteration", took)):
        expected = {"mean": np.mean(values), "p50": np.median(values), "p95": np.percentile(values, 95)}
        assert said[key] == pytest.approx(expected)
    assert [(job["delay"], job["iterations"], job["outcome"]) for job in said["jobs"]] == [
        (pytest.approx(delay), 10, "done") for delay in delays
    ]
    assert said["span"] == pytest.approx(left[4] - came[0])
    assert said["messages"] == {"needed": 8, "received": 8, "planned": 10}
    assert said["parts_per_row"] == 1
    assert [worker["rows"] for worker in said["workers"]] == [6, 4]
    sent = [[message for entry in rounds for message in entry["messages"] if message[0] == place] for place in (0, 1)]
    assert [worker["results"] for worker in said["workers"]] == [len(messages) / 50 for messages in sent]
    # a worker computes from its link, 0.05 s, until it has sent all of its lane or the round ends
    for place, lane in ((0, 6), (1, 4)):
        computing = 0.0
        for entry in rounds:
            own = [message for message in entry["messages"] if message[0] == place]
            computing += (own[-1][3] if len(own) == lane else entry["end"] - entry["start"]) - 0.05
        # times are recorded in microseconds, of which each of 50 rounds adds up at most ten
        assert said["workers"][place]["utilisation"] * said["span"] == pytest.approx(computing, abs=50 * 10e-6)


def test_the_page_names_every_key(run, record, tmp_path):
    said = json.loads(run("report", record, "--json")[1])
    table = PAGE.split("## What `echelon report --json` prints\n")[1].split("\n## ")[0]
    first = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:]
    assert {key for cell in first for key in re.findall(r"`(\w+)`", cell)} == set(said)
    inner = {key: set(said[key]) for key in ("delay", "messages", "residual")}
    inner |= {key: set(said[key][0]) for key in ("workers", "jobs")}
    for key, names in inner.items():
        meaning = re.search(rf"^\| `{key}` \|(.*)$", table, re.MULTILINE).group(1)
        assert set(re.findall(r"`(\w+)`", meaning)) == names


def test_what_rounds_that_ended_early_lack_is_told(run, record, tmp_path):
    """Five workers, of which the last is ten times slower; the second job does without it."""
    path = tmp_path / "early"
    work = ec.Workload(critical=5, redundancy=1.0, iterations=6, arrivals=ec.Arrivals.poisson(0.01))
    profile = ec.Profile(work, [ec.Worker(f"w{p}", mean=1.0 + 9 * (p == 4), std=0.0) for p in range(5)])
    plan = schemes.quorum(workers=5, load=1, share=0.8)
    with ec.Stream("virtual", emulate=profile, record=path, progress=False) as stream:
        for ended in (None, plan):
            whole = coded_rows(uncoded(parts=5), [1] * 5) if ended is None else ended
            stream.submit(HollowJob(whole, iterations=6)).delivery()
    said = json.loads(run("report", path, "--json")[1])
    assert said["residual"] == {"rounds": 6, "mean": pytest.approx(0.2**0.5 / 2), "most": pytest.approx(0.2**0.5)}
    assert [worker["left_out"] for worker in said["workers"]] == [0, 0, 0, 0, 6]
    out = run("report", path)[1]
    assert "6 of 12 rounds ended before they were exact: the residual of a round is 0.224 in the mean, 0.447 at" in out
    assert "Rounds that ended without rows of a worker: w4 in 6." in out
    assert "before they were exact" not in run("report", record)[1]


def test_tables_and_pictures(run, record, tmp_path):
    code, out, err = run("report", record)
    assert (code, err) == (0, "")
    for word in ("5 jobs, 50 rounds", "job 4", "done", "w2", "rows per round", "8.00 needed", "10.00 planned"):
        assert word in out
    folder = tmp_path / "run-report"
    assert sorted(path.name for path in folder.iterdir()) == ["delays.png", "timeline.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.iterdir())


def test_pictures_go_where_they_are_wanted_and_with_json_only_if_they_are(run, record, tmp_path):
    assert json.loads(run("report", record, "--json")[1])["pictures"] == []
    assert list(tmp_path.iterdir()) == [record]
    folder = tmp_path / "deep" / "down"
    said = json.loads(run("report", record, "--out", folder, "--json")[1])
    assert said["pictures"] == [str(folder / "timeline.png"), str(folder / "delays.png")]
    assert (folder / "delays.png").exists()


def test_a_run_that_broke_off_has_jobs_without_an_end(run, record):
    lines = record.read_text().splitlines()
    record.write_text("\n".join(lines[:8]) + "\n" + lines[8][:40])
    code, out, _ = run("report", record)
    assert code == 0
    assert "open" in out
    said = json.loads(run("report", record, "--json")[1])
    assert (said["rounds"], said["delay"]["mean"]) == (6, None)
    assert said["jobs"] == [
        {"job": 0, "name": "job 0", "arrival": 10.0, "delay": None, "iterations": 6, "outcome": None}
    ]
    assert [path.name for path in record.with_name("run-report").iterdir()] == ["timeline.png"]


def test_losses_failures_and_many_jobs_are_told(run, record):
    lines = record.read_text().splitlines()
    for job in range(5, 30):
        lines.append(json.dumps({"kind": "job", "time": 900.0 + job, "job": job, "name": f"[late] {job}"}))
        lines.append(json.dumps({"kind": "end", "time": 901.0 + job, "job": job, "outcome": "failed"}))
    lines.append(json.dumps({"kind": "down", "time": 12.0, "worker": 1, "place": 1, "reason": "killed"}))
    record.write_text("\n".join(lines) + "\n")
    code, out, _ = run("report", record)
    assert code == 0
    assert "[late] 5" in out
    assert "… and 10 more jobs" in out
    said = json.loads(run("report", record, "--json")[1])
    assert [worker["losses"] for worker in said["workers"]] == [0, 1]
    assert (len(said["jobs"]), said["jobs"][-1]["iterations"], said["jobs"][-1]["outcome"]) == (30, 0, "failed")
    assert said["delay"]["mean"] > 2  # of those done alone


BAD = {
    "missing": (None, "can't be read"),
    "text": ("hello\nworld\n", "line 1 is not an entry of a record"),
    "one line": ("hello", "is not the record of a run"),
    "another list of entries": ('{"kind": "job", "time": 1}\n{"kind": "x"}\n', "is not the record of a run"),
    "a later format": ('{"kind":"run","format":99}\n', "format 99 is not allowed; must be 1"),
    "binary": (b"\xff\xfe\x00", "can't be read"),
    "no round": (
        '{"kind":"run","format":1,"names":["a"],"split":"uniform","redundancy":1.1}\n'
        '{"kind":"job","time":1.0,"job":0,"name":"a"}\n',
        "no round is in this record",
    ),
}


@pytest.mark.parametrize("command", [["report"], ["trace", "--out", "never.toml"]], ids=["report", "trace"])
@pytest.mark.parametrize("case", BAD)
def test_a_wrong_file_is_one_line_and_exit_code_2(run, tmp_path, monkeypatch, command, case):
    monkeypatch.chdir(tmp_path)
    text, said = BAD[case]
    path = tmp_path / "bad.jsonl"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    code, out, err = run(*command, path)
    assert (code, out) == (2, "")
    assert err.startswith(f"echelon: {path}: ")
    assert said in err
    assert err.count("\n") == 1
    assert {one.name for one in tmp_path.iterdir()} <= {"bad.jsonl"}


def test_a_folder_that_can_not_be_made_is_one_line_and_exit_code_2(run, record):
    code, out, err = run("report", record, "--out", record / "below")
    assert (code, out) == (2, "")
    assert err.startswith("echelon: ")
    assert err.count("\n") == 1
