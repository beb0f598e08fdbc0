"""Rows that stay with virtual workers: added up where they lie, read or reported as unread, given back once."""

from functools import partial

import numpy as np
import pytest

from echelon.clusters import VirtualCluster
from echelon.clusters.base import Added, Down, Message, Sum, Unread, Up
from echelon.clusters.faults import Crash, Faults, Hang, Partition
from echelon.clusters.pace import Pace
from echelon.clusters.staying import PATIENCE_S
from echelon.delays import Deterministic
from echelon.errors import ArgumentError
from echelon.plan import Task
from echelon.profile import Costs

NUMBERS = 6


class Rows:
    """Rows that are one part each: the part's number and the next ones."""

    added = True

    def row(self, slot, row):
        return (row,), np.ones(1)

    def part(self, state, part):
        return state + part + np.arange(float(NUMBERS))


def with_rows(workers=3, incidents=(), rows=None, faults=None, **options):
    """Return a cluster whose workers announced a row each (or as many as `rows` says), and the messages."""
    trouble = faults or Faults(np.random.default_rng(1), incidents=tuple(incidents))
    paces = [Pace(Deterministic(time=1.0), 0.0, None) for _ in range(workers)]
    cluster = VirtualCluster(paces=paces, stay_bytes=1, faults=trouble, **options)
    ups = sum(isinstance(report, Up) for _ in range(workers) for report in cluster.poll(None))
    assert ups == workers
    cluster.load(1, Rows())
    cluster.broadcast(1, 1, np.zeros(NUMBERS))
    rows = [1] * workers if rows is None else rows
    first = 0
    for worker, count in enumerate(rows):
        cluster.assign(worker, 1, [Task(slot=0, row=first + i) for i in range(count)])
        first += count
    found = [report for report in until(cluster, lambda seen: len(seen) == first) if isinstance(report, Message)]
    cluster.purge(1)
    return cluster, sorted(found, key=lambda message: message.row)


def until(cluster, enough, limit_s=1e4):
    """Return reports until there are enough, or nothing happens for long."""
    seen, end = [], cluster.time + limit_s
    while not enough(seen) and cluster.time < end:
        seen += cluster.poll(end - cluster.time)
    return seen


def kinds(reports):
    return [type(report).__name__ for report in reports]


def one(cluster):
    """Return all that is reported until an answer, with its time."""
    reports = until(cluster, lambda seen: any(isinstance(report, Added | Unread) for report in seen))
    return reports, cluster.time


def plain(messages, weights):
    return sum(w * (m.row + np.arange(float(NUMBERS))) for w, m in zip(weights, messages, strict=True))


def test_rows_are_announced_without_their_numbers_and_added_up_where_they_lie():
    cluster, messages = with_rows()
    assert all(message.elsewhere for message in messages)
    weights = np.array([1.0, -2.0, 0.5])
    cluster.add(1, [Sum(weights, messages), Sum(weights[:2], messages[:2])])
    ((added,), _) = one(cluster)
    assert added.round == 1
    np.testing.assert_allclose(added.totals[0].segments[0], plain(messages, weights))
    np.testing.assert_allclose(added.totals[1].segments[0], plain(messages[:2], weights[:2]))
    assert added.totals[0].largest[0] == pytest.approx(np.abs(plain(messages, weights)).max())
    np.testing.assert_allclose(added.totals[0].sizes, [[NUMBERS - 1.0, NUMBERS, NUMBERS + 1.0]])
    for message in messages:
        cluster.release(message)
    assert not cluster.lent


def test_memory_is_given_back_once():
    cluster, messages = with_rows()
    cluster.release(messages[0])
    with pytest.raises(AssertionError, match="given back twice"):
        cluster.release(messages[0])
    assert len(cluster.lent) == 2


def test_adding_takes_the_time_of_its_transfers():
    row = 8 * NUMBERS
    costs = Costs(bandwidth=100.0, port=50.0, combining=0.01, plane="responders", message=0.25)
    cluster, messages = with_rows(rows=[2, 1, 1], costs=costs)
    began = cluster.time
    cluster.add(1, [Sum(np.ones(4), messages)])
    _, ended = one(cluster)
    # the first passes two thirds of two rows to others, each adds up a third of four rows, the total passes the port
    wanted = 2 * row * 2 / 3 / 100 + 4 * row / 3 * 0.01 + row / 50 + 3 * 0.25
    assert ended - began == pytest.approx(wanted)


def test_a_worker_that_dies_before_its_row_is_read_takes_it_along():
    cluster, messages = with_rows(costs=Costs(combining=0.1))
    cluster.add(1, [Sum(np.ones(3), messages)])
    cluster.kill(1)
    reports, _ = one(cluster)
    assert sorted(kinds(reports)) == ["Down", "Unread"]
    (unread,) = [report for report in reports if isinstance(report, Unread)]
    assert unread.messages == (messages[1],)
    assert not [report for report in until(cluster, lambda _: False, 100.0) if isinstance(report, Added)]
    cluster.release(messages[1])  # nothing happens
    cluster.release(messages[1])
    # what is left can be added up
    left = [messages[0], messages[2]]
    cluster.add(1, [Sum(np.ones(2), left)])
    ((added,), _) = one(cluster)
    np.testing.assert_allclose(added.totals[0].segments[0], plain(left, np.ones(2)))


