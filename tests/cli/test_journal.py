"""`echelon journal`, and what `echelon run` does with journals, results and disks that are not as they should be."""

import errno
import json
import pickle
import shutil
import sqlite3
import textwrap

import numpy as np
import pytest

import echelon as ec
from echelon.cli import run as run_module
from tests.stream.jobs import sum_job, sum_result

JOBS = """
import echelon as ec

def job(name):
    return ec.SumJob(partial=lambda state, chunk: state * chunk, update=lambda state, total: total / 6.0, state=1.0,
                     chunks=[1.0, 2.0, 3.0], iterations=4, name=name)

listed = [job("a"), job("b"), job("c")]
"""
VIRTUAL = "--cluster", "virtual", "--workers", 2


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "journalled_jobs.py"
    path.write_text(textwrap.dedent(JOBS))
    return path


def journal_of(path):
    """Make a journal with a job that is finished, one that failed, and one that is open."""
    bad = sum_job(2, name="bad")
    bad.update = lambda state, total: 1 / 0
    stream = ec.Stream("virtual", workers=2, journal=path)
    stream.submit(sum_job(1, name="good [/b]"), key="fit")
    stream.submit(bad)
    stream.submit(sum_job(3, iterations=1000))
    stream.sleep(150.0)
    stream.close(wait=False)
    return path


def listed(run, path):
    code, out, err = run("journal", path, "--json")
    assert (code, err) == (0, "")
    return {job["number"]: job for job in json.loads(out)["jobs"]}


def test_a_journal_lists_its_jobs_and_unpickles_none(run, tmp_path, monkeypatch):
    path = journal_of(tmp_path / "journal")
    monkeypatch.setattr(pickle, "loads", None)
    jobs = listed(run, path)
    assert [(jobs[n]["name"], jobs[n]["key"], jobs[n]["status"]) for n in (1, 2, 3)] == [
        ("good [/b]", "fit", "finished"), ("bad", None, "failed"), ("job 3", None, "open"),
    ]  # fmt: skip
    assert jobs[1]["iteration"] == 8
    assert all(job["nbytes"] > 100 for job in jobs.values())
    assert "ZeroDivisionError" in jobs[2]["reason"]
    code, out, _ = run("journal", path)
    assert code == 0
    assert "good [/b]" in out
    assert "ZeroDivisionError: division by zero" in out


def test_a_job_of_a_journal_is_dropped_retried_or_exported(run, tmp_path):
    path = journal_of(tmp_path / "journal")
    code, out, _ = run("journal", path, "--export", 1, tmp_path / "state.pkl")
    assert code == 0
    assert "the state of job 1 (good [/b]) after 8 iterations" in out.replace("\n", "")
    np.testing.assert_allclose(pickle.loads((tmp_path / "state.pkl").read_bytes()), sum_result(1), rtol=1e-9)
    assert run("journal", path, "--drop", 3)[0] == 0
    assert run("journal", path, "--retry", 2)[0] == 0
    assert [job["status"] for job in listed(run, path).values()] == ["finished", "open", "dropped"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--drop", 9], "number: 9 is not allowed; no such job is in this journal"),
        (["--retry", 1], "number: 1 is not allowed; must be a job that failed or was set aside"),
        (["--drop", 1, "--retry", 2], "drop, retry, export: not allowed together"),
        (["--export", 2, "out"], "job 2 (bad) has no state yet, or is dropped: there is nothing to export"),
    ],
)
def test_what_cant_be_done_with_a_journal_is_one_line(run, tmp_path, arguments, said):
    code, _, err = run("journal", journal_of(tmp_path / "journal"), *arguments)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_journal_that_a_program_holds_is_listed_and_not_changed(run, tmp_path):
    path = tmp_path / "journal"
    with ec.Stream("virtual", workers=2, journal=path) as stream:
        handle = stream.submit(sum_job(1))
        stream.sleep(10.0)
        assert listed(run, path)[1]["iteration"] == handle.iteration > 0
        code, _, err = run("journal", path, "--drop", 1)
        assert (code, len(err.strip().splitlines())) == (2, 1)
        assert "holds it: wait until that has ended" in err
        np.testing.assert_allclose(handle.result(), sum_result(1), rtol=1e-9)


def test_a_journal_that_is_not_there_is_not_made(run, tmp_path):
    code, _, err = run("journal", tmp_path / "none")
    assert code == 2
    assert "must be the journal of a stream, and be there" in err
    assert not (tmp_path / "none").exists()


def test_a_result_that_cant_be_written_is_not_delivered_and_the_next_run_writes_it(run, file, tmp_path, monkeypatch):
    journal, results = tmp_path / "journal", tmp_path / "results"
    arguments = ["run", f"{file}:listed", *VIRTUAL, "--journal", journal, "--results", results]

    def full(folder, done):
        if done.name == "b":
            raise OSError(errno.ENOSPC, "No space left on device", str(folder / "0002-b.npy"))
        save(folder, done)

    save = run_module.save_result
    with monkeypatch.context() as patched:
        patched.setattr(run_module, "save_result", full)
        code, _, err = run(*arguments)
    assert code == 1
    assert len(err.strip().splitlines()) == 1
    assert "b: its result can't be written: [Errno 28] No space left on device" in err
    assert [job["status"] for job in listed(run, journal).values()][:2] == ["delivered", "finished"]
    code, _, _ = run(*arguments)
    assert code == 0
    assert sorted(path.name for path in results.iterdir()) == ["0001-a.npy", "0002-b.npy", "0003-c.npy"]
    assert {job["status"] for job in listed(run, journal).values()} == {"delivered"}


