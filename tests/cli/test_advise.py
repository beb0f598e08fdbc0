"""`echelon advise`, as a user meets it."""

import json

import pytest

from tests.conftest import ROOT

EXAMPLE = ROOT / "examples" / "example2.toml"


def test_advice_ranks_strategies_and_says_why(run):
    code, out, err = run("advise", EXAMPLE, "--json")
    said = json.loads(out)
    assert (code, err) == (0, "")
    assert set(said) == {"work", "best", "why", "coding_pays", "checked", "strategies"}
    assert 1.5 < said["checked"]["vote"] < 2.5
    assert 1.0 < said["checked"]["spare"] < 1.5
    assert said["best"] == said["strategies"][0]["name"]
    assert said["coding_pays"] is False
    assert "coding does not pay" in said["why"]
    names = [strategy["name"] for strategy in said["strategies"]]
    assert {"uncoded, uniform", "pulled by 1", "gradient code, 2 parts a row"} <= set(names)
    low, high = said["strategies"][0]["interval"]
    assert low < said["strategies"][0]["iteration"] < high


def test_products_with_a_vector_are_worth_coding_there(run):
    code, out, _ = run("advise", EXAMPLE, "--work", "linear", "--top", 3)
    assert code == 0
    assert "coding pays" in out
    assert "MDS" in out


def test_loading_is_said_where_the_size_of_a_part_is_given(run, tmp_path):
    """10 parts of 1 MB on five workers at 10 MB/s: pulled, a worker may get all but the first of the four others."""
    text, small, profile = EXAMPLE.read_text().replace("= 50 ", "= 10 "), tmp_path / "s.toml", tmp_path / "p.toml"
    small.write_text(text)
    profile.write_text(text + "\n[costs]\nbandwidth = 1e7\n")
    code, out, err = run("advise", profile, "--bytes-per-part", 1e6, "--json")
    assert (code, err) == (0, "")
    loading = {strategy["name"]: strategy["loading"] for strategy in json.loads(out)["strategies"]}
    assert loading["pulled by 1"] == pytest.approx(0.6)
    assert loading["uncoded, uniform"] == pytest.approx(0.2)
    code, out, err = run("advise", profile, "--bytes-per-part", 1e6, "--top", 2)
    assert "loading (s)" in out
    assert "loading" not in run("advise", small, "--top", 2)[1]


SAID = {"master": "The master adds.", "responders": "The responders add."}


def test_planes_are_charged_and_named(run, tmp_path):
    profile = tmp_path / "p.toml"
    text = EXAMPLE.read_text().replace("= 50 ", "= 10 ")
    took = {}
    for plane in SAID:
        profile.write_text(f'{text}\n[costs]\nbandwidth = 1e9\nport = 1e9\nplane = "{plane}"\n')
        sizes = ["--bytes-per-message", 1e9, "--bytes-of-state", 1e9]
        code, out, err = run("advise", profile, "--top", 2, *sizes)
        assert (code, err) == (0, "")
        assert "strategies were not tried: " in out
        told = json.loads(run("advise", profile, "--json", *sizes)[1])
        # pieces of a sum are several sums of the same rows, which the master forms
        assert {one["plane"] for one in told["strategies"] if "short messages" not in one["name"]} == {plane}
        assert SAID[told["strategies"][0]["plane"]] in out
        assert "pulled by 1, with copies" in told["refused"]
        took[plane] = told["strategies"][0]["iteration"]
    assert took["responders"] < took["master"]
    assert "adds" not in run("advise", EXAMPLE, "--top", 2)[1]


def test_a_record_serves_as_well_as_a_profile(run, tmp_path):
    record = tmp_path / "run.jsonl"
    run(
        "run",
        f"{ROOT}/examples/jobs/power_iteration.py:job",
        "--workers",
        2,
        "--cluster",
        "threads",
        "--record",
        record,
    )
    code, out, err = run("advise", record, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["strategies"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--work", "nonsense"], "work: 'nonsense' is not allowed"),
        (["--bytes-per-message", "-1"], "bytes_per_message: -1.0 is not allowed"),
        (["--bytes-of-state", "-1"], "bytes_of_state: -1.0 is not allowed"),
        (["--bytes-per-part", "nan"], "bytes_per_part: nan is not allowed"),
        (["--work", "product", "--delay-rounds", "-1"], "delay_rounds: -1 is not allowed"),
        (["--work", "product", "--waiting", "never"], "waiting: 'never' is not allowed; must be one of due, fastest"),
    ],
)
def test_silly_arguments_are_one_clear_line(run, arguments, said):
    code, _, err = run("advise", EXAMPLE, *arguments)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_file_that_is_not_there_is_one_clear_line(run, tmp_path):
    code, _, err = run("advise", tmp_path / "none.toml")
    assert code == 2
    assert len(err.strip().splitlines()) == 1
