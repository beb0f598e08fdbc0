"""What `echelon report` says of other strategies."""

import json

import pytest

from tests.cli.test_report import record  # noqa: F401
from tests.stream.test_recorded import exponential, purged_run


def test_the_sentence_and_its_tables_are_printed(run, record):  # noqa: F811
    code, out, err = run("report", record)
    assert (code, err) == (0, "")
    lines = " ".join(out.split())
    assert "spent waiting for w" in lines
    assert "by speed" in lines
    assert "On the same times (50 rounds replayed" in lines
    for name in ("uncoded, uniform", "uncoded, by speed", "pulled by 1", "by speed, with copies", "MDS, "):
        assert name in lines


def test_the_json_has_all_of_it(run, record):  # noqa: F811
    said = json.loads(run("report", record, "--json")[1])
    told = said["what_if"]
    assert (told["rounds"], told["replayed"], told["work"]) == (50, 50, "linear")
    assert told["seconds"] == pytest.approx(50 * said["iteration"]["mean"])
    assert len(told["strategies"]) == 5
    assert all(one["seconds"] + one["saved"] == pytest.approx(told["seconds"]) for one in told["strategies"])
    assert " ".join(run("report", record)[1].split()).count(told["sentence"].split(";")[0]) == 1


def test_a_record_that_is_too_short_says_so_in_one_line(run, tmp_path):
    path = tmp_path / "run.jsonl"
    purged_run(path, [exponential(1.0), exponential(2.0)], [[1.0] * 6, [1.0] * 4], 8, rounds=10)
    code, out, _ = run("report", path)
    assert code == 0
    line = next(line for line in out.splitlines() if "too few" in line)
    assert "10 rounds can be replayed, too few to say what others would have taken; 20 are enough." in line
    assert "On the same times" not in out
