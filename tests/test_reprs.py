"""What values look like at a prompt and in a notebook: short, escaped, and with the numbers that matter."""

import re
from dataclasses import dataclass, is_dataclass
from html.parser import HTMLParser

import numpy as np
import pytest

import echelon as ec
from echelon import schemes
from echelon.delays import Recorded, Trace
from echelon.html import MOST, facts, table
from echelon.plan import Plan, Slot, Task
from echelon.reprs import LONGEST, short_repr
from echelon.stream import read_record
from echelon.stream.timeline import record_timeline
from tests.silly import calls
from tests.stream.jobs import sum_job

EVIL = "<script>alert(1)</script>"


class Cells(HTMLParser):
    """The caption, the rows of cells, and every tag of a table."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.captions, self._open = [], set(), [], None
        self.feed(text)
        assert self._open is None

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th", "caption"):
            self._open = ""

    def handle_data(self, data):
        assert self._open is not None, data
        self._open += data

    def handle_endtag(self, tag):
        if tag in ("td", "th", "caption"):
            (self.captions if tag == "caption" else self.rows[-1]).append(self._open)
            self._open = None


def large(workers=1000):
    listed = [
        ec.Worker(f"worker {p}", mean=0.1 + p / 7, std=0.1 / 3, law="trace", parameters={"times": [0.1] * 200})
        for p in range(workers)
    ]
    return ec.Profile(
        ec.Workload(critical=5000, redundancy=1.1, iterations=50, arrivals=ec.Arrivals.recorded([1 / 3] * 5000)), listed
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A profile with an evil name, and the stream, handle, delivery and record of a run on it."""
    path = tmp_path_factory.mktemp("run") / "run.jsonl"
    described = ec.Workload(critical=12, redundancy=1.5, iterations=8, arrivals=ec.Arrivals.poisson(0.01))
    profile = ec.Profile(described, [ec.Worker(EVIL, mean=1.0, std=0.5), ec.Worker("b", mean=2.0, std=0.5)])
    with ec.Stream("virtual", profile=profile, emulate=profile, redundancy=1.5, record=path) as stream:
        waiting = stream.submit(sum_job(name=EVIL))
        early = repr(stream), stream._repr_html_(), repr(waiting), waiting._repr_html_()
        delivery = waiting.delivery()
        return profile, stream, waiting, delivery, read_record(path), early


def lines(values):
    for name, value in values:
        text = repr(value)
        assert len(text) <= LONGEST, (name, len(text), text)
        assert "\n" not in text, name
        yield name


def test_values_of_all_public_calls_are_one_short_line():
    made = ((name, call(**arguments)) for name, (call, arguments) in calls().items())
    ours = ((name, value) for name, value in made if type(value).__module__.startswith("echelon"))
    assert len(list(lines(ours))) > 80


def test_values_of_a_thousand_workers_are_one_short_line():
    profile = large()
    split = ec.split_rows(profile)
    plan = schemes.any_k(split.counts, 5000)
    rounds = ec.simulate_rounds(plan, ec.delays.Exponential(rate=1.0), rounds=100)
    values = {
        "profile": profile, "worker": profile.workers[0], "workload": profile.workload, "speeds": profile.speeds,
        "arrivals": profile.workload.arrivals, "split": split, "plan": plan, "rounds": rounds,
        "many slots": schemes.multi_message(workers=40, load=8, clusters=5, order=3),
        "trace": Trace(times=[0.1] * 5000), "recorded": Recorded(times=[0.1] * 5000),
        "code": ec.codes.mds(parts=100, rows=120, rng=np.random.default_rng(1)),
    }  # fmt: skip
    assert len(list(lines(values.items()))) == len(values)


def test_what_a_stream_gives_is_one_short_line(run):
    _, stream, handle, delivery, record, early = run
    values = {
        "stream": stream, "handle": handle, "delivery": delivery, "record": record, "round": record.rounds[0],
        "timeline": record_timeline(record),
    }  # fmt: skip
    assert len(list(lines(values.items()))) == len(values)
    assert early[0] == "<stream on VirtualCluster: workers 2 of 2, jobs outstanding 1>"
    assert early[2] == f"<job 0 {EVIL!r}: iteration 0>"
    assert repr(stream) == "<stream on VirtualCluster: workers 0 of 2, jobs outstanding 0, closed>"


def test_a_handle_with_a_name_without_end_is_one_short_line():
    with ec.Stream("virtual", workers=1) as stream:
        handle = stream.submit(sum_job(name="long " * 1000))
        assert len(repr(handle)) <= LONGEST
        handle.cancel()


def test_advice_that_took_forty_thousand_characters_takes_one_line_and_its_table_ranks_all(example2):
    advice = ec.advise(example2)
    assert len(list(lines([("advice", advice), ("best", advice.best), ("strategy", advice.best.strategy)]))) == 3
    cells = Cells(advice._repr_html_())
    assert cells.captions == [advice.why]
    shown = [row[:2] for row in cells.rows[1:]]
    told = [[one.name, f"{one.iteration:.4g}"] for one in advice.ranked]
    assert shown[:MOST] == told[:MOST]


