"""One file of a user on several clusters: the same results, and in virtual time the same run to the last byte."""

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT

JOBS = f"{ROOT / 'examples' / 'digits.py'}:jobs"
PROFILE = ROOT / "examples" / "example2.toml"


def results(run, folder: Path, *arguments) -> list[np.ndarray]:
    code, _, err = run("run", JOBS, "--results", folder, *arguments)
    assert code == 0, err
    return [np.load(path)["arr_0"] for path in sorted(folder.glob("*.npz"))]


@pytest.fixture
def in_virtual_time(run, tmp_path):
    arguments = ["--cluster", "virtual", "--profile", PROFILE]
    return results(run, tmp_path / "virtual", *arguments, "--record", tmp_path / "record")


@pytest.mark.parametrize("cluster", ["threads", "processes"])
def test_results_are_those_of_virtual_time(run, tmp_path, in_virtual_time, cluster):
    found = results(run, tmp_path / cluster, "--cluster", cluster, "--workers", 2)
    assert len(found) == len(in_virtual_time) == 8
    for one, other in zip(found, in_virtual_time, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_two_runs_with_one_seed_write_equal_records(run, tmp_path, in_virtual_time):
    results(run, tmp_path / "again", "--cluster", "virtual", "--profile", PROFILE, "--record", tmp_path / "second")
    first, second = (tmp_path / "record").read_bytes(), (tmp_path / "second").read_bytes()
    assert first == second
    assert first.count(b'"kind":"round"') == 80
