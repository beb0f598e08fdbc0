"""Records as Chrome traces: lanes that hold what the record says, as viewers want them."""

from collections import Counter, defaultdict

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Crash, Faults
from echelon.schemes import multi_message
from echelon.stream import Record, read_record
from echelon.stream.chrome import JOBS, ROUNDS, WORKERS, chrome_trace
from echelon.stream.record import RecordedRound
from tests.stream.jobs import sum_job


class Uses(ec.Observer):
    """Counts messages by place and use, and the seconds they took."""

    def __init__(self):
        self.count, self.seconds, self._places = Counter(), Counter(), {}

    def worker_up(self, time_s, worker, place):
        self._places[worker] = place

    def received(self, arrival):
        at = self._places[arrival.worker], arrival.use
        self.count[at] += 1
        self.seconds[at] += arrival.seconds


@pytest.fixture(params=["faults", "slots", "threads"])
def run(request, tmp_path):
    """A record, and what an observer saw of the same run."""
    crashes = tuple(Crash(time=time, place=1, notice=0.25, restart=2.0) for time in (3.5, 40.25))
    cluster = {
        "faults": VirtualCluster(4, faults=Faults(np.random.default_rng(1), incidents=crashes, repeat=0.2, delay=0.3)),
        "slots": VirtualCluster(4, faults=Faults(np.random.default_rng(2), repeat=0.3)),
        "threads": "threads",
    }[request.param]
    more = {"chunks": 8}
    if request.param == "slots":
        more = {"chunks": 4, "plan": multi_message(workers=4, load=2, clusters=2, order=1)}
    uses, path = Uses(), tmp_path / "run.jsonl"
    with ec.Stream(
        cluster, workers=4 if request.param == "threads" else None, redundancy=1.5, record=path, observers=[uses],
        patience_s=5.0,
    ) as stream:  # fmt: skip
        for seed in range(2):
            stream.submit(sum_job(seed, **more, name=f"job {seed}"))
        assert [done.error for done in stream] == [None, None]
    return read_record(path), uses


def of(trace, phase, **wanted):
    return [
        event
        for event in trace["traceEvents"]
        if event["ph"] == phase and all(event.get(key) == value for key, value in wanted.items())
    ]


def test_every_message_of_the_record_is_a_task_on_the_lane_of_its_worker(run):
    record, uses = run
    trace = chrome_trace(record)
    for place in range(len(record.names)):
        tasks = [task for task in of(trace, "X", pid=WORKERS, tid=place + 1) if task["cat"] != "purged"]
        messages = [message for seen in record.rounds for message in seen.messages if message[0] == place]
        assert [task["args"]["seconds"] for task in tasks] == [message[4] for message in messages]
        stops = sorted(seen.start + message[3] for seen in record.rounds for message in seen.messages
                       if message[0] == place)  # fmt: skip
        assert [task["ts"] + task["dur"] for task in tasks] == pytest.approx([1e6 * stop for stop in stops], abs=0.01)
        for use, told in (("useful", "new"), ("late", "again")):
            chosen = [task["args"]["seconds"] for task in tasks if task["cat"] == use]
            assert len(chosen) == uses.count[place, told]
            assert sum(chosen) == pytest.approx(uses.seconds[place, told], abs=1e-8 * (1 + len(chosen)))


def test_tasks_of_a_lane_never_overlap_and_stay_within_their_rounds(run):
    record, _ = run
    trace = chrome_trace(record)
    spans = [(1e6 * seen.start, 1e6 * seen.end) for seen in record.rounds]
    for lane in range(1, len(record.names) + 1):
        free = 0.0
        for task in of(trace, "X", pid=WORKERS, tid=lane):
            assert task["dur"] >= 0
            assert task["ts"] >= free - 0.01
            free = task["ts"] + task["dur"]
            assert any(start - 20 <= task["ts"] and free <= end + 20 for start, end in spans)


def test_rounds_their_ends_jobs_and_losses_are_those_of_the_record(run):
    record, _ = run
    trace = chrome_trace(record)
    rounds = of(trace, "X", tid=ROUNDS, cat="round")
    assert sum(event["dur"] for event in rounds) == pytest.approx(
        1e6 * sum(seen.end - seen.start for seen in record.rounds)
    )
    assert [event["args"]["needed"] for event in rounds] == [sum(seen.needed) for seen in record.rounds]
    ends = [event["ts"] for event in of(trace, "i", cat="round")]
    assert ends == pytest.approx([1e6 * seen.end for seen in record.rounds])
    begun, ended = ({event["id"]: event["ts"] for event in of(trace, phase, pid=JOBS)} for phase in "be")
    assert begun == pytest.approx({job: 1e6 * time for job, time in record.arrivals.items()})
    assert ended == pytest.approx({job: 1e6 * time for job, time in record.departures.items()})
    lost = [(event["ts"], event["tid"]) for event in of(trace, "i", cat="loss")]
    assert lost == [(pytest.approx(1e6 * time), place + 1) for time, place in record.losses]


def test_lanes_have_names_and_every_event_the_fields_that_viewers_ask_for(run):
    record, _ = run
    trace = chrome_trace(record)
    names = {event["tid"]: event["args"]["name"] for event in of(trace, "M", name="thread_name")}
    assert names == {0: "rounds", **{place + 1: name for place, name in enumerate(record.names)}}
    needed = {"X": {"ts", "dur"}, "i": {"ts", "s"}, "b": {"ts", "id", "cat"}, "e": {"ts", "id", "cat"}, "M": {"args"}}
    for event in trace["traceEvents"]:
        assert {"name", "pid", "tid"} | needed[event["ph"]] <= set(event)
    colours = defaultdict(set)
    for task in of(trace, "X", pid=WORKERS):
        colours[task["cat"]].add(task.get("cname"))
    assert colours.pop("round") == {None}
    assert all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == len(colours)


def test_a_task_begins_when_the_one_before_it_arrived_and_what_was_cut_short_ends_with_the_round():
    messages = [
        (0, 0, 0, 1.0, 1.0, 1.0),
        (0, 0, 1, 1.5, 0.75, 1.0),
        (1, 0, 1, 1.75, 1.5, 1.0),
        (0, 0, 2, 2.0, 0.5, 1.0),
    ]
    seen = RecordedRound(0, 0, 10.0, 2.0 + 10.0, [3], {0: [1.0] * 3, 1: [1.0] * 3}, messages)
    record = Record(["a", "b"], "uniform", 1.5, {0: 9.0}, {0: "j"}, {}, {}, [seen], [])
    trace = chrome_trace(record)
    drawn = [
        (task["tid"], task["cat"], task["ts"] / 1e6, task["dur"] / 1e6)
        for task in of(trace, "X", pid=WORKERS)
        if task["cat"] != "round"
    ]
    assert drawn == [
        (1, "useful", 10.0, 1.0),
        (1, "useful", 11.0, 0.5),  # it took 0.75 s, of which its worker spent a quarter before
        (2, "late", 10.25, 1.5),
        (1, "useful", 11.5, 0.5),
        (2, "purged", 11.75, 0.25),
    ]
    (job,) = of(trace, "e", pid=JOBS)
    assert (job["ts"], job["args"]) == (12e6, {"outcome": "open"})