def test_without_a_journal_the_other_results_are_written_and_the_run_ends_in_exit_code_1(run, file, tmp_path):
    results = tmp_path / "results"
    (results / "0001-b.npy").mkdir(parents=True)
    code, out, err = run("run", f"{file}:listed", *VIRTUAL, "--results", results)
    assert code == 1
    assert "b: its result can't be written" in err
    assert sorted(path.name for path in results.iterdir()) == ["0000-a.npy", "0001-b.npy", "0002-c.npy"]
    assert "Mean delay" in out


def test_a_result_that_is_no_array_stays_in_the_journal_and_holds_nobody_up(run, file, tmp_path, monkeypatch):
    def refuse(folder, done):
        if done.name == "a":
            raise ValueError("no array")

    monkeypatch.setattr(run_module, "save_result", refuse)
    journal, results = tmp_path / "journal", tmp_path / "results"
    arguments = ["run", f"{file}:listed", *VIRTUAL, "--journal", journal, "--results", results]
    code, _, err = run(*arguments)
    assert code == 1
    assert "--export 1 OUT' gives it as a pickle" in err
    assert run("journal", journal, "--export", 1, tmp_path / "odd.pkl")[0] == 0
    assert {job["status"] for job in listed(run, journal).values()} == {"delivered"}


# journals that somebody damaged


def flip(rng, path):
    data = bytearray(path.read_bytes())
    for at in rng.integers(0, len(data), rng.integers(1, 30)):
        data[at] ^= int(rng.integers(1, 256))
    path.write_bytes(data)


def cut(rng, path):
    data = path.read_bytes()
    path.write_bytes(data[: int(rng.integers(0, len(data)))])


def blank(rng, path):
    data = bytearray(path.read_bytes())
    page = int(rng.integers(0, len(data) // 4096))
    data[page * 4096 : (page + 1) * 4096] = bytes(4096)
    path.write_bytes(data)


def alter(rng, path):
    statement = rng.choice(
        [
            "DROP TABLE jobs",
            "ALTER TABLE jobs DROP COLUMN reason",
            "ALTER TABLE jobs RENAME TO others",
            "UPDATE jobs SET iteration = 'many'",
            "UPDATE jobs SET iteration = -7",
            "UPDATE jobs SET name = x'ff00'",
            "UPDATE jobs SET key = 3.5 WHERE number = 1",
            "UPDATE jobs SET state = 'text'",
            "DELETE FROM works",
            "DROP TABLE works",
            "UPDATE works SET job = 3",
            "UPDATE jobs SET (state, state_check) = (SELECT job, job_check FROM works WHERE number = jobs.number)",
            "UPDATE works SET (job, job_check) = (SELECT state, state_check FROM jobs WHERE iteration LIMIT 1)",
            "UPDATE works SET job_check = 'none'",
            "UPDATE jobs SET relative_to_terms = 'big'",
            "UPDATE jobs SET status = 'lost'",
            "UPDATE jobs SET number = 9223372036854775807 WHERE number = 3",
            "UPDATE jobs SET reason = CAST(x'ff' AS TEXT)",
            "PRAGMA user_version = 99",
            "PRAGMA application_id = 99",
        ]
    )
    base = sqlite3.connect(path)
    base.execute("PRAGMA ignore_check_constraints = ON")
    base.execute(str(statement))
    base.commit()
    base.close()


def mutated(run, file, whole, path, seed):
    """Give both commands a damaged journal; return their exit codes."""
    rng = np.random.default_rng(seed)
    for beside in path.parent.glob(f"{path.name}*"):
        beside.unlink()
    shutil.copy(whole, path)
    (flip, flip, cut, blank, alter)[seed % 5](rng, path)
    codes = []
    for arguments in (
        ["journal", path],
        ["run", f"{file}:listed", *VIRTUAL, "--journal", path],
    ):
        if arguments[0] == "journal" or codes[0] == 2 or seed % 3 == 0:
            code, _, err = run(*arguments)
            assert code in (0, 1, 2), (seed, err)
            assert code != 2 or len(err.strip().splitlines()) == 1, (seed, err)
            codes.append(code)
    return codes


def test_a_damaged_journal_gives_one_clear_line_or_its_other_jobs(run, file, tmp_path):
    whole = journal_of(tmp_path / "whole")
    codes = [mutated(run, file, whole, tmp_path / "damaged", seed) for seed in range(60)]
    refused = sum(code == 2 for found in codes for code in found[:1])
    assert refused >= 30
