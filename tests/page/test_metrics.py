"""Metrics count what the record of the same run holds, and their page names all of them."""

import json
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families as read_by_the_older_form

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Crash, Faults
from echelon.page.metrics import METRICS, UNKNOWN, Metrics
from echelon.schemes import multi_message, quorum
from echelon.stream import read_record
from echelon.stream.recorded import tasks_seen
from tests.conftest import ROOT
from tests.page.parsed import by_label, families, totals
from tests.stream.jobs import sum_job

PAGE = (ROOT / "docs" / "guide" / "metrics.md").read_text(encoding="utf-8")


class Uses(ec.Observer):
    """Counts rows, bytes and seconds by how they were used; written apart from what it checks."""

    def __init__(self):
        self.rows, self.nbytes, self.seconds = Counter(), Counter(), Counter()

    def received(self, arrival):
        self.rows[arrival.use] += 1
        self.nbytes[arrival.use] += arrival.nbytes
        self.seconds[arrival.use] += arrival.seconds


def run(cluster, path, *, jobs=3, job=None, **options):
    """Run some jobs; return the metrics and what a plain observer counted."""
    metrics, uses = Metrics(getattr(cluster, "names", ())), Uses()
    with ec.Stream(cluster, record=path, observers=[metrics, uses], **options) as stream:
        for seed in range(jobs):
            stream.submit(sum_job(seed, **(job or {})))
        assert [done.error for done in stream] == [None] * jobs
    return metrics.text(), uses


def faulty(seed=1):
    crashes = tuple(Crash(time=time, place=1, notice=0.25, restart=2.0) for time in (3.5, 40.25))
    return VirtualCluster(3, faults=Faults(np.random.default_rng(seed), incidents=crashes, repeat=0.2, delay=0.3))


@pytest.mark.parametrize("where", ["virtual with faults", "processes"])
def test_totals_are_those_of_the_record_and_of_its_report(where, tmp_path):
    path = tmp_path / "run.jsonl"
    if where == "processes":
        text, uses = run("processes", path, workers=3, redundancy=1.5)
    else:
        text, uses = run(faulty(), path, redundancy=1.5, patience_s=5.0)
        assert uses.rows["late"] > 0 < uses.rows["again"]
    record, found = read_record(path), totals(text)
    rounds = record.rounds
    assert found["echelon_round_seconds_count"] == found["echelon_rounds_opened_total"] == len(rounds) == 24
    assert found["echelon_round_seconds_sum"] == pytest.approx(
        sum(seen.end - seen.start for seen in rounds), abs=2e-6 * len(rounds)
    )
    assert found["echelon_rows_needed_total"] == sum(sum(seen.needed) for seen in rounds)
    assert found["echelon_rows_planned_total"] == sum(len(lane) for seen in rounds for lane in seen.lanes.values())
    assert found["echelon_rows_carried_total"] == sum(seen.came for seen in rounds)
    received = by_label(text, "echelon_rows_received_total", "outcome")
    assert received["new"] + received["again"] == sum(len(seen.messages) for seen in rounds)
    by_place = Counter(message[0] for seen in rounds for message in seen.messages)
    sent = {
        name: sum(
            sample.value
            for sample in families(text)["echelon_rows_received"].samples
            if sample.labels["worker"] == name and sample.labels["outcome"] in ("new", "again")
        )
        for name in record.names
    }
    assert sent == {name: by_place[place] for place, name in enumerate(record.names)}
    losses = Counter(record.names[place] for _, place in record.losses)
    assert by_label(text, "echelon_worker_losses_total", "worker") == {name: losses[name] for name in record.names}
    assert by_label(text, "echelon_jobs_ended_total", "outcome") == {"done": 3, "failed": 0, "cancelled": 0}
    assert found["echelon_job_delay_seconds_sum"] == pytest.approx(
        sum(record.departures[job] - record.arrivals[job] for job in record.arrivals), abs=1e-5
    )


