"""Rounds of sums that end by policies: events in, actions out; and what every policy promises."""

from itertools import permutations

import numpy as np
import pytest

from bench.chaos.invariants import Watcher
from echelon.codes import balanced, cyclic, fractional_repetition, graph, mds, uncoded
from echelon.endings import ENDINGS, TIES, Curves, Deadline, Exact, Policy, Quorum, Residual, Sums
from echelon.errors import ArgumentError
from echelon.master.actions import Approximate, Assign, Purge, Recover, SetTimer, Starve, Update
from echelon.master.events import Alarm, Joined, Lost, Planned, Received, Recovered, Rejected, Submitted
from echelon.master.machine import Master
from echelon.plan import Plan, Slot, Task
from echelon.schemes import any_k, coded_rows

FOUR = coded_rows(uncoded(parts=4), [1, 1, 1, 1])


def started(made, ending, *, start=10.0, patience=100.0):
    """Return a watched master that collects round 1 of job 0 by a plan with this ending, one worker per lane."""
    watcher = Watcher(Master(patience=patience))
    numbers = tuple(range(len(made.lanes)))
    for worker in numbers:
        watcher.handle(Joined(0.0, worker))
    watcher.handle(Submitted(0.0, 0))
    plan = made.ended(ending)
    watcher.handle(Planned(start, 1, plan, numbers, plan.codes))
    return watcher


def row(watcher, time, number):
    """Hand over a row of slot 0 by the worker of that number."""
    return watcher.handle(Received(time, number, 1, 0, number))


def ended(*rows):
    """Return the actions by which a round ends with these rows."""
    return [Purge(1), Approximate(1, 0, rows), Update(0, 1)]


def timer(at):
    return [SetTimer(at, 1, 0)]


def test_a_deadline_ends_a_round_with_what_there_is():
    watcher = started(FOUR, Deadline(3.0))
    assert row(watcher, 11.0, 2) == timer(13.0)
    assert row(watcher, 12.0, 0) == []
    assert watcher.handle(Alarm(13.0, 1, 0)) == ended(2, 0)
    assert row(watcher, 13.5, 1) == []  # late


def test_a_round_is_never_ended_with_nothing():
    """The deadline was at 13: the first row that comes after it ends the round, and what comes with it counts."""
    watcher = started(FOUR, Deadline(3.0))
    assert row(watcher, 20.0, 3) == timer(20.0)
    assert row(watcher, 20.0, 1) == []
    assert watcher.handle(Alarm(20.0, 1, 0)) == ended(3, 1)


def test_what_comes_at_the_moment_of_the_deadline_counts_and_may_make_it_exact():
    watcher = started(FOUR, Deadline(3.0))
    for number in (0, 1, 2):
        row(watcher, 11.0, number)
    assert row(watcher, 13.0, 3) == [Recover(1, 0, (0, 1, 2, 3))]
    assert watcher.handle(Recovered(13.0, 1, 0)) == [Purge(1), Update(0, 1)]


def test_what_a_lost_worker_owes_is_done_by_others_until_the_deadline():
    watcher = started(FOUR, Deadline(3.0))
    assert watcher.handle(Lost(11.0, 3)) == [Assign(0, 1, (Task(slot=0, row=3),))]
    for number in (0, 1, 2):
        row(watcher, 12.0, number)
    assert watcher.handle(Alarm(13.0, 1, 0)) == ended(0, 1, 2)


def test_silence_is_looked_at_while_a_deadline_runs():
    watcher = started(FOUR, Deadline(30.0), patience=8.0)
    assert row(watcher, 11.0, 0) == timer(19.0)
    assert watcher.handle(Alarm(19.0, 1, 0)) == timer(27.0)  # something came since
    again, clock = watcher.handle(Alarm(27.0, 1, 0))[:-1], watcher.handle
    assert {task.row for action in again for task in action.tasks} == {1, 2, 3}
    assert watcher.master.attempt == 1
    row(watcher, 30.0, 1)
    assert clock(Alarm(40.0, 1, 1)) == ended(0, 1)


