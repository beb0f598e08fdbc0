"""`echelon trace` as a user meets it."""

import json
import re
from dataclasses import fields

import numpy as np
import pytest

import echelon as ec
from echelon.delays import task_laws
from echelon.files import read_times
from echelon.stream.traced import TracedWorker
from tests.conftest import ROOT
from tests.stream.test_recorded import exponential, purged_run

PAGE = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "run.jsonl"
    purged_run(path, [exponential(1.0), exponential(2.0)], [[1.0] * 7, [1.0] * 4], 10, rounds=200)
    return path


def test_the_profile_can_be_planned_with_and_simulated(run, record, tmp_path):
    file = tmp_path / "cluster.toml"
    code, out, err = run("trace", record, "--out", file)
    assert (code, err) == (0, "")
    for word in ("Any 10 of 11 rows", "40 iterations", "w2", "cut short", "finished only", str(file)):
        assert word in out.replace("\n", "")
    profile = ec.read_profile(file)
    assert [worker.law for worker in profile.workers] == ["trace", "trace"]
    assert [law.mean for law in task_laws(profile)] == pytest.approx(profile.speeds.mean.tolist())
    planned = json.loads(run("plan", file, "--json")[1])
    assert (planned["tasks"], planned["method"]) == (11, "sampled")
    assert "has a deviation of" not in run("plan", file)[1]  # the one stated is the law's
    simulated = json.loads(run("simulate", file, "--seeds", 2, "--jobs", 20, "--json")[1])
    assert 3 < simulated["iteration_mean"] < 15


def test_a_profile_of_rounds_that_stay_together_can_be_simulated(run, record, tmp_path):
    file = tmp_path / "cluster.toml"
    code, _, err = run("trace", record, "--out", file, "--together")
    assert (code, err) == (0, "")
    profile = ec.read_profile(file)
    assert [worker.law for worker in profile.workers] == ["recorded", "recorded"]
    assert [len(worker.parameters["times"]) for worker in profile.workers] == [200, 200]
    simulated = json.loads(run("simulate", file, "--seeds", 2, "--jobs", 20, "--json")[1])
    assert 3 < simulated["iteration_mean"] < 20


def test_json_says_what_the_profile_rests_on(run, record, tmp_path):
    file = tmp_path / "cluster.toml"
    code, out, err = run("trace", record, "--out", file, "--times", 50, "--json")
    said = json.loads(out)
    assert (code, err) == (0, "")
    assert (said["out"], said["critical"], said["redundancy"], said["iterations"]) == (str(file), 10, 1.1, 40)
    assert said["arrivals_method"] == "Poisson"
    profile = ec.read_profile(file)
    assert said["arrivals"] == pytest.approx(profile.workload.arrivals.rate)
    for worker, told in zip(profile.workers, said["workers"], strict=True):
        assert len(worker.parameters["times"]) == 50
        assert (worker.name, worker.mean, worker.link) == (told["name"], told["mean"], told["link"])
        assert told["mean_finished"] < told["mean"] == pytest.approx(np.mean(worker.parameters["times"]))
    assert sum(told["finished"] for told in said["workers"]) == 10 * 200


def test_the_page_names_every_key(run, record, tmp_path):
    said = json.loads(run("trace", record, "--out", tmp_path / "cluster.toml", "--json")[1])
    table = PAGE.split("| key of `--json` | meaning |\n")[1]
    first = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    assert {key for cell in first for key in re.findall(r"`(\w+)`", cell)} == set(said)
    meaning = re.search(r"^\| `workers` \|(.*)$", table, re.MULTILINE).group(1)
    assert (
        set(re.findall(r"`(\w+)`", meaning))
        == {field.name for field in fields(TracedWorker)}
        == set(said["workers"][0])
    )


def test_a_trace_for_perfetto_is_written_with_a_profile_or_alone(run, record, tmp_path):
    file, trace = tmp_path / "cluster.toml", tmp_path / "trace.json"
    code, out, err = run("trace", record, "--chrome", trace)
    assert (code, err) == (0, "")
    assert out.replace("\n", "") == f"Written to {trace}."
    alone = json.loads(trace.read_text())
    assert json.loads(run("trace", record, "--chrome", trace, "--json")[1]) == {
        "out": None, "chrome": str(trace), "table": None,
    }  # fmt: skip
    said = json.loads(run("trace", record, "--chrome", trace, "--out", file, "--json")[1])
    assert (said["out"], said["chrome"], said["critical"]) == (str(file), str(trace), 10)
    assert json.loads(trace.read_text()) == alone
    assert len(alone["traceEvents"]) > 10 * 200
    code, out, err = run("trace", record)
    assert (code, out) == (2, "")
    assert err == "echelon: out, chrome, table: missing; one of them must say where to write\n"


def test_a_table_of_rounds_by_workers_is_what_a_joint_profile_replays(run, record, tmp_path):
    file, table = tmp_path / "cluster.toml", tmp_path / "own.csv"
    said = json.loads(run("trace", record, "--out", file, "--together", "--table", table, "--json")[1])
    assert said["table"] == str(table)
    profile, found = ec.read_profile(file), read_times(table)
    assert found.loads.tolist() == [1 / profile.workload.critical]
    expected = np.array([worker.parameters["times"] for worker in profile.workers]).T
    np.testing.assert_allclose(found.times[0], expected, rtol=1e-5)
    assert found.names == tuple(profile.names)
    code, out, err = run("trace", record, "--table", tmp_path / "own.txt")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "must end in .npz or .csv" in err


def test_a_record_without_a_round_has_no_trace(run, record, tmp_path):
    record.write_text(record.read_text().splitlines()[0] + "\n")
    code, _, err = run("trace", record, "--chrome", tmp_path / "trace.json")
    assert (code, err) == (2, f"echelon: {record}: no round is in this record; there is nothing to trace\n")
    assert not (tmp_path / "trace.json").exists()


def test_the_same_seed_writes_the_same_file(run, record, tmp_path):
    files = [tmp_path / f"{i}.toml" for i in range(3)]
    for file, seed in zip(files, (1, 1, 2), strict=True):
        assert run("trace", record, "--out", file, "--seed", seed)[0] == 0
    one, same, other = (file.read_text() for file in files)
    assert one == same != other


def test_a_record_that_was_cut_off_gives_a_profile_of_what_there_is(run, record, tmp_path):
    whole = record.read_text()
    record.write_text(whole[: whole.rindex('"messages"')])
    code, out, _ = run("trace", record, "--out", tmp_path / "cluster.toml", "--json")
    assert code == 0
    assert sum(told["finished"] for told in json.loads(out)["workers"]) == 10 * 199


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--times", 1], "times: 1 is not allowed; must be a whole number >= 2"),
        (["--seed", -1], "seed: -1 is not allowed"),
        (["--out", "no/such/folder.toml"], "No such file or directory"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(run, record, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("trace", record, "--out", "cluster.toml", *options)
    assert (code, out) == (2, "")
    assert err.startswith("echelon: ")
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "cluster.toml").exists()


def test_both_commands_are_listed(run):
    out = run("--help")[1]
    for command in ("report", "trace"):
        assert command in out
        assert run(command, "--help")[0] == 0