def test_rows_bytes_and_seconds_are_counted_by_their_use(tmp_path):
    text, uses = run(faulty(), tmp_path / "run.jsonl", redundancy=1.5, patience_s=5.0)
    for name, counted in [
        ("echelon_rows_received_total", uses.rows),
        ("echelon_received_bytes_total", uses.nbytes),
        ("echelon_computing_seconds_total", uses.seconds),
    ]:
        found = by_label(text, name, "outcome")
        found.pop("purged", None)
        assert found == pytest.approx({use: counted[use] for use in ("new", "again", "late", "ahead")})


@pytest.mark.parametrize("slots", [1, 2])
def test_what_a_purge_cut_short_is_what_the_record_shows(slots, tmp_path):
    path = tmp_path / "run.jsonl"
    profile = ec.Profile(
        ec.Workload(critical=12, redundancy=1.5, iterations=8, arrivals=ec.Arrivals.poisson(0.01)),
        [ec.Worker("quick", mean=1.0, std=1.0), ec.Worker("slow", mean=3.0, std=3.0), ec.Worker("w", mean=2.0, std=0)],
    )
    more = {} if slots == 1 else {"chunks": 4, "plan": multi_message(workers=4, load=2, clusters=2, order=1)}
    if slots == 2:
        profile = replace(profile, workers=[*profile.workers, ec.Worker("other", mean=1.0, std=1.0)])
    text, _ = run(VirtualCluster(emulate=profile, seed=4), path, job=more, redundancy=1.5, adapt=False)
    record = read_record(path)
    cut = [task for task in tasks_seen(record) if not task.finished]
    purged = by_label(text, "echelon_computing_seconds_total", "outcome")["purged"]
    assert purged == pytest.approx(sum(task.stop - task.start for task in cut), abs=1e-5 * len(record.rounds))
    missing = Counter()
    for seen in record.rounds:
        sent = [message[:3] for message in seen.messages]
        for place, rows in seen.rows.items():
            missing[record.names[place]] += sum((place, slot, row) not in sent for slot, row in rows)
    assert by_label(text, "echelon_rows_purged_total", "worker") == dict(missing)
    assert missing.total() > 0


def test_rows_that_came_ahead_are_carried_into_the_rounds_that_use_them(tmp_path):
    path = tmp_path / "run.jsonl"
    described = ec.Workload(critical=12, redundancy=1.0, iterations=2, arrivals=ec.Arrivals.poisson(0.01))
    profile = ec.Profile(described, [ec.Worker(f"w{place}", mean=1.0, std=1.0) for place in range(3)])
    cluster = VirtualCluster(emulate=profile, seed=3)
    text, uses = run(cluster, path, jobs=6, job={"iterations": 2}, redundancy=1.0, overlap=True)
    came = sum(seen.came for seen in read_record(path).rounds)
    assert totals(text)["echelon_rows_carried_total"] == came > 0
    assert by_label(text, "echelon_rows_received_total", "outcome")["ahead"] == uses.rows["ahead"] >= came


def test_slots_that_a_quorum_did_without_are_those_of_the_record(tmp_path):
    path = tmp_path / "run.jsonl"
    described = ec.Workload(critical=4, redundancy=1.0, iterations=2, arrivals=ec.Arrivals.poisson(0.01))
    profile = ec.Profile(described, [ec.Worker(f"w{place}", mean=1.0, std=1.0) for place in range(4)])
    plan = quorum(workers=4, share=0.5)
    text, _ = run(VirtualCluster(emulate=profile, seed=3), path, job={"chunks": 4, "plan": plan})
    left_out = sum(len(seen.left_out) for seen in read_record(path).rounds)
    assert totals(text)["echelon_slots_left_out_total"] == left_out > 0