def test_a_residual_ends_a_round_as_soon_as_it_is_small_enough():
    watcher = started(FOUR, Residual(0.5))
    assert row(watcher, 11.0, 0) == []
    assert row(watcher, 12.0, 1) == []
    assert row(watcher, 13.0, 2) == timer(13.0)  # one of four parts is missing: root of a quarter
    assert watcher.handle(Alarm(13.0, 1, 0)) == ended(0, 1, 2)


def test_a_quorum_counts_parts_and_has_a_grace():
    watcher = started(coded_rows(fractional_repetition(rows=6, load=2), [1] * 6), Quorum(0.6, grace=0.5, stretch=0.1))
    assert row(watcher, 11.0, 0) == []
    assert row(watcher, 12.0, 1) == []  # the same group
    assert row(watcher, 14.0, 2) == timer(10.0 + (4.0 + 0.5 + 0.4) * (1 + TIES))
    assert watcher.handle(Alarm(14.1, 1, 0)) == []
    assert watcher.handle(Alarm(10.0 + 4.9 * (1 + TIES), 1, 0)) == ended(0, 1, 2)


def test_both_wait_for_the_later_of_two_and_either_for_the_earlier():
    watcher = started(FOUR, Deadline(3.0) & Quorum(0.75))
    assert row(watcher, 11.0, 0) == row(watcher, 12.0, 1) == []
    assert watcher.handle(Alarm(13.0, 1, 0)) == timer(113.0)  # half is there
    assert row(watcher, 20.0, 2) == timer(20.0)
    assert watcher.handle(Alarm(20.0, 1, 0)) == ended(0, 1, 2)
    watcher = started(FOUR, Deadline(3.0) | Quorum(0.5))
    assert row(watcher, 11.0, 0) == timer(13.0)
    assert row(watcher, 12.0, 1) == timer(12.0)
    assert watcher.handle(Alarm(12.0, 1, 0)) == ended(0, 1)


def test_a_quorum_that_lost_workers_can_t_break_asks_for_nothing_and_one_they_can_for_what_is_lost():
    slots = Plan([Slot(rows=1, threshold=1)] * 4, [[Task(slot=worker, row=0)] for worker in range(4)])
    for share, again in ((0.5, []), (0.75, [Assign(0, 1, (Task(slot=2, row=0),))])):
        watcher = started(slots, Quorum(share))
        assert watcher.handle(Lost(11.0, 3)) == []
        assert watcher.handle(Lost(11.0, 2)) == again


def test_with_nobody_left_the_next_to_join_ends_the_round():
    watcher = started(FOUR, Deadline(3.0))
    for worker in range(3):
        watcher.handle(Lost(11.0, worker))
    assert watcher.handle(Lost(11.0, 3)) == [Starve(0, 1)]
    actions = watcher.handle(Joined(20.0, 9))
    assert {task.row for action in actions if isinstance(action, Assign) for task in action.tasks} == {0, 1, 2, 3}
    assert watcher.handle(Received(21.0, 9, 1, 0, 0)) == timer(21.0)
    assert watcher.handle(Alarm(21.0, 1, 0)) == ended(0)


def test_rows_that_do_not_count_after_all_no_longer_end_a_round():
    """Half is there at 12, and the round would end with the grace; then one of both rows can't be read any more."""
    watcher = started(FOUR, Quorum(0.5, grace=2.0))
    row(watcher, 11.0, 0)
    assert row(watcher, 12.0, 1) == timer(10.0 + 4.0 * (1 + TIES))
    again = watcher.handle(Rejected(13.0, 1, 0, ((1, 1),)))
    assert again[-1] == SetTimer(113.0, 1, 0)
    assert watcher.handle(Alarm(14.1, 1, 0)) == timer(114.1)  # something came since
    assert row(watcher, 15.0, 2) == timer(10.0 + 7.0 * (1 + TIES))


