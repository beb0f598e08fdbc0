"""Deaths in, places to be filled out; time is a number."""

import logging

import pytest

from echelon.clusters.places import Places


def early_deaths(places, count, place=0, now=0.0):
    """Let workers die before they are ready; return how long the place stays empty after each."""
    waits = []
    for number in range(count):
        places.died(number, place, up=False, now=now, reason="no memory")
        waits.append(places.next_due() - now)
        assert places.due(places.next_due()) == [place]
    return waits


def test_numbers_are_never_used_again():
    places = Places(3)
    assert [places.next_number() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_who_was_ready_is_succeeded_at_once_however_often_that_happens():
    places = Places(2)
    for number in range(10):
        places.came_up(1)
        places.died(number, 1, up=True, now=7.0, reason="killed")
        assert places.next_due() == 7.0
        assert places.due(7.0) == [1]
    assert places.births == 10


def test_a_place_is_due_once_and_not_before_its_time():
    places = Places(2)
    early_deaths(places, 2)
    places.died(2, 0, up=False, now=1.0, reason="no memory")
    places.died(3, 1, up=True, now=1.05, reason="killed")
    assert places.due(1.05) == [1]
    assert places.due(1.05) == []
    assert places.due(1.1) == [0]
    assert places.next_due() is None


def test_where_workers_die_before_they_are_ready_the_next_comes_ever_later_up_to_half_a_minute(caplog):
    places = Places(1)
    places.came_up(0)
    with caplog.at_level(logging.WARNING, "echelon.clusters"):
        waits = early_deaths(places, 2000)
    assert waits[:6] == pytest.approx([0.0, 0.0, 0.1, 0.2, 0.4, 0.8])
    assert waits[-1] == 30.0
    assert waits == sorted(waits)
    assert caplog.messages[0] == (
        "worker 2 (place 0) died before it was ready, 3 times in a row; next try in 0.1 s: no memory"
    )
    assert len(caplog.messages) == 1998


def test_a_worker_that_is_ready_ends_the_series_of_its_own_place_alone():
    places = Places(2)
    early_deaths(places, 2, place=0)
    early_deaths(places, 2, place=1)
    places.came_up(0)
    assert early_deaths(places, 2, place=0) == [0.0, 0.0]
    assert early_deaths(places, 1, place=1) == [0.1]


def test_it_is_hopeless_when_nobody_was_ever_ready_after_several_tries_at_one_place():
    places = Places(2)
    early_deaths(places, 2, place=0)
    early_deaths(places, 2, place=1)
    assert not places.hopeless
    early_deaths(places, 1, place=1)
    assert places.hopeless
    places.came_up(0)
    assert not places.hopeless


def test_one_waits_until_the_end_or_until_a_place_is_due():
    places = Places(2)
    assert places.wait(None, 5.0) is None
    assert places.wait(8.0, 5.0) == 3.0
    assert places.wait(4.0, 5.0) == 0.0
    places.died(0, 0, up=True, now=6.0, reason="killed")
    assert places.wait(None, 5.0) == 1.0
    assert places.wait(8.0, 5.0) == 1.0
    assert places.wait(5.5, 5.0) == 0.5
    assert places.wait(8.0, 7.0) == 0.0


def test_a_place_that_cant_be_filled_now_is_tried_ever_more_slowly_and_said_once_until_somebody_is_there(caplog):
    places = Places(2)
    waits = []
    with caplog.at_level(logging.WARNING, "echelon.clusters"):
        for _ in range(12):
            places.refused(1, now=5.0, reason="Too many open files")
            waits.append(places.next_due() - 5.0)
            assert places.due(places.next_due()) == [1]
    assert waits[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert max(waits) == 30.0
    assert caplog.messages == ["no worker can be started at place 1 now, which is tried again: Too many open files"]
    places.came_up(1)
    places.refused(1, now=5.0, reason="Too many open files")
    assert places.next_due() == pytest.approx(5.1)
