"""What other strategies would have taken on the times of a recorded run."""

import json
from dataclasses import replace

import numpy as np
import pytest

from echelon import Stream, SumJob
from echelon.errors import ArgumentError
from echelon.plan import Plan
from echelon.profile import Profile
from echelon.search.strategies import STRATEGIES
from echelon.stream import Record, read_record
from echelon.stream.record import RecordedRound
from echelon.stream.what_if import ENOUGH, what_if
from tests.search.clusters import cluster
from tests.stream.test_recorded import exponential, purged_run

ROUNDS = 300


def ran(profile: Profile, plan: Plan, path, rounds: int = ROUNDS, seed: int = 1) -> Record:
    """Return the record of a run in virtual time: its workers' draws depend on the seed, and not on the plan."""
    job = SumJob(
        partial=lambda state, chunk: np.ones(1),
        update=lambda state, total: state + 1,
        state=0,
        chunks=list(range(profile.workload.critical)),
        iterations=rounds,
        plan=plan,
    )
    # nothing is given out again for being late: a plan is compared, and not what a stream does beside it
    with Stream("virtual", emulate=profile, profile=profile, record=path, patience_s=1e6, seed=seed) as stream:
        stream.submit(job).result()
    return read_record(path)


def total(record: Record) -> float:
    return sum(seen.end - seen.start for seen in record.rounds)


def steady(counts, paces, rounds=ENOUGH, **more) -> Record:
    """Return rounds of uncoded shares in which each worker's parts take its pace, and no link."""
    lanes = {place: [1.0] * count for place, count in enumerate(counts)}
    firsts = np.cumsum([0, *counts])
    messages = sorted(
        (
            (place, 0, int(firsts[place]) + j, (j + 1) * paces[place], paces[place], 1.0)
            for place, count in enumerate(counts)
            for j in range(count)
        ),
        key=lambda message: message[3],
    )
    end = messages[-1][3]
    seen = [RecordedRound(0, i, 10.0 * i, 10.0 * i + end, [sum(counts)], lanes, messages) for i in range(rounds)]
    return Record([f"w{p + 1}" for p in range(len(counts))], "uniform", 1.0, arrivals={0: 0.0}, rounds=seen, **more)


@pytest.mark.parametrize("law", [{"law": "gamma"}, {"law": "straggler", "probability": 0.1, "slowdown": 5.0}])
def test_five_strategies_take_in_virtual_time_what_the_replay_says_within_three_per_cent(tmp_path, law):
    """Workers draw the same times whatever the plan is: what differs are parts that the record does not show.

    From seed to seed, that differs by less than 2 % (one deviation, over eight seeds); this seed is one of them.
    """
    name, parameters = law["law"], {key: value for key, value in law.items() if key != "law"}
    profile = cluster((1.0, 1.0, 1.2, 1.5, 3.0), std=1.3, link=0.1, critical=15).with_law(name, **parameters)
    plan = next(STRATEGIES["gradient"](profile, [], 1)).plan()
    found = what_if(ran(profile, plan, tmp_path / "run"))
    assert (found.replayed, found.work, len(found.strategies)) == (ROUNDS, "gradient", 5)
    for one in found.strategies:
        live = total(ran(profile, one.plan(), tmp_path / "live"))
        assert one.seconds == pytest.approx(live, rel=0.03), one.name
    assert next(one for one in found.strategies if one.name == "uncoded, uniform").saved == pytest.approx(0, abs=1e-3)


