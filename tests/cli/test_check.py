"""`echelon check`, as a user calls it before a run."""

import json
from contextlib import nullcontext

import pytest

from echelon import read_profile, write_profile
from echelon.profile import Arrivals, Profile, Worker, Workload


@pytest.fixture
def emulated(tmp_path):
    job = Workload(critical=8, redundancy=1.0, iterations=5, arrivals=Arrivals.poisson(0.01))
    bursts = {"enter": 0.005, "leave": 0.01, "slowdown": 2.5}
    workers = [
        Worker("a", mean=0.01, std=0.002, link=0.001),
        Worker("b", mean=0.01, std=0.002, link=0.001),
        Worker("c", mean=0.03, std=0.005, link=0.001),
        Worker("d", mean=0.01, std=0.002, link=0.02),
        Worker("e", mean=0.01, std=0.01, link=0.001, law="gilbert_elliott", parameters=bursts),
    ]
    path = tmp_path / "cluster.toml"
    write_profile(Profile(job, workers), path)
    return path


def test_slow_far_and_flapping_workers_are_named_and_the_exit_code_is_3(run, emulated, tmp_path):
    arguments = ["check", "--cluster", "virtual", "--emulate", emulated, "--seconds", 60]
    code, out, err = run(*arguments, "--profile", tmp_path / "here.toml")
    assert (code, err) == (3, "")
    for words in (
        "c is slow (a part takes 3.", "d is far (20.0 ms late)", "e is flapping (up to 2.",
        "Written to",
    ):  # fmt: skip
        assert words in out
    assert "a is" not in out
    measured = read_profile(tmp_path / "here.toml")
    assert measured.speeds.mean[:4] == pytest.approx([0.01, 0.01, 0.03, 0.01], rel=0.03)
    assert measured.speeds.link[:4] == pytest.approx([0.001, 0.001, 0.001, 0.02], rel=0.01)
    code, out, _ = run(*arguments, "--json")
    said = json.loads(out)
    assert (code, said["fine"], said["profile"]) == (3, False, None)
    assert [worker["faults"] for worker in said["workers"]] == [[], [], ["slow"], ["far"], ["flapping"]]


def test_fine_workers_end_with_exit_code_0(run):
    code, out, err = run("check", "--cluster", "virtual", "--workers", 3)
    assert (code, err) == (0, "")
    assert "All 3 workers are fine." in out
    code, out, _ = run("check", "--cluster", "virtual", "--workers", 1)
    assert code == 0
    assert "The worker is fine." in out


def test_real_workers_are_measured(run, tmp_path):
    """What they are found to be depends on the machine."""
    code, out, _ = run("check", "--cluster", "threads", "--workers", 2, "--seconds", 0.3, "--json")
    said = json.loads(out)
    assert code == (0 if said["fine"] else 3)
    assert [worker["name"] for worker in said["workers"]] == ["w1", "w2"]
    assert all(worker["mean"] > 0 for worker in said["workers"])
    assert all((worker["name"] in said["sentence"]) == bool(worker["faults"]) for worker in said["workers"])


def test_progress_goes_on_while_it_measures(monkeypatch, run):
    told = []
    monkeypatch.setattr(
        "echelon.cli.check.progress", lambda label: nullcontext(lambda done, of: told.append((done, of)))
    )
    assert run("check", "--cluster", "virtual", "--workers", 2, "--seconds", 60)[0] == 0
    assert told == [(10_000 * i, 60_000) for i in range(1, 7)]


def test_what_can_not_be_measured_is_one_line_and_exit_code_2(run, tmp_path):
    for arguments in (["--cluster", "cloud"], ["--job", "nowhere.py:jobs", "--cluster", "virtual", "--workers", "2"]):
        code, out, err = run("check", *arguments)
        assert (code, out) == (2, "")
        assert err.startswith("echelon: ")
        assert err.count("\n") == 1
