"""Damaged files, drawn from fixed seeds; `python -m bench.mutated` runs thousands, with limits on time and memory."""

import json

import pytest

from bench.mutated import CHANGES, Case, commands, journals, outcome, profiles, records

COUNT = 180


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    return {"profile": profiles(), "record": records(folder), "journal": journals(folder)}


def test_undamaged_files_are_read_by_every_command(good, tmp_path):
    for kind, files in good.items():
        for number, data in enumerate(files):
            path = tmp_path / f"{number}.{kind}"
            path.write_bytes(data)
            for command in commands(kind, path):
                assert outcome(command) == (0, ""), command


def test_damaged_files_give_one_line_and_exit_code_2_or_are_read(good, tmp_path):
    for seed in range(COUNT):
        wrong = Case.drawn(seed, good).run(tmp_path)
        assert not wrong, f"seed {seed}: {wrong}"


def test_a_case_is_the_same_every_time_and_every_change_changes_something(good):
    assert Case.drawn(3, good) == Case.drawn(3, good)
    assert len({Case.drawn(seed, good).data for seed in range(30)}) >= 28
    assert len(set(CHANGES)) == 8


def test_names_that_mean_something_to_a_terminal_or_a_picture_are_shown_as_they_are(good, run, tmp_path):
    path = tmp_path / "run.jsonl"
    for name in ("[/b]", "[red]", "$x^{$", "a\nb", "\ud800", "long " * 100):
        head, *rest = good["record"][0].decode().splitlines()
        first = json.loads(head)
        first["names"][0] = first["split"] = name
        path.write_text("\n".join([json.dumps(first), *rest]) + "\n")
        code, out, err = run("report", path)
        assert (code, err) == (0, ""), name
        assert name.encode("utf-8", "replace").decode().split()[0] in out


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("iterations", 10**9, "iterations: 1000000000 is not allowed; must be at most 1000000"),
        ("critical", 10**9, "they sum to 1100000000"),
        ("critical", "9" * 4000, "is not allowed"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_numbers_that_would_take_for_ever_are_refused_at_once(good, run, tmp_path, command, key, value, said):
    path = tmp_path / "large.toml"
    path.write_text(good["profile"][0].decode().replace(f"{key} = 50 ", f"{key} = {value} "))
    code, out, err = run(command, path)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err) < 1100
    assert err.count("\n") == 1


def test_a_large_round_is_planned_without_its_lower_bound(good, run, tmp_path):
    path = tmp_path / "large.toml"
    path.write_text(good["profile"][0].decode().replace("critical = 50 ", "critical = 30000 "))
    code, out, _ = run("plan", path)
    assert code == 0
    assert "No lower bound is known for all workers: workers times critical rows are more than 100000" in out