def test_exact_is_what_a_plan_without_an_ending_does():
    watcher = started(FOUR, Exact())
    for number in (0, 1, 2):
        assert row(watcher, 11.0, number) == []
    assert watcher.handle(Alarm(110.0, 1, 0)) == timer(210.0)
    assert row(watcher, 111.0, 3) == [Recover(1, 0, (0, 1, 2, 3))]


CODES = {
    "uncoded": uncoded(parts=5),
    "groups": fractional_repetition(rows=6, load=2),
    "cyclic": cyclic(rows=5, load=3, rng=np.random.default_rng(1)),
    "graph": graph(parts=5, load=2, rng=np.random.default_rng(1)),
    "balanced": balanced(parts=4, rows=6, load=2, rng=np.random.default_rng(1)),
}
POLICIES = {
    "residual": Residual(0.45),
    "deadline": Deadline(2.5),
    "quorum": Quorum(0.7, grace=0.6),
    "stretched": Quorum(0.5, stretch=0.5),
    "both": Deadline(2.5) & Quorum(0.7),
    "either": Residual(0.3) | Deadline(3.5),
    "exact": Exact(),
}


def share_of(code, rows):
    """Return the share of the sum that rows give, by least squares."""
    held = code.matrix[list(rows)]
    weights = np.linalg.lstsq(held.T, np.ones(code.parts), rcond=1e-12)[0]
    return 1 - np.sum((weights @ held - 1) ** 2) / code.parts


def wanted(policy, shares):
    """Return how long a round lasts whose n-th row comes at time n, from the shares after each row."""
    times = np.arange(1, len(shares) + 1)
    exact = times[np.argmax(shares > 1 - 1e-9)]
    there = times[np.argmax(shares > 1e-9)]

    def since(share):
        return times[np.argmax(shares >= share - 1e-9)]

    found = {
        "residual": since(1 - 0.45**2),
        "deadline": max(2.5, there),
        "quorum": since(0.7) + 0.6,
        "stretched": since(0.5) * 1.5,
        "both": max(2.5, since(0.7)),
        "either": min(since(1 - 0.3**2), max(3.5, there)),
        "exact": exact,
    }[policy]
    return min(found, exact)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", CODES)
def test_rounds_end_when_brute_force_says_for_all_orders_of_arrival(name, policy):
    """Shares by least squares, from scratch for each set of rows; a row a second."""
    code = CODES[name]
    orders = list(permutations(range(code.rows)))
    chosen = np.random.default_rng(1).choice(len(orders), min(60, len(orders)), replace=False)
    for order in (orders[i] for i in chosen):
        shares = np.array([share_of(code, order[:count]) for count in range(1, code.rows + 1)])
        assert ends_at(code, POLICIES[policy], order) == pytest.approx(wanted(policy, shares)), order


def ends_at(code, policy, order):
    """Return how long a round of the master lasts to which one row comes each second, in this order."""
    watcher = started(coded_rows(code, [1] * code.rows), policy, start=0.0, patience=1000.0)
    clock = None
    for second, number in enumerate(order, 1):
        if clock is not None and clock < second:
            actions = watcher.handle(Alarm(clock, 1, 0))
            if Purge(1) in actions:
                return clock
        actions = row(watcher, float(second), number)
        if any(isinstance(action, Recover) for action in actions):
            actions = watcher.handle(Recovered(float(second), 1, 0))
        if Purge(1) in actions:
            return second
        clock = next((action.at for action in actions if isinstance(action, SetTimer)), clock)
    assert Purge(1) in watcher.handle(Alarm(clock, 1, 0))
    return clock