def test_steady_workers_by_hand():
    found = what_if(steady([2, 2], [1.0, 3.0]))
    # each round took 6 s, 4 of which after the other's second part; by speed it is 3 parts and one
    assert found.seconds == pytest.approx(6.0 * ENOUGH)
    assert [(one.name, one.rounds, one.seconds) for one in found.waited] == [
        ("w1", 0, 0.0), ("w2", ENOUGH, pytest.approx(4.0 * ENOUGH)),
    ]  # fmt: skip
    by_name = {one.name: one for one in found.strategies}
    assert by_name["uncoded, by speed"].seconds == pytest.approx(3.0 * ENOUGH)
    assert by_name["uncoded, uniform"].saved == pytest.approx(0.0)
    assert all(one.error == pytest.approx(0.0, abs=1e-9) for one in found.strategies)
    assert found.sentence.startswith(
        "Of 120 s that rounds took, 80 were spent waiting for w2; by speed 60 would have been saved, by pulling 60"
    )
    assert found.rows[0][:2] in ((one.name, "60") for one in found.strategies)


def test_what_a_round_took_beside_its_workers_stays():
    record = steady([2, 2], [1.0, 3.0])
    later = [
        replace(seen, end=seen.end + 2.5, messages=[(*m[:3], m[3] + 1.5, *m[4:]) for m in seen.messages])
        if number % 4 == 0 else seen
        for number, seen in enumerate(record.rounds)
    ]  # fmt: skip
    found = what_if(replace(record, rounds=later))
    # a quarter of the rounds loads for 1.5 s first, and decodes for 1 s
    by_speed = next(one for one in found.strategies if one.name == "uncoded, by speed")
    assert by_speed.seconds == pytest.approx(3.0 * ENOUGH + 2.5 * ENOUGH / 4)


def test_rounds_that_can_not_be_replayed_count_as_they_were():
    record = steady([2, 2], [1.0, 3.0], rounds=ENOUGH + 4)
    rounds = list(record.rounds)
    rounds[3] = replace(rounds[3], came=1)
    rounds[5] = replace(rounds[5], left_out=[0])
    rounds[7] = replace(
        rounds[7], needed=[3], lanes={0: [1.0, 1.0], 1: [1.0]}, messages=rounds[7].messages[:3], rows={}
    )
    found = what_if(replace(record, rounds=rounds, losses=[(rounds[9].start + 1.0, 1)]))
    assert (found.rounds, found.replayed) == (ENOUGH + 4, ENOUGH)
    by_speed = next(one for one in found.strategies if one.name == "uncoded, by speed")
    assert by_speed.saved == pytest.approx(3.0 * ENOUGH)
    assert any("4 of 24 rounds count as they were" in note for note in found.notes)


def test_it_is_said_of_rounds_that_ended_early_that_strategies_are_exact():
    record = steady([2, 2], [1.0, 3.0])
    rounds = [replace(seen, residual=0.5, without=[1]) if at < 3 else seen for at, seen in enumerate(record.rounds)]
    (said,) = (note for note in what_if(replace(record, rounds=rounds)).notes if "exact" in note)
    assert said.startswith(f"3 of {ENOUGH} rounds ended before they were exact; all strategies are of exact rounds")
    assert not any("exact" in note for note in what_if(record).notes)


def test_rows_to_spare_of_one_part_are_those_of_products(tmp_path):
    laws = [exponential(1.0), exponential(2.0)]
    record = purged_run(tmp_path / "run.jsonl", laws, [[1.0] * 6, [1.0] * 4], 8)
    assert what_if(record).work == "linear"
    assert what_if(record, work="gradient").work == "gradient"
    once, again, other = (what_if(record, seed=seed).as_dict() for seed in (1, 1, 2))
    assert once == again != other


def test_intervals_cover_what_another_run_of_the_same_laws_saves(tmp_path):
    """Mean savings of 12 other runs lie within the interval of the first, and scatter as it says."""
    laws, lanes = [exponential(1.0), exponential(2.0)], [[1.0] * 5, [1.0] * 5]
    runs = [
        what_if(purged_run(tmp_path / "run.jsonl", laws, lanes, 10, rounds=200, seed=seed)) for seed in range(1, 14)
    ]
    saved = [next(one for one in run.strategies if one.name == "uncoded, by speed") for run in runs]
    means = np.array([one.saved for one in saved])
    inside = [abs(one.saved - means.mean()) < one.error for one in saved]
    assert sum(inside) >= 12  # all but one of 13, at 99 % each
    assert 0.5 < np.std(means, ddof=1) * 2.58 / np.mean([one.error for one in saved]) < 1.7