def test_a_row_that_nobody_wants_any_more_is_not_reported():
    cluster, messages = with_rows()
    cluster.release(messages[1])
    cluster.kill(1)
    assert kinds(cluster.poll(0.0)) == ["Down"]


@pytest.mark.parametrize(
    ("incident", "told"),
    [
        (Hang(1.1, 1, float("inf")), []),
        (Partition(1.1, 1, 1e5, reported=False), []),
        (Partition(1.1, 1, 1e5, reported=True), ["Down"]),
        (Crash(1.1, 1, notice=1e3, restart=1e3), []),
        (Crash(1.1, 1, notice=1.0, restart=1e3), ["Down"]),
    ],
    ids=repr,
)
def test_a_holder_out_of_reach_is_found_after_a_bounded_time(incident, told):
    cluster, messages = with_rows(incidents=[incident], costs=Costs(combining=0.01))
    began = cluster.time
    cluster.add(1, [Sum(np.ones(3), messages)])
    reports, ended = one(cluster)
    assert sorted(kinds(reports)) == [*told, "Unread"]
    assert ended <= began + PATIENCE_S + 0.01 * 3 * 8 * NUMBERS
    assert [report.messages for report in reports if isinstance(report, Unread)] == [(messages[1],)]
    assert len(cluster.lent) == 2


def test_a_short_halt_of_a_holder_costs_time_and_no_rows():
    incident = Hang(1.1, 1, 2.0)
    cluster, messages = with_rows(incidents=[incident], costs=Costs(combining=0.01))
    cluster.add(1, [Sum(np.ones(3), messages)])
    ((added,), ended) = one(cluster)
    np.testing.assert_allclose(added.totals[0].segments[0], plain(messages, np.ones(3)))
    assert ended > 1.0 + PATIENCE_S


@pytest.mark.parametrize("harm", [Crash(1.6, 2, notice=1e3, restart=1e3), Hang(1.6, 2, float("inf"))], ids=repr)
def test_a_slice_of_an_adder_that_is_gone_is_added_up_by_another(harm):
    cluster, messages = with_rows(incidents=[harm], costs=Costs(combining=0.05))
    cluster.release(messages[2])  # it responded, and its row was not chosen
    began = cluster.time
    takes = 2 * 8 * NUMBERS / 3 * 0.05
    cluster.add(1, [Sum(np.ones(2), messages[:2])])
    ((added,), ended) = one(cluster)
    np.testing.assert_allclose(added.totals[0].segments[0], plain(messages[:2], np.ones(2)))
    assert ended - began == pytest.approx(2 * takes + PATIENCE_S)


@pytest.mark.parametrize("seed", range(20))
def test_orders_and_slices_may_be_lost_late_and_repeated(seed):
    cluster, messages = with_rows()
    cluster._faults = Faults(np.random.default_rng(seed), lose=0.4, repeat=0.4, delay=0.4)
    cluster.add(1, [Sum(np.ones(3), messages)])
    reports = until(cluster, lambda _: False, 300.0)
    assert kinds(reports) == ["Added"]
    np.testing.assert_allclose(reports[0].totals[0].segments[0], plain(messages, np.ones(3)))


def test_giving_a_row_back_ends_the_adding():
    cluster, messages = with_rows(costs=Costs(combining=0.1))
    cluster.add(1, [Sum(np.ones(3), messages)])
    for message in messages:
        cluster.release(message)
    assert until(cluster, lambda _: False, 100.0) == []
    assert not cluster.lent


def test_word_of_a_row_that_comes_after_its_worker_s_end_is_followed_by_its_loss():
    cluster, messages = with_rows()
    worker = cluster._at[1]
    late = messages[1]._replace(segments=[np.zeros(NUMBERS)], row=7, token=None)
    cluster.at(5.0, partial(cluster._announce, worker, late))
    cluster.kill(1)
    reports = until(cluster, lambda seen: len(seen) >= 4, 100.0)
    assert sorted(kinds(reports[:2])) == ["Down", "Unread"]
    word, unread = [report for report in reports[2:] if not isinstance(report, Up)]
    assert (word.row, unread.messages) == (7, (word,))
    assert isinstance(reports[0] if isinstance(reports[0], Down) else reports[1], Down)


def test_rows_that_are_not_only_added_up_travel():
    class Whole(Rows):
        added = False

    trouble = Faults(np.random.default_rng(1))
    cluster = VirtualCluster(1, stay_bytes=1, faults=trouble)
    cluster.poll(None)
    cluster.load(1, Whole())
    cluster.broadcast(1, 1, np.zeros(NUMBERS))
    cluster.assign(0, 1, [Task(slot=0, row=0)])
    (message,) = cluster.poll(None)
    assert not message.elsewhere
    np.testing.assert_array_equal(message.segments[0], np.arange(float(NUMBERS)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stay_bytes": -1}, "stay_bytes: -1 is not allowed"),
        ({"stay_bytes": "many"}, "stay_bytes: 'many' is not allowed"),
        ({"costs": 3}, "costs: 3 is not allowed"),
    ],
)
def test_silly_arguments_are_refused(options, said):
    with pytest.raises(ArgumentError, match=said):
        VirtualCluster(2, **options)