def test_the_share_of_sums_is_that_of_all_slots():
    sums = Sums([4.0, 2.0])
    sums.miss(0, 1.0)
    assert sums.share == pytest.approx(0.5)
    sums.miss(1, 0.0)
    sums.miss(0, 0.0)
    assert sums.share == 1.0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Residual(-0.1), "most: -0.1 is not allowed"),
        (lambda: Residual(1.0), "most: 1.0 is not allowed; must be below 1"),
        (lambda: Residual(float("nan")), "most: nan is not allowed"),
        (lambda: Deadline(0.0), "seconds: 0.0 is not allowed"),
        (lambda: Deadline(-3.0), "seconds: -3.0 is not allowed"),
        (lambda: Deadline("soon"), "seconds: 'soon' is not allowed; must be a number > 0, or \"auto\""),
        (lambda: Quorum(1.1), "share: 1.1 is not allowed"),
        (lambda: Quorum(0.5, grace="long"), "grace: 'long' is not allowed"),
        (lambda: Quorum(0.5, least=9).check(slots=3, lanes=3, sums=True), "least: 9 is not allowed; must be at most 3"),
        (lambda: Deadline(1.0) & 0.9, "policy: 0.9 is not allowed"),
        (lambda: Deadline(1.0) | None, "policy: None is not allowed"),
        (lambda: any_k([2, 2], critical=3).ended(Deadline(1.0)), "ending: Deadline.* is not allowed for this plan"),
        (
            lambda: coded_rows(mds(parts=2, rows=4, rng=np.random.default_rng(1)), [2, 2]).ended(Residual(0.1)),
            "every slot must have a code that gives one sum",
        ),
    ],
)
def test_a_policy_that_can_t_be_meant_is_refused_by_one_line(make, said):
    with pytest.raises(ArgumentError, match=said) as error:
        make()
    assert "\n" not in str(error.value)


def test_policies_are_values_that_say_what_they_are():
    made = Deadline(2.0) & (Residual(0.1) | Quorum(0.9, grace="auto"))
    assert made == Deadline(2.0) & (Residual(0.1) | Quorum(0.9, grace="auto"))
    assert hash(made) != hash(made & Exact())
    assert repr(made) == (
        "Deadline(seconds=2.0) & (Residual(most=0.1) | Quorum(share=0.9, least=0, grace='auto', stretch=0.0))"
    )
    assert [made.learns, Deadline(1.0).learns] == [True, False]
    policies = {name for name, ending in ENDINGS.items() if issubclass(ending, Policy)}
    assert policies == {"deadline", "exact", "quorum", "residual"}


# what is learnt


def drawn(rounds=40, rows=12, seed=1):
    """Return curves of rounds in which each row is worth as much, and one in four has a straggler."""
    rng = np.random.default_rng(seed)
    times = rng.normal(1.0, 0.1, (rounds, rows))
    times[rng.random(rounds) < 0.25, 0] += 5.0
    return Curves.of([(sorted(row), np.arange(1, rows + 1) / rows) for row in times.tolist()])


def rate(curves, ends):
    return curves.share_at(ends).mean() / ends.mean()


def test_the_deadline_that_is_learnt_gives_most_per_second_of_all_with_90_percent_there():
    curves = drawn()
    learnt = Deadline("auto").learnt(curves)
    found = np.minimum(learnt.seconds, curves.exact)
    assert curves.share_at(found).mean() >= 0.9
    tried = [np.minimum(seconds, curves.exact) for seconds in np.linspace(0.5, 7.0, 1300)]
    best = max(rate(curves, ends) for ends in tried if curves.share_at(ends).mean() >= 0.9)
    assert rate(curves, found) >= 0.98 * best
    assert learnt.seconds < 2.0  # stragglers are not waited for


def test_the_grace_that_is_learnt_gives_most_per_second():
    curves = drawn()
    learnt = Quorum(0.5, grace="auto").learnt(curves)
    since = curves.reached(0.5)
    tried = [np.minimum(since + grace, curves.exact) for grace in np.linspace(0.0, 6.0, 1300)]
    best = max(rate(curves, ends) for ends in tried)
    assert rate(curves, np.minimum(since + learnt.grace, curves.exact)) >= 0.98 * best
    assert 0.0 < learnt.grace < 1.0


def test_equal_workers_that_never_straggle_are_all_waited_for():
    steady = Curves.of([([1.0, 1.0, 1.0, 1.01], [0.25, 0.5, 0.75, 1.0])] * 5)
    assert Deadline("auto").learnt(steady).seconds >= 1.01
    assert (Deadline("auto") & Quorum(0.5, grace="auto")).learnt(steady).learns is False
