"""What a record may not say: each damaged entry is named by its line and its field."""

import copy
import json

import pytest

from echelon.errors import ArgumentError
from echelon.stream import read_record

GOOD = [
    {"kind": "run", "format": 1, "names": ["a", "b"], "split": "uniform", "redundancy": 1.5},
    {"kind": "up", "time": 0.1, "worker": 0, "place": 0},
    {"kind": "job", "time": 0.5, "job": 0, "name": "x"},
    {
        "kind": "round", "job": 0, "round": 1, "iteration": 0, "start": 1.0, "end": 3.0, "needed": [1, 1],
        "lanes": {"0": [1.0, 2.0], "1": [1.0]}, "messages": [[0, 0, 0, 0.5, 0.4, 1.0], [1, 1, 1, 2.0, 1.9, 1.0]],
        "rows": {"0": [[0, 0], [1, 0]], "1": [[1, 1]]}, "recovered": [0.5, 2.0],
    },
    {"kind": "down", "time": 2.5, "worker": 1, "place": 1, "reason": "killed"},
    {"kind": "end", "time": 3.5, "job": 0, "outcome": "done"},
]  # fmt: skip
GONE = object()
DAMAGES = [
    (0, ["format"], "1", "format '1' is not allowed; must be 1"),
    (0, ["names"], [], "names: [] is not allowed"),
    (0, ["names"], ["a", "a"], "all different"),
    (0, ["names", 1], 7, "names: 7 is not allowed; must be a text"),
    (0, ["redundancy"], float("nan"), "redundancy: nan is not allowed"),
    (0, ["split"], None, "split: None is not allowed"),
    (2, ["time"], "soon", "time: 'soon' is not allowed"),
    (2, ["time"], -1.0, "time: -1.0 is not allowed"),
    (2, ["time"], 1e308, "time: 1e+308 is not allowed"),
    (2, ["job"], 0.5, "job: 0.5 is not allowed"),
    (2, ["job"], GONE, "job: missing; every entry of kind 'job' has it"),
    (2, ["kind"], "run", "must be the first entry, and no other"),
    (3, ["job"], 4, "job: 4 is not allowed; must be one that came in before"),
    (3, ["start"], 0.1, "start: 0.1 is not allowed; must be at least 0.5"),
    (3, ["end"], 0.9, "end: 0.9 is not allowed; must be at least 1.0"),
    (3, ["iteration"], -1, "iteration: -1 is not allowed"),
    (3, ["needed"], [], "needed: [] is not allowed"),
    (3, ["needed", 0], 0, "needed: 0 is not allowed"),
    (3, ["lanes"], [1.0], "lanes: [1.0] is not allowed; must be lists by place"),
    (3, ["lanes", "2"], [1.0], "lanes: 2 is not allowed; must be at most 1"),
    (3, ["lanes", "b"], [1.0], "lanes: 'b' is not allowed"),
    (3, ["lanes", "1"], [], "none of them empty"),
    (3, ["lanes", "1"], [0.0], "lanes: 0.0 is not allowed"),
    (3, ["lanes", "1"], [1.0, 1.0], "rows: these are not allowed; must be one slot and row for each task of lanes"),
    (3, ["rows", "1", 0], [2, 1], "rows: 2 is not allowed; must be at most 1"),
    (3, ["rows", "1", 0], 1, "rows: 1 is not allowed; must be a slot and a row"),
    (3, ["recovered"], [0.5], "recovered: [0.5] is not allowed"),
    (3, ["recovered", 1], 9.0, "must be one time within the round per slot"),
    (3, ["came"], -1, "came: -1 is not allowed"),
    (3, ["messages"], None, "messages: None is not allowed; must be a list"),
    (3, ["messages", 0], [0, 0, 0], "must be six numbers"),
    (3, ["messages", 0, 0], 2, "must be a place < 2"),
    (3, ["messages", 0, 0], True, "must be a place < 2"),
    (3, ["messages", 0, 1], 2, "a slot < 2"),
    (3, ["messages", 0, 2], 0.5, "a row"),
    (3, ["messages", 0, 3], 2.5, "arrival within the round"),
    (3, ["messages", 0, 4], float("nan"), "seconds >= 0"),
    (3, ["messages", 0, 5], 0, "a cost > 0"),
    (4, ["place"], 2, "place: 2 is not allowed; must be at most 1"),
    (5, ["job"], 1, "must be one that came in before"),
    (5, ["outcome"], "gone", "outcome: 'gone' is not allowed; must be one of done, failed, cancelled"),
    (5, ["time"], 0.2, "time: 0.2 is not allowed; must be at least 0.5"),
]


def written(path, entries):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_an_undamaged_record_is_read(tmp_path):
    record = read_record(written(tmp_path / "run", GOOD))
    assert record.rounds[0].rows == {0: [(0, 0), (1, 0)], 1: [(1, 1)]}
    assert (record.losses, record.outcomes) == ([(2.5, 1)], {0: "done"})


@pytest.mark.parametrize(("number", "where", "value", "said"), DAMAGES)
def test_a_damaged_entry_is_named_by_its_line_and_field(tmp_path, number, where, value, said):
    entries = copy.deepcopy(GOOD)
    at = entries[number]
    for key in where[:-1]:
        at = at[key]
    if value is GONE:
        del at[where[-1]]
    else:
        at[where[-1]] = value
    path = written(tmp_path / "run", entries)
    with pytest.raises(ArgumentError) as raised:
        read_record(path)
    assert str(raised.value).startswith(f"{path}: line {number + 1}: ")
    assert said in str(raised.value)


def test_an_entry_that_comes_twice_is_named(tmp_path):
    for number, said in ((0, "must be the first entry"), (2, "came in before"), (5, "ended before")):
        with pytest.raises(ArgumentError, match=said):
            read_record(written(tmp_path / "run", [*GOOD, GOOD[number]]))


def test_lines_that_are_no_entries_are_named_and_a_last_one_that_was_cut_off_is_left_out(tmp_path):
    path = tmp_path / "run"
    lines = [json.dumps(entry) for entry in GOOD]
    for damaged in ("5", "[]", '{"no": 1}', '{"kind": 7}', "{", "[" * 100_000, "9" * 5000):
        path.write_text("\n".join([*lines[:3], damaged, *lines[3:]]))
        with pytest.raises(ArgumentError, match="line 4 is not an entry of a record"):
            read_record(path)
    path.write_text("\n".join([*lines, '{"kind":"rou']))
    assert len(read_record(path).rounds) == 1


def test_kinds_of_entries_that_are_not_known_are_left_out(tmp_path):
    path = written(tmp_path / "run", [*GOOD, {"kind": "weather", "time": "fine"}])
    assert len(read_record(path).rounds) == 1