def test_failed_and_cancelled_jobs_and_wrong_results_are_counted():
    metrics = Metrics(["a", "b", "c", "d"])
    bad = sum_job()
    bad.partial = lambda state, chunk: 1 / 0
    faults = Faults(np.random.default_rng(5), wrong={3: 0.5})
    with ec.Stream(VirtualCluster(4, faults=faults), observers=[metrics]) as stream:
        stream.submit(bad).exception()
        handle = stream.submit(sum_job())
        assert handle.cancel()
        stream.submit(sum_job(iterations=4, verify="vote")).result()
    text = metrics.text()
    assert by_label(text, "echelon_jobs_ended_total", "outcome") == {"done": 1, "failed": 1, "cancelled": 1}
    wrong = by_label(text, "echelon_wrong_results_total", "worker")
    assert wrong["d"] > 0 == wrong["a"] + wrong["b"] + wrong["c"]
    found = totals(text)
    assert (found["echelon_jobs_submitted_total"], found["echelon_jobs_open"]) == (3, 0)
    assert found["echelon_rounds_opened_total"] > found["echelon_round_seconds_count"] == 4


def test_one_that_comes_later_counts_from_then_on_and_calls_old_workers_unknown():
    metrics = Metrics()
    with ec.Stream("virtual", workers=2, redundancy=1.0) as stream:
        stream.submit(sum_job()).result()
        forget = stream.watch(metrics)
        stream.submit(sum_job(iterations=2)).result()
        forget()
        stream.submit(sum_job()).result()
    assert totals(metrics.text())["echelon_jobs_submitted_total"] == 1
    assert by_label(metrics.text(), "echelon_rows_received_total", "worker") == {UNKNOWN: 24}


def test_every_name_has_its_kind_unit_help_and_labels_and_no_other():
    metrics = Metrics(["<script>", 'a "b"'])
    found = families(metrics.text())
    assert list(found) == list(METRICS)
    for name, metric in METRICS.items():
        assert (found[name].type, found[name].unit, found[name].documentation) == (
            metric.kind, metric.unit, metric.help,
        )  # fmt: skip
        assert name.startswith("echelon_")
        assert metric.unit in ("", "seconds", "bytes", "ratio")
        assert name.endswith(metric.unit)
        assert set(metric.labels) <= {"worker", "outcome"}
        for sample in found[name].samples:
            assert set(sample.labels) - {"le"} == set(metric.labels)
            assert sample.labels.get("worker", "a") in ("<script>", 'a "b"', "a")


def test_readers_of_the_older_form_see_the_same_values():
    metrics = Metrics(["w1"])
    metrics.worker_up(0.0, 0, 0)
    new = {(s.name, *s.labels.values()): s.value for f in families(metrics.text()).values() for s in f.samples}
    old = {(s.name, *s.labels.values()): s.value for f in read_by_the_older_form(metrics.text()) for s in f.samples}
    assert old == new


def rows_of_the_page():
    found = re.findall(r"^\| `(echelon_\w+)` \| (\w+) \| (\w*) \| ([^|]*) \|", PAGE, re.MULTILINE)
    return {name: (kind, unit, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, unit, labels in found}


def asked_for(name):
    """Return the name by which a query asks for a metric."""
    return f"{name}_total" if METRICS[name].kind == "counter" else name


def test_the_page_lists_every_metric_with_its_kind_unit_and_labels_and_no_other():
    assert rows_of_the_page() == {
        asked_for(name): (metric.kind, metric.unit, metric.labels) for name, metric in METRICS.items()
    }


def test_the_dashboard_asks_only_for_metrics_that_exist_and_for_most_of_them():
    board = json.loads((ROOT / "docs" / "grafana.json").read_text(encoding="utf-8"))
    sources = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert all(panel["title"] for panel in board["panels"])
    known = {asked_for(name): set(metric.labels) for name, metric in METRICS.items()}
    for name, metric in METRICS.items():
        if metric.kind == "histogram":
            known |= {f"{name}_bucket": {"le"}, f"{name}_sum": set(), f"{name}_count": set()}
    asked = set()
    for text in sources:
        names = set(re.findall(r"\bechelon_\w+", text))
        assert names <= set(known), text
        assert names, text
        labels = {label for group in re.findall(r"by \(([^)]*)\)", text) for label in re.findall(r"\w+", group)}
        labels |= set(re.findall(r"[{,]\s*(\w+)\s*[!=]~?=?\"", text)) - {"instance"}
        assert labels <= set.union(*(known[name] for name in names)), text
        asked |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    assert len(asked) > len(METRICS) / 2
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
