"""Ranks of a DDP training, watched: one is slowed by 30 %, on clocks that tick as they are told."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from echelon.cli import app
from echelon.errors import ArgumentError
from echelon.search import advise
from echelon.seeds import generators
from echelon.stream import read_record
from echelon.stream.traced import traced
from echelon.torch import watch
from echelon.torch.scores import LAST
from echelon.torch.watch_report import for_gradients
from tests.torch import watched_ranks
from tests.torch.watched_ranks import LOADING_S, PASS_S, RANKS, SLOW, STEPS, TRUTH

OWN_S = LOADING_S + 2 * PASS_S  # of a rank that is not slow: two passes a step
OWN_SLOW_S = LOADING_S + 2 * TRUTH * PASS_S


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def ranks(folder):
    return watched_ranks.run(folder)


def of(ranks, case):
    return [found[case] for found in ranks]


def test_the_slow_rank_is_named_with_its_score_on_every_rank(ranks):
    for found in of(ranks, "scored"):
        report = found["report"]
        assert [one.kind for one in report.ranks] == ["chronic" if r == SLOW else "on time" for r in range(RANKS)]
        assert report.slowest.rank == SLOW
        assert report.slowest.score == pytest.approx(OWN_SLOW_S / OWN_S, abs=1e-4)
        assert report.slowest.own == pytest.approx(1.0, abs=1e-4)
        assert [one.usual_s for one in report.ranks] == pytest.approx(
            [OWN_SLOW_S if r == SLOW else OWN_S for r in range(RANKS)], rel=1e-4
        )
        assert f"Rank {SLOW} is late (chronic)" in str(report)


def test_all_steps_but_the_first_are_there_and_what_was_waited_is_added_up(ranks):
    late = (STEPS - 1) * (OWN_SLOW_S - OWN_S)
    for found in of(ranks, "scored"):
        report = found["report"]
        assert (report.seen, report.steps, len(found["stamps"])) == (STEPS - 1, 30, 30)
        assert [one.waited_s for one in report.ranks] == pytest.approx([late, late, 0.0, late], rel=1e-3)
        assert [one.awaited_s for one in report.ranks] == pytest.approx([0.0, 0.0, 3 * late, 0.0], rel=1e-3)
        np.testing.assert_array_equal(found["stamps"], ranks[0]["scored"]["stamps"])


def test_one_rank_may_ask_alone_and_hears_of_the_steps_until_the_latest_gather(ranks):
    report = ranks[0]["scored"]["alone"]
    assert report.seen in (16, 32)  # that of step 32 is on its way, or there
    assert report.slowest.rank == SLOW
    assert "no step is known of yet" in ranks[0]["scored"]["early"]


def test_gradients_are_those_of_a_plain_model_to_the_bit(ranks):
    assert all(found["equal"] for found in of(ranks, "scored"))
    assert [found.get("equal") for found in of(ranks, "among_three")] == [True, True, None, True]
    assert all(found["equal"] and found["steps"] == 5 for found in of(ranks, "own_hook"))


def test_a_group_of_some_ranks_is_watched_by_their_numbers(ranks):
    report = ranks[3]["among_three"]["report"]
    assert [one.rank for one in report.ranks] == [0, 1, 3]
    assert report.steps == 5


def test_passes_are_divided_by_speed_and_what_comes_before_is_not(ranks):
    report, profile = ranks[0]["scored"]["report"], ranks[0]["scored"]["profile"]
    speeds = np.array([1 / TRUTH if r == SLOW else 1.0 for r in range(RANKS)])
    assert report.shares == pytest.approx(speeds / speeds.sum(), rel=1e-3)
    assert report.step_s == pytest.approx(OWN_SLOW_S, rel=1e-3)
    assert report.by_speed_s == pytest.approx(LOADING_S + 2 * PASS_S * RANKS / speeds.sum(), rel=1e-3)
    assert profile.speeds.mean == pytest.approx(2 * PASS_S / speeds / 16, rel=1e-3)
    assert profile.speeds.link == pytest.approx([LOADING_S] * RANKS, rel=1e-3)


def test_advice_is_what_sizes_by_speed_take_where_ranks_are_steady(ranks):
    report = ranks[0]["scored"]["report"]
    assert report.advised.strategy.family == "uncoded"
    assert report.advised.iteration == pytest.approx(report.by_speed_s, rel=0.05)
    assert report.advised.name in str(report)
    assert len(report.advised.plan().lanes) == RANKS
    assert ranks[1]["scored"]["report"].advised is None


def test_plans_that_reuse_chunks_are_not_for_gradients(ranks):
    advice = advise(ranks[0]["scored"]["profile"])
    suited = [one.name for one in for_gradients(advice)]
    others = [one.name for one in advice.ranked if one.name not in suited]
    assert "uncoded, uniform" in suited
    assert "block coordinates" in others
    for one in advice.ranked:
        if one.strategy.name.startswith("multi-message") and "orders" in one.name:
            assert one.name in others


def test_events_are_read_two_steps_later(ranks):
    for found in of(ranks, "on_a_device"):
        assert found["read"] in (2, 6)  # of 8 steps, when the gather was begun
        assert found["report"].steps == 11
        assert found["report"].slowest.rank == SLOW


def test_models_that_have_a_hook_are_refused(ranks):
    for found in of(ranks, "refused"):
        assert len(found["said"]) == 3
        assert all("model: one that has a communication hook is not allowed" in text for text in found["said"])


def test_ranks_close_when_they_like_and_no_gather_is_begun_after_all_have(ranks):
    begun = of(ranks, "closed_one_by_one")[0]["begun"]
    assert len(begun) < 10  # at 2, 4, 8 ... 20, and then one more that says so
    for found in of(ranks, "closed_one_by_one"):
        assert found["begun"] == begun
        assert found["report"].seen <= 2  # the first rank closes after three steps
        assert found["waiting"] <= 4


def test_steps_that_a_rank_had_no_batch_for_do_not_count(ranks):
    for found in of(ranks, "uneven"):
        assert found["report"].seen == 6


def test_a_record_is_that_of_a_run(ranks, folder):
    record = read_record(folder / "run.jsonl")
    assert record.names == [f"rank {r}" for r in range(RANKS)]
    assert len(record.rounds) == STEPS - 1
    np.testing.assert_allclose([seen.end - seen.start for seen in record.rounds], OWN_SLOW_S, atol=2e-5)
    found = traced(record, generators(1)[1])
    assert not found.left_out
    assert found.profile.workload.critical == 16 * RANKS
    profile = ranks[0]["scored"]["profile"]
    np.testing.assert_allclose(found.profile.speeds.mean, profile.speeds.mean, rtol=1e-3)
    np.testing.assert_allclose(found.profile.speeds.link, profile.speeds.link, rtol=1e-3)
    best, report = advise(found.profile).best, ranks[0]["scored"]["report"]
    assert best.iteration == pytest.approx(report.by_speed_s, rel=0.05)


def test_commands_read_a_record(ranks, folder):
    run = CliRunner().invoke(app, ["report", str(folder / "run.jsonl"), "--json"])
    assert run.exit_code == 0, run.output
    said = json.loads(run.output)
    assert said["rounds"] == STEPS - 1
    assert said["jobs"][0]["outcome"] == "done"
    busy = [worker["utilisation"] for worker in said["workers"]]
    assert np.argmax(busy) == SLOW


def test_stamps_are_in_order(ranks):
    stamps = ranks[0]["scored"]["stamps"]
    assert (np.diff(stamps, axis=2) >= -1e-6).all()
    assert stamps[:, SLOW, LAST] == pytest.approx(OWN_SLOW_S, rel=1e-4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": nn.Linear(2, 2)}, "model: .* is not allowed; must be a DistributedDataParallel"),
        ({"hook": 3}, "hook: 3 is not allowed"),
        ({"state": 3}, "state: not allowed without a hook"),
        ({"every": 1}, "every: 1 is not allowed"),
        ({"keep": 0}, "keep: 0 is not allowed"),
        ({"record": 3}, "record: 3 is not allowed"),
        ({"record": "missing/run.jsonl"}, "record: 'missing/run.jsonl' is not allowed; No such file"),
    ],
)
def test_what_is_not_allowed_is_named(given, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
        with pytest.raises(ArgumentError, match=said):
            watch(**{"model": model} | given)
        with watch(model):  # it was not touched
            model(torch.ones(1, 2)).sum().backward()
    finally:
        torch.distributed.destroy_process_group()
