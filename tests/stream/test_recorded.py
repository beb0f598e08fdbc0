"""Records as docs/record.md describes them, and what is made of them."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from echelon.errors import ArgumentError
from echelon.master.actions import Outcome
from echelon.plan import Plan, Slot, Task
from echelon.stream import Record, read_record
from echelon.stream.observer import Arrival, RoundSeen
from echelon.stream.record import RecordedRound, Recorder
from echelon.stream.recorded import busy, iterations, links, span, tasks_seen
from echelon.stream.traced import kaplan_meier, quantiles, traced
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")
KINDS = ("run", "up", "job", "round", "down", "end", "over")
NORMAL_99 = 2.5758


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def purged_run(path: Path, laws, lanes, needed, *, link=0.05, rounds=100, jobs=5, seed=1) -> Record:
    """Write the record of a purged run, computed from draws alone, and read it back.

    laws: of each worker, a function (rng, size) -> times a part. lanes: costs of each worker's tasks.
    """
    draw, now, entries = rng(seed), 10.0, []
    entries.append({"kind": "run", "format": 1, "names": [f"w{p + 1}" for p in range(len(laws))], "split": "theorem2"})
    entries[0]["redundancy"] = sum(map(len, lanes)) / needed
    firsts = np.cumsum([0, *map(len, lanes)])
    for job in range(jobs):
        entries.append({"kind": "job", "time": round(now, 6), "job": job, "name": f"job {job}"})
        for iteration in range(rounds // jobs):
            messages = []
            for place, (law, costs) in enumerate(zip(laws, lanes, strict=True)):
                seconds = law(draw, len(costs)) * costs
                for j, (at, took) in enumerate(zip(link + seconds.cumsum(), seconds, strict=True)):
                    row = int(firsts[place]) + j
                    messages.append([place, 0, row, round(float(at), 6), round(float(took), 9), costs[j]])
            messages = sorted(messages, key=lambda message: message[3])[:needed]
            end = now + messages[-1][3] + 0.03  # decoding takes a while
            planned = {str(place): costs for place, costs in enumerate(lanes)}
            entries.append(
                {"kind": "round", "job": job, "round": len(entries), "iteration": iteration, "start": round(now, 6)}
                | {"end": round(end, 6), "needed": [needed], "lanes": planned, "messages": messages}
            )
            now = end + 0.02
        entries.append({"kind": "end", "time": round(now, 6), "job": job, "outcome": "done"})
        now += 1.0
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return read_record(path)


def exponential(mean):
    return lambda draw, size: draw.exponential(mean, size)


def example_lines(kind: str) -> list[str]:
    section = PAGE.split(f"\n## `{kind}`\n")[1].split("\n## ")[0]
    return re.search(r"```json\n(.*?)```", section, re.DOTALL).group(1).splitlines()


def one_round(**changes) -> Record:
    """Two places, three rows each; all but one row of the second came."""
    messages = [(0, 0, 0, 1.1, 1.0, 1.0), (1, 0, 3, 2.2, 2.0, 1.0), (0, 0, 1, 2.6, 1.5, 1.0), (0, 0, 2, 3.0, 0.4, 1.0)]
    seen = RecordedRound(0, 0, 10.0, 13.5, [4], {0: [1.0] * 3, 1: [1.0] * 3}, messages)
    whole = {"arrivals": {0: 9.0}, "job_names": {0: "a"}, "departures": {0: 14.0}, "outcomes": {0: "done"}}
    return Record(["a", "b"], "uniform", 1.5, **(whole | {"rounds": [seen]} | changes))


# the page


def test_the_examples_of_the_page_are_a_record(tmp_path):
    path = tmp_path / "page.jsonl"
    path.write_text("\n".join(line for kind in KINDS for line in example_lines(kind)) + "\n")
    record = read_record(path)
    assert (record.names, record.split, record.redundancy) == (["fast", "slow"], "theorem2", 1.5)
    assert (record.arrivals, record.departures, record.outcomes) == ({0: 0.5001}, {0: 0.55195}, {0: "done"})
    assert record.losses == [(0.5513, 1)]
    assert record.rounds[0].needed == [2]
    assert record.rounds[0].messages[1] == (0, 0, 1, 0.0502, 0.0249, 1.0)
    assert [task.finished for task in tasks_seen(record)] == [True, True, False]


def test_the_page_names_every_field_that_is_written_and_no_other(tmp_path):
    path = tmp_path / "run.jsonl"
    recorder = Recorder(path, 1, "theorem2", 1.5, None)
    job = SimpleNamespace(number=0, name="a", job=SimpleNamespace(iterations=1))
    recorder.worker_up(0.1, 0, 0)
    recorder.submitted(0.2, job)
    plan = Plan([Slot(rows=1, threshold=1)], [[Task(slot=0, row=0)]])
    recorder.round_over(RoundSeen(0, 1, 0, 0.3, plan, (0,), 0.5, messages=[Arrival(0, 1, 0, 0, 0.4, 0.05, 8, "new")]))
    recorder.worker_down(0.6, 0, 0, "it ended")
    recorder.delivered(0.7, job, Outcome.DONE, None)
    recorder.close()
    written = {entry["kind"]: entry for entry in map(json.loads, path.read_text().splitlines())}
    assert sorted(written) == sorted(KINDS)
    for kind, entry in written.items():
        shown = json.loads(example_lines(kind)[0])
        assert list(shown) == list(entry)
        table = PAGE.split(f"\n## `{kind}`\n")[1].split("```json")[0]
        optional = {"round": {"rows", "recovered", "left_out", "residual", "without", "error"}, "end": {"error"}}
        assert {"kind", *re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)} - optional.get(kind, set()) == set(entry)
    numbers = re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE)
    assert len(numbers) == len(written["round"]["messages"][0])


# who computed when


def test_tasks_are_those_sent_and_the_one_after_the_last_message():
    tasks = tasks_seen(one_round())
    assert [(task.place, task.start, task.stop, task.finished) for task in tasks] == [
        (0, pytest.approx(10.1), 11.1, True),
        (1, pytest.approx(10.2), 12.2, True),
        (0, pytest.approx(11.1), 12.6, True),
        (0, pytest.approx(12.6), 13.0, True),
        (1, 12.2, 13.5, False),
    ]
    # the worker computes until the end, but the master hears of nothing after its last message
    assert tasks[-1].seconds == pytest.approx(0.8)


def test_a_message_that_came_twice_is_not_a_second_task_of_its_lane():
    once = one_round().rounds[0].messages
    again = [*once[:3], (0, 0, 1, 2.8, 1.5, 1.0), once[3]]
    seen = RecordedRound(0, 0, 10.0, 13.5, [4], {0: [1.0] * 3, 1: [1.0] * 3}, again)
    tasks = tasks_seen(one_round(rounds=[seen]))
    assert sum(task.finished for task in tasks) == 5
    assert [(task.place, task.start) for task in tasks if not task.finished] == [(1, 12.2)]
    fewer = RecordedRound(0, 0, 10.0, 13.5, [4], {0: [1.0] * 3, 1: [1.0] * 3}, again[:4])
    cut = [task for task in tasks_seen(one_round(rounds=[fewer])) if not task.finished]
    assert [(task.place, task.start, task.cost) for task in cut] == [(0, 12.6, 1.0), (1, 12.2, 1.0)]


def test_links_are_the_median_lateness_of_first_messages():
    assert links(one_round()).tolist() == pytest.approx([0.1, 0.2])
    late = one_round().rounds[0].messages
    later = [(place, 0, row, at + 5, took, cost) for place, _, row, at, took, cost in late]
    rounds = [RecordedRound(0, i, 10.0, 20.0, [4], {0: [1.0] * 3, 1: [1.0] * 3}, m) for i, m in enumerate([late] * 2)]
    rounds.append(RecordedRound(0, 2, 30.0, 40.0, [4], {0: [1.0] * 3, 1: [1.0] * 3}, later))
    assert links(one_round(rounds=rounds)).tolist() == pytest.approx([0.1, 0.2])


def test_a_silent_worker_begins_when_its_link_is_over_and_the_round_has_really_begun():
    usual = one_round().rounds[0]
    # the work of a job took 4 s to load, and the second worker was never heard of in that round
    loading = [(0, 0, row, at + 4.0, took, cost) for place, _, row, at, took, cost in usual.messages if place == 0]
    first = RecordedRound(0, 0, 0.0, 7.5, [3], {0: [1.0] * 3, 1: [2.0]}, loading)
    silent = tasks_seen(one_round(rounds=[first, usual, usual]))[3]
    assert (silent.place, silent.finished, silent.cost) == (1, False, 2.0)
    assert silent.start == pytest.approx(4.2)
    assert silent.seconds == pytest.approx(7.0 - 4.2)


def test_a_lost_worker_is_at_its_task_until_it_is_lost():
    task = tasks_seen(one_round(losses=[(12.5, 1), (12.8, 1)]))[-1]
    assert (task.place, task.stop, task.finished) == (1, 12.5, False)
    assert task.seconds == pytest.approx(0.3)


def test_what_is_given_out_again_has_no_known_cost():
    seen = one_round().rounds[0]
    messages = [*seen.messages, (0, 0, 4, 3.3, 0.3, 1.0)]  # a row of the other's lane
    tasks = tasks_seen(one_round(rounds=[RecordedRound(0, 0, 10.0, 13.5, [5], seen.lanes, messages)]))
    assert [task.cost for task in tasks] == [1.0, 1.0, 1.0, 1.0, None, None]
    # the replacement of a lost worker computes the same rows at the same place
    lost = tasks_seen(one_round(losses=[(11.5, 1)]))
    assert [(task.place, task.cost) for task in lost] == [(0, 1.0), (1, None), (0, 1.0), (0, 1.0), (1, None)]


def test_busy_time_and_span():
    assert busy(one_round()).tolist() == pytest.approx([2.9, 3.3])
    assert span(one_round()) == (9.0, 14.0)
    assert span(one_round(departures={})) == (9.0, 13.5)
    assert iterations(one_round(arrivals={0: 9.0, 1: 9.5})) == {0: 1, 1: 0}


# laws of task times


def test_kaplan_meier_is_that_of_scipy():
    draw = rng(7)
    times, limits = draw.gamma(2.0, size=300), draw.exponential(2.0, size=300)
    seconds, finished = np.minimum(times, limits).round(2), times <= limits  # rounded, so that some are equal
    values, masses, beyond = kaplan_meier(seconds, finished)
    known = stats.ecdf(stats.CensoredData(uncensored=seconds[finished], right=seconds[~finished])).sf
    survival = [1 - masses[values <= value].sum() for value in known.quantiles[:-1]]
    assert survival == pytest.approx(known.probabilities[:-1], abs=1e-12)
    assert beyond == pytest.approx(known.probabilities[-1], abs=1e-12)
    assert masses.sum() == pytest.approx(1.0)


def test_kaplan_meier_of_finished_tasks_is_their_sample():
    values, masses, beyond = kaplan_meier(np.array([3.0, 1.0, 2.0]), np.ones(3, dtype=bool))
    assert (values.tolist(), masses.tolist(), beyond) == ([1.0, 2.0, 3.0], pytest.approx([1 / 3] * 3), 0.0)
    with pytest.raises(ArgumentError, match="lengths 0, 0"):
        kaplan_meier(np.empty(0), np.empty(0, dtype=bool))


def test_quantiles_lie_at_the_middle_of_equal_shares():
    assert quantiles(np.arange(1.0, 5.0), np.full(4, 0.25), 2).tolist() == [1.0, 3.0]
    assert quantiles(np.arange(1.0, 5.0), np.full(4, 0.25), 8).tolist() == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("law", ["exponential", "gamma"])
def test_the_mean_of_a_purged_worker_is_right_at_99_per_cent_and_that_of_its_finished_tasks_is_not(tmp_path, law):
    means = [1.0, 2.0, 3.0]
    laws = {
        "exponential": [exponential(mean) for mean in means],
        "gamma": [lambda draw, size, mean=mean: draw.gamma(3.0, mean / 3.0, size) for mean in means],
    }[law]
    lanes = [[1.0] * 12, [1.0] * 6, [2.0, 1.0, 1.0]]
    record = purged_run(tmp_path / "run.jsonl", laws, lanes, 17, rounds=2000, seed=3)
    found, everything = traced(record, rng()), tasks_seen(record)
    for place, (worker, mean) in enumerate(zip(found.workers, means, strict=True)):
        tasks = [task for task in everything if task.place == place]
        seconds = np.array([task.seconds / task.cost for task in tasks])
        error = greenwood(seconds, np.array([task.finished for task in tasks]))
        assert worker.beyond < 0.003
        # what lies beyond the largest time is missing from the mean: for these laws about a mean each, at most
        missing = worker.beyond * mean
        assert mean - missing - NORMAL_99 * error < worker.mean < mean + NORMAL_99 * error
        if place == 2:
            assert worker.mean_finished < mean - 3 * NORMAL_99 * error


def greenwood(seconds, finished) -> float:
    """Return the standard error of a Kaplan-Meier mean, by Greenwood's formula."""
    order = np.argsort(seconds)
    seconds, finished = seconds[order], finished[order]
    at_risk = np.arange(len(seconds), 0, -1)
    survival = np.cumprod(np.where(finished, 1 - 1 / at_risk, 1.0))
    areas = np.append(survival[:-1] * np.diff(seconds), 0.0)[::-1].cumsum()[::-1]  # of survival beyond each time
    terms = np.where(finished & (at_risk > 1), areas**2 / np.maximum(at_risk * (at_risk - 1), 1), 0.0)
    return float(np.sqrt(terms.sum()))


