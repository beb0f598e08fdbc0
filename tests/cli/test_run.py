"""`echelon run` and `echelon profile`, as a user calls them."""

import json
import textwrap

import numpy as np
import pytest

from echelon.files import read_profile, write_profile
from echelon.profile import Arrivals, Profile, Worker, Workload
from tests.conftest import ROOT
from tests.page.parsed import by_label, totals

JOBS = """
import numpy as np
import echelon as ec

def part(state, chunk):
    return state * chunk

def job(name, power=1.0):
    return ec.SumJob(partial=part, update=lambda state, total: total / 6.0, state=np.full(3, power),
                     chunks=[1.0, 2.0, 3.0], iterations=4, name=name)

listed = [job("a"), job("b", 2.0)]
one = job("one")
timed = [(0.0, job("first")), (0.05, job("second/odd name"))]
nothing = 3
wrong = [1, 2]

def made():
    yield job("made")

def broken():
    bad = job("bad")
    bad.partial = lambda state, chunk: 1 / 0
    return [bad, job("good")]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "some_jobs.py"
    path.write_text(textwrap.dedent(JOBS))
    return path


@pytest.mark.parametrize("name", ["listed", "one", "timed", "made"])
def test_jobs_of_a_file_are_run_and_reported(run, file, name):
    code, out, _ = run("run", f"{file}:{name}", "--cluster", "threads", "--workers", 2, "--json")
    assert code == 0
    found = json.loads(out)["jobs"]
    names = {"listed": ["a", "b"], "one": ["one"], "timed": ["first", "second/odd name"], "made": ["made"]}[name]
    assert [job["name"] for job in found] == names
    assert all(job["iterations"] == 4 and job["failed"] is None and job["delay"] > 0 for job in found)


def test_results_are_checked_where_that_is_asked_for(run, file):
    arguments = ["run", f"{file}:one", "--cluster", "virtual", "--workers", 3, "--redundancy", 1.0, "--json"]
    code, out, _ = run(*arguments, "--verify", "vote")
    assert code == 0
    assert json.loads(out)["jobs"][0]["failed"] is None
    code, _, err = run(*arguments, "--verify", "spare")
    assert code == 2
    assert "'spare' is not allowed with 3 rows" in err


def test_results_and_record_are_written_and_functions_reach_worker_processes(run, file, tmp_path):
    folder, record = tmp_path / "results", tmp_path / "run.jsonl"
    arguments = ["run", f"{file}:listed", "--workers", 2, "--results", folder, "--record", record]
    code, out, _ = run(*arguments)
    assert code == 0
    assert "Mean delay" in out
    np.testing.assert_allclose(np.load(folder / "0001-b.npy"), 2.0)
    code, out, _ = run("report", record, "--json")
    assert code == 0
    assert len(json.loads(out)["jobs"]) == 2


def test_metrics_are_written_and_say_what_the_report_says(run, file, tmp_path):
    record, metrics = tmp_path / "run.jsonl", tmp_path / "echelon.prom"
    options = ["--cluster", "threads", "--workers", 3, "--redundancy", 1.5, "--record", record, "--metrics", metrics]
    assert run("run", f"{file}:listed", *options)[0] == 0
    said, found = json.loads(run("report", record, "--json")[1]), totals(metrics.read_text())
    received = by_label(metrics.read_text(), "echelon_rows_received_total", "outcome")
    assert found["echelon_round_seconds_count"] == said["rounds"] == 8
    assert {key: round(said["rounds"] * mean) for key, mean in said["messages"].items()} == {
        "needed": found["echelon_rows_needed_total"],
        "planned": found["echelon_rows_planned_total"],
        "received": received["new"] + received["again"] + found["echelon_rows_carried_total"],
    }
    assert found["echelon_job_delay_seconds_sum"] / 2 == pytest.approx(said["delay"]["mean"], abs=1e-5)
    assert set(by_label(metrics.read_text(), "echelon_worker_up", "worker")) == {
        worker["name"] for worker in said["workers"]
    }


def test_a_job_that_fails_is_told_and_ends_in_exit_code_1(run, file):
    code, out, err = run("run", f"{file}:broken", "--cluster", "threads", "--workers", 2)
    assert code == 1
    assert "ZeroDivisionError" in err
    assert "failed" in out
    assert "good" in out


def test_names_with_brackets_and_colons_are_told_as_they_are_and_stop_nothing(run, tmp_path):
    """To a terminal's markup they would look like tags that are closed and never opened."""
    file = tmp_path / "jobs [a].py"
    file.write_text(
        "import numpy as np\n"
        "from echelon import SumJob\n"
        "def bad(state, chunk):\n    raise ValueError('[/b] :smile:')\n"
        "def good(state, chunk):\n    return np.ones(1)\n"
        "def job(partial, name):\n"
        "    update = lambda old, new: new\n"
        "    return SumJob(partial=partial, update=update, state=0.0, chunks=[1], iterations=1, name=name)\n"
        "jobs = [job(bad, 'lr=[/0.1]'), job(good, '[red]:smile:')]\n"
    )
    record = tmp_path / "[red].jsonl"
    arguments = ["run", f"{file}:jobs", "--cluster", "threads", "--workers", 2, "--record", record]
    code, out, err = run(*arguments)
    assert code == 1
    assert "lr=[/0.1] failed" in err
    assert "ValueError: [/b] :smile:" in err
    assert "raise ValueError" in err
    assert "lr=[/0.1]" in out
    assert "[red]:smile:" in out
    code, out, _ = run("report", record)
    assert code == 0
    assert "lr=[/0.1]" in out
    code, out, _ = run(*arguments[:-2], "--json")
    assert [job["name"] for job in json.loads(out)["jobs"]] == ["lr=[/0.1]", "[red]:smile:"]
    assert "raise ValueError" in json.loads(out)["jobs"][0]["traceback"]


