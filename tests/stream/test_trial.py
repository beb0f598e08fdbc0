"""Help for late workers, judged by the rounds it takes."""

from echelon.stream.trial import CHECKED, KEPT, TRIED, WAIT, WARM, Trial


def ran(trial, rounds, plain, helped):
    """Return how many of these rounds were helped, where a plain one and one with help take these times in turn."""
    count = 0
    for k in range(rounds):
        now = trial.helped()
        count += now
        times = helped if now else plain
        trial.note(times[k % len(times)], helped=now)
    return count


def test_help_begins_after_some_plain_rounds_and_goes_on_where_it_pays():
    trial = Trial()
    assert ran(trial, WARM + TRIED, [3.0, 1.0], [1.0]) == 0
    assert ran(trial, 50, [3.0, 1.0], [1.0]) == 50
    assert trial.settled


def test_help_that_makes_rounds_longer_ends_and_is_tried_again_ever_more_rarely():
    trial = Trial()
    assert ran(trial, 100, [1.0, 1.1], [1.5, 1.6]) == TRIED
    assert ran(trial, 1000, [1.0, 1.1], [1.5, 1.6]) <= 4 * TRIED
    assert trial.failed


def test_rounds_at_the_beginning_do_not_speak_for_help():
    trial = Trial()
    ran(trial, WARM, [100.0], [1.5])
    assert ran(trial, 60, [1.0, 1.1], [1.5, 1.6]) == TRIED


def test_where_plain_rounds_have_become_better_a_check_finds_it():
    trial = Trial()
    ran(trial, 60, [3.0, 3.5], [2.0, 2.1])
    assert trial.settled
    ran(trial, CHECKED, [1.0, 1.1], [2.0, 2.1])
    assert trial.failed


def test_a_check_costs_one_plain_round_where_help_pays_and_none_where_it_pays_much():
    trial = Trial()
    ran(trial, WARM + TRIED, [1.5], [1.0])
    assert ran(trial, 3 * CHECKED, [1.5], [1.0]) == 3 * CHECKED - 1
    trial = Trial()
    ran(trial, WARM + TRIED, [4.0], [1.0])
    assert ran(trial, 3 * CHECKED, [4.0], [1.0]) == 3 * CHECKED


def test_a_job_begins_with_what_one_of_its_kind_showed():
    assert ran(Trial(proven=True), KEPT, [1.0], [1.0]) == KEPT
    assert ran(Trial(failed=True), WAIT, [1.0], [1.0]) == 0