def test_the_law_is_that_of_the_tasks_at_99_per_cent_and_not_only_their_mean(tmp_path):
    laws, lanes = [exponential(1.0), exponential(3.0)], [[1.0] * 9, [1.0] * 3]
    record = purged_run(tmp_path / "run.jsonl", laws, lanes, 10, rounds=2000)
    tasks = [task for task in tasks_seen(record) if task.place == 1]
    times = np.array(traced(record, rng(), times=1000).profile.workers[1].parameters["times"])
    order = sorted(tasks, key=lambda task: task.seconds)
    for time in (0.5, 1.0, 2.0, 4.0, 6.0):
        at_risk = [len(order) - i for i, task in enumerate(order) if task.finished and task.seconds <= time]
        survival = np.exp(-time / 3.0)
        error = NORMAL_99 * survival * np.sqrt(sum(1 / (n * (n - 1)) for n in at_risk))  # Greenwood's formula
        assert np.mean(times > time) == pytest.approx(survival, abs=error + 0.001)  # one of 1000 quantiles more or less


def test_constant_times_come_out_exactly_however_many_are_cut_short(tmp_path):
    fixed = [lambda draw, size: np.full(size, 1.0), lambda draw, size: np.full(size, 2.5)]
    record = purged_run(tmp_path / "run.jsonl", fixed, [[1.0] * 6, [1.0] * 4], 8, rounds=20)
    slow = traced(record, rng()).workers[1]
    assert (slow.finished, slow.cut) == (40, 20)
    assert (slow.mean, slow.std, slow.beyond) == pytest.approx((2.5, 0.0, 0.0))
    assert slow.mean_busy > 2.5  # what was cut short counts as work done in full


def test_what_was_never_seen_to_end_is_put_at_the_largest_time_and_said(tmp_path):
    record = purged_run(tmp_path / "run.jsonl", [exponential(1.0), exponential(8.0)], [[1.0] * 8, [1.0]], 7, rounds=300)
    found = traced(record, rng())
    slow = found.workers[1]
    assert 0.05 < slow.beyond < 0.9
    assert slow.mean_finished < slow.mean < 8.0
    assert found.notes[0].startswith(f"w2: of {slow.beyond:.1%} of its tasks only a lower bound is known")