def test_fields_are_told_as_long_as_there_is_room():
    @dataclass(repr=False)
    class Wide:
        a: str
        b: str
        c: str
        d: str
        __repr__ = short_repr

    found = repr(Wide(*["x" * 60] * 4))
    assert len(found) <= LONGEST
    assert found.count("x" * 60) == 2
    assert found.endswith(", ...)")


# in notebooks


def test_every_text_in_a_table_is_escaped():
    for text in (table(EVIL, [EVIL], [[EVIL, EVIL]]), facts(EVIL, {EVIL: EVIL})):
        cells = Cells(text)
        assert "script" not in cells.tags
        assert cells.captions == [EVIL]
        assert [EVIL, EVIL] in cells.rows


def test_a_long_table_says_how_many_rows_it_leaves_out():
    cells = Cells(table("t", ["n"], [[n] for n in range(MOST + 5)]))
    assert len(cells.rows) == 1 + MOST + 1
    assert cells.rows[-1] == ["… and 5 more"]


def test_names_of_workers_and_jobs_are_escaped_wherever_they_are_shown(run):
    profile, stream, handle, delivery, _, early = run
    for text in (
        profile._repr_html_(),
        stream._repr_html_(),
        handle._repr_html_(),
        delivery._repr_html_(),
        *early[1::2],
    ):
        cells = Cells(text)
        assert "script" not in cells.tags
        assert any(EVIL in cell for row in [cells.captions, *cells.rows] for cell in row)


def test_tables_have_the_numbers(run):
    profile, stream, handle, delivery, _, early = run
    assert Cells(profile._repr_html_()).rows[1:] == [[EVIL, "1", "0.5", "0", "gamma"], ["b", "2", "0.5", "0", "gamma"]]
    rows = dict(Cells(delivery._repr_html_()).rows)
    assert rows["delay (s)"] == f"{delivery.delay:.4g}"
    assert (rows["iterations"], rows["messages"]) == ("8", str(delivery.messages))
    assert handle._repr_html_() == delivery._repr_html_()
    assert Cells(early[3]).rows == [["state", "iteration 0"], ["iterations", "8"]]
    means = stream.speeds().mean * 1e3
    assert Cells(stream._repr_html_()).rows[1:] == [
        [EVIL, "no", f"{means[0]:.4g}"],
        ["b", "no", f"{means[1]:.4g}"],
    ]
    assert [EVIL, "0", "0", "8"] in Cells(early[1]).rows


def test_a_failure_is_in_the_table():
    job = sum_job()
    job.partial = lambda state, chunk: 1 / 0
    with ec.Stream("virtual", workers=1) as stream:
        handle = stream.submit(job)
        assert handle.exception() is not None
    rows = dict(Cells(handle._repr_html_()).rows)
    assert "division by zero" in rows["failed"]


def test_plans_splits_and_predictions_have_tables(run):
    profile = run[0]
    split = ec.split_rows(profile)
    plan = schemes.any_k(split.counts, 12)
    assert [row[1] for row in Cells(split._repr_html_()).rows[1:]] == list(map(str, split.counts.tolist()))
    assert [row[:3] for row in Cells(plan._repr_html_()).rows[1:]] == [
        [str(place), str(count), str(count)] for place, count in enumerate(split.counts.tolist())
    ]
    jobs = ec.predict_jobs(plan, profile)
    rows = {row[0]: row[1:] for row in Cells(jobs._repr_html_()).rows[1:]}
    assert rows["delay of a job, mean (s)"][0] == f"{jobs.delay:.4g}"
    assert rows["delay of a job, mean (s)"][2].startswith(jobs.delay_method)
    rounds = ec.predict_rounds(plan, ec.delays.task_laws(profile))
    rows = dict(Cells(rounds._repr_html_()).rows)
    assert rows["95% are over within (s)"] == f"{rounds.quantile(0.95):.4g}"
    sampled = ec.predict_rounds(
        Plan([Slot(rows=2, threshold=2)], [[Task(slot=0, row=0, cost=1.5)], [Task(slot=0, row=1)]]),
        ec.delays.Exponential(rate=1.0),
    )
    assert Cells(sampled._repr_html_()).captions == ["What to expect of a round, sampled"]
    assert not any("within" in row[0] for row in Cells(sampled._repr_html_()).rows)


def test_numbers_of_a_short_line_are_those_of_the_value(example2):
    split = ec.split_rows(example2)
    counts, theta = re.match(r"Split\(counts=\[([\d, ]+)\], .*theta=([\d.]+)\)", repr(split)).groups()
    assert [int(count) for count in counts.split(",")] == split.counts.tolist()
    assert float(theta) == pytest.approx(split.theta, rel=1e-3)
    assert is_dataclass(split)
