"""`echelon reproduce traces --table`: codes on a table of one's own, and what is wrong with one, in a line."""

import json

import numpy as np
import pytest

from echelon.delays import RecordedTimes
from echelon.papers.trace_codes import Recording
from tests.conftest import ROOT

LAMBDA = ROOT / "examples" / "lambda" / "lambda.npz"


def test_the_command_prints_the_figures_of_any_table(run, tmp_path):
    code, out, _ = run("reproduce", "traces", "--table", LAMBDA, "--family", "cnn", "--json")
    told = json.loads(out)
    assert code == 0
    assert list(told) == ["rounds", "slope", "uncoded", "cyclic", "repetition", "graph", "median"]
    assert (told["rounds"], told["cyclic"]["s"], told["repetition"]["8"]) == (30, 35, pytest.approx(20.540, abs=1e-3))
    idle = np.random.default_rng(3).exponential(1.0, (7, 12))
    tables = {0.0: idle, 1.0: idle + 2.0}
    mine = tmp_path / "mine.npz"
    np.savez(mine, **{f"mine@{load:g}": times for load, times in tables.items()}, **{"other@0": tables[0.0]})
    code, out, _ = run("reproduce", "traces", "--table", mine, "--family", "mine")
    assert code == 0
    assert "graph, 4 copies" in out
    code, out, _ = run("reproduce", "traces", "--table", mine, "--family", "other", "--slope", 2, "--json")
    assert json.loads(out)["uncoded"] == pytest.approx(Recording(RecordedTimes(tables)).figures().uncoded)


def test_a_table_whose_data_has_a_fixed_cost_is_taken_from_its_least_data_on_and_that_is_told(run):
    """Of the residual network: with load 0, where no weights travel, its codes would look ten times as good."""
    asked = ("reproduce", "traces", "--table", LAMBDA, "--family", "resnet18", "--json")
    code, out, err = run(*asked)
    assert code == 0
    assert "Any data at all costs 16.3 s more than none: load 0 is left out" in err
    with np.load(LAMBDA) as arrays:
        loads = [0.02, 0.25, 0.5, 0.75, 1.0]
        tables = [arrays[f"resnet18@{load:g}"].astype(float) for load in loads]
    slope = np.polyfit(loads, [np.median(table) for table in tables], 1)[0]
    uncoded = (tables[0].max(axis=1) + slope * (1 / 256 - 0.02)).sum()
    told = json.loads(out)
    assert (told["rounds"], told["slope"]) == (25, pytest.approx(slope))
    assert told["uncoded"] == pytest.approx(uncoded)
    assert json.loads(run(*asked, "--load", 0.02)[1]) == told
    code, out, err = run(*asked, "--load", 0)
    assert (json.loads(out)["slope"], err) == (pytest.approx(9.262, abs=1e-3), "")


@pytest.mark.parametrize(
    ("arrays", "family", "said"),
    [
        ({"cnn@0": np.ones((3, 4))}, "cnn", "only load 0 was recorded; another load is needed"),
        (
            {"cnn@0.5": np.ones((3, 4)), "cnn@1": np.ones((3, 4))},
            "cnn",
            "load 0 is needed, and only 0.5, 1 was recorded",
        ),
        ({"cnn@0": np.ones((3, 4))}, "vgg", "family: 'vgg' is not allowed; must be one of cnn"),
        ({"cnn@0": np.full((3, 4), np.nan), "cnn@1": np.ones((3, 4))}, "cnn", "times: must be finite and > 0"),
        ({"cnn@0": np.ones((3, 1)), "cnn@1": np.ones((3, 1))}, "cnn", "1 workers are not allowed; must be 2 to"),
        ({"cnn@0": np.ones((3, 4)), "cnn@1": np.ones((2, 4))}, "cnn", "must be one shape"),
        ({"cnn@0": np.ones(3), "cnn@1": np.ones(3)}, "cnn", "must be one shape, (rounds, workers)"),
        ({"cnn@0": np.full((3, 4), 2.0), "cnn@1": np.ones((3, 4))}, "cnn", "slope: -1.0 is not allowed"),
        ({"cnn@all": np.ones((3, 4))}, "cnn", "keys: must be family@load"),
        ({"cnn": np.ones((3, 4))}, "cnn", "keys: must be family@load, such as cnn@0.25; found: 'cnn'"),
    ],
)
def test_a_table_that_does_not_do_is_one_clear_line(run, tmp_path, arrays, family, said):
    path = tmp_path / "table.npz"
    np.savez(path, **arrays)
    code, out, err = run("reproduce", "traces", "--table", path, "--family", family, "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert err.startswith(f"echelon: {path}: ")


@pytest.mark.parametrize("content", [b"", b"rounds of workers\n", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_npz_is_one_clear_line(run, tmp_path, content):
    path = tmp_path / "table.npz"
    path.write_bytes(content)
    code, _, err = run("reproduce", "traces", "--table", path, "--family", "cnn", "--json")
    assert (code, err) == (2, f"echelon: {path}: not an NPZ file\n")


def test_options_of_a_table_go_with_one_and_with_traces(run):
    for arguments, said in (
        (["mmc", "--table", LAMBDA], "table: not allowed for mmc; it is for traces"),
        (["traces", "--family", "cnn"], "family: needs a table, --table FILE.npz"),
        (["traces", "--slope", 1], "slope: needs a table, --table FILE.npz"),
        (["traces", "--load", 0.5], "load: needs a table, --table FILE.npz"),
        (["traces", "--table", LAMBDA, "--family", "cnn", "--load", 0.3], "load 0.3 is needed, and only 0.5, 0.75, 1"),
        (["traces", "--table", LAMBDA, "--family", "cnn", "--load", 2], "load: 2 is not allowed; must be at most 1"),
        (["traces", "--table", LAMBDA, "--family", "cnn", "--slope", -1], "slope: -1.0 is not allowed"),
        (["traces", "--table", ROOT / "no.npz"], "no.npz: can't be read"),
    ):
        code, _, err = run("reproduce", *arguments)
        assert (code, err.count("\n")) == (2, 1)
        assert said in err