def test_a_worker_that_never_finished_a_task_gets_no_work():
    record = steady([2, 2], [1.0, 3.0])
    rounds = [replace(seen, lanes={**seen.lanes, 2: [1.0]}, rows={}) for seen in record.rounds]
    found = what_if(replace(record, names=["w1", "w2", "w3"], rounds=rounds))
    assert any(note.startswith("w3: no strategy gives them work") for note in found.notes)
    assert {len(one.plan().lanes) for one in found.strategies} == {2}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (steady([2, 2], [1.0, 3.0], rounds=ENOUGH - 1), f"{ENOUGH - 1} rounds can be replayed, too few"),
        (steady([2], [1.0]), "Fewer than two workers finished a task"),
    ],
)
def test_a_record_with_nothing_to_say_says_so_in_one_line(record, said):
    found = what_if(record)
    assert (found.strategies, found.rows, found.replayed) == ((), [], 0)
    assert said in found.sentence
    assert "\n" not in found.sentence


def test_rounds_of_which_several_coded_slots_are_recovered_are_not_replayed():
    record = steady([2, 2], [1.0, 3.0])
    rows = {0: [(0, 0), (1, 0)], 1: [(0, 1), (1, 1)]}
    messages = [(0, 0, 0, 2.0, 2.0, 2.0), (1, 1, 1, 6.0, 3.0, 2.0)]
    rounds = [
        replace(seen, needed=[1, 1], lanes={0: [2.0, 2.0], 1: [2.0, 2.0]}, rows=rows, messages=messages)
        for seen in record.rounds
    ]
    assert "0 rounds can be replayed" in what_if(replace(record, rounds=rounds)).sentence


def test_all_of_it_can_be_written_as_json():
    told = json.loads(json.dumps(what_if(steady([2, 2], [1.0, 3.0])).as_dict()))
    assert list(told) == ["sentence", "rounds", "seconds", "replayed", "work", "waited", "strategies", "notes"]
    assert list(told["waited"][0]) == ["name", "rounds", "seconds", "most"]
    assert list(told["strategies"][0]) == ["name", "family", "seconds", "saved", "error"]


def test_where_some_would_have_saved_and_others_lost_each_is_said_to_have():
    found = what_if(steady([3, 1], [1.0, 3.0]))  # shares by speed already
    code = next(one for one in found.strategies if one.family == "coded")
    uniform = next(one for one in found.strategies if one.name == "uncoded, uniform")
    assert uniform.saved == pytest.approx(-3.0 * ENOUGH)
    assert code.saved == pytest.approx(-1.0 * ENOUGH)  # the quick one computes all four parts, the first two as one row
    assert found.sentence == (
        "Of 60.0 s that rounds took, less than 1 % were spent waiting for any one worker; by speed 0.0 would have been "
        f"saved, by pulling 0.0 saved, with copies 0.0 saved, with '{code.name}' 20.0 lost."
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"work": "product"}, "work: 'product' is not allowed; must be one of gradient, linear"),
        ({"adding_s": -1.0}, "adding_s: -1.0 is not allowed"),
        ({"seed": 0.5}, "seed: 0.5 is not allowed"),
    ],
)
def test_wrong_arguments_are_refused(arguments, said):
    with pytest.raises(ArgumentError, match=said):
        what_if(steady([2, 2], [1.0, 3.0]), **arguments)


def test_a_record_without_rounds_is_refused():
    with pytest.raises(ArgumentError, match="no round is in it"):
        what_if(Record(["a"], "uniform", None))
    with pytest.raises(ArgumentError, match="must be a Record"):
        what_if("run.jsonl")