def test_emulated_times_can_be_scaled(run, file):
    example = ROOT / "examples" / "example2.toml"
    arguments = ["run", f"{file}:one", "--cluster", "threads", "--emulate", example, "--time-scale", 0.001, "--json"]
    code, out, _ = run(*arguments)
    assert code == 0
    assert json.loads(out)["jobs"][0]["iterations"] == 4


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("nowhere.py:jobs", "must be FILE.py:NAME"),
        ("some_jobs.py", "must be FILE.py:NAME"),
        ("some_jobs.py:missing", "has no such name"),
        ("some_jobs.py:nothing", "must be jobs, or a function"),
        ("some_jobs.py:wrong", r"wrong[0]: int is not allowed"),
    ],
)
def test_what_holds_no_jobs_is_refused_in_one_line(run, monkeypatch, file, where, said):
    monkeypatch.chdir(file.parent)
    code, _, err = run("run", where, "--cluster", "threads", "--workers", 1)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_real_workers_are_measured_into_a_profile_that_can_be_planned_with(run, file, tmp_path):
    path = tmp_path / "cluster.toml"
    arguments = ["profile", "--workers", 2, "--seconds", 0.3, "--out", path, "--json"]
    code, out, _ = run(*arguments)
    assert code == 0
    seen = json.loads(out)
    assert seen["rounds"] >= 1
    profile = read_profile(path)
    assert [worker.mean for worker in profile.workers] == pytest.approx([w["mean"] for w in seen["workers"]])
    assert all(worker.mean > 0 for worker in profile.workers)
    assert seen["costs"]["message"] == profile.costs.message > 0
    assert profile.costs.round > 0
    assert 0 < profile.costs.bandwidth < float("inf")
    code, out, _ = run("plan", path, "--json")
    assert code == 0
    assert sum(json.loads(out)["split"]) == profile.workload.tasks

    code, out, _ = run(
        "profile", "--workers", 1, "--cluster", "threads", "--job", f"{file}:listed",
        "--seconds", 0.2, "--out", path,
    )  # fmt: skip
    assert code == 0
    assert "is a guess" in out
    assert read_profile(path).workload.critical == 3


def test_jobs_may_run_by_the_best_strategy(run, file, tmp_path):
    code, out, _ = run("run", f"{file}:listed", "--workers", 2, "--cluster", "threads", "--strategy", "auto", "--json")
    assert code == 0
    assert json.loads(out)["jobs"]
    code, _, err = run("run", f"{file}:listed", "--strategy", "best")
    assert code == 2
    assert "strategy: 'best' is not allowed" in err


def test_a_job_file_that_needs_a_missing_package_is_one_line(run, tmp_path):
    path = tmp_path / "needs.py"
    path.write_text("def jobs():\n    import no_such_package\n")
    code, _, err = run("run", f"{path}:jobs", "--workers", 1, "--cluster", "threads")
    assert code == 2
    assert err.strip() == "echelon: No module named 'no_such_package'"


@pytest.fixture
def profile(tmp_path):
    job = Workload(critical=3, redundancy=1.2, iterations=4, arrivals=Arrivals.poisson(0.01))
    workers = [Worker("quick", mean=1.0, std=0.5), Worker("slow", mean=3.0, std=1.0, link=0.5)]
    path = tmp_path / "cluster.toml"
    write_profile(Profile(job, workers), path)
    return path


def test_runs_in_virtual_time_with_one_seed_write_equal_records(run, file, profile, tmp_path):
    records = []
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        record = tmp_path / name
        arguments = ["--cluster", "virtual", "--profile", profile, "--record", record, "--seed", seed, "--json"]
        code, out, _ = run("run", f"{file}:timed", *arguments)
        assert code == 0
        assert all(job["failed"] is None and job["delay"] > 1.0 for job in json.loads(out)["jobs"])
        records.append(record.read_bytes())
    assert records[0] == records[1] != records[2]
    code, out, _ = run("report", tmp_path / "one", "--json")
    assert code == 0
    assert [job["arrival"] for job in json.loads(out)["jobs"]] == [0.0, 0.05]


def test_what_a_cluster_is_told_by_options_reaches_it(run, file, profile):
    arguments = ["run", f"{file}:one", "--profile", profile, "--json", "--cluster"]
    assert run(*arguments, "virtual")[0] == 0
    code, _, err = run(*arguments, "virtual:paces=[]")
    assert code == 2
    assert "workers, emulate: not allowed together with paces" in err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("faults", "cluster: 'faults' is not allowed; must be KEY=VALUE"),
        ("=3", "cluster: '=3' is not allowed; must be KEY=VALUE"),
        ("colour=red", "cluster: 'colour' is not allowed; virtual takes paces, faults"),
        ("seed=3", "cluster: 'seed' is not allowed; virtual takes paces, faults"),
        ("faults=3", "cluster: faults is not allowed; it can't be written as a text"),
    ],
)
def test_options_that_a_cluster_does_not_take_are_refused_in_one_line(run, file, option, said):
    code, _, err = run("run", f"{file}:one", "--cluster", f"virtual:{option}", "--workers", 2)
    assert code == 2
    assert said in " ".join(err.split())
