"""Which workers are slow, far or changing: verdicts on small records."""

import numpy as np
import pytest

from echelon.errors import ArgumentError
from echelon.stream import Record
from echelon.stream.checkup import checkup
from echelon.stream.record import RecordedRound


def record(paces, links, rounds=60, noise=0.0, **more) -> Record:
    """Return rounds of two parts for each worker; `paces` are numbers, or functions of the round."""
    rng, seen = np.random.default_rng(1), []
    for number in range(rounds):
        messages = []
        for place, (pace, link) in enumerate(zip(paces, links, strict=True)):
            now = link
            for j in range(2):
                took = (pace(number) if callable(pace) else pace) * (1 + noise * rng.standard_normal())
                now += took
                messages.append((place, 0, 2 * place + j, now, took, 1.0))
        messages.sort(key=lambda message: message[3])
        end = messages[-1][3]
        lanes = {place: [1.0, 1.0] for place in range(len(paces))}
        seen.append(RecordedRound(0, number, 10.0 * number, 10.0 * number + end, [2 * len(paces)], lanes, messages))
    return Record([f"w{place + 1}" for place in range(len(paces))], "uniform", 1.0, rounds=seen, **more)


def faults(found) -> list[tuple[str, ...]]:
    return [worker.faults for worker in found]


def test_workers_that_are_alike_are_fine():
    found = checkup(record([0.5, 0.5, 0.6], [0.01, 0.01, 0.01], noise=0.1))
    assert faults(found) == [(), (), ()]
    assert [worker.score for worker in found] == pytest.approx([1.0, 1.0, 1.2], rel=0.05)
    assert found[0].mean == pytest.approx(0.5, rel=0.05)
    assert found[0].std == pytest.approx(0.05, rel=0.2)


def test_a_slow_worker_takes_half_as_long_again_as_the_fastest():
    found = checkup(record([1.0, 1.49, 1.51], [0.0] * 3))
    assert faults(found) == [(), (), ("slow",)]
    assert found[2].score == pytest.approx(1.51)


def test_a_far_worker_is_late_beside_the_others_and_by_a_millisecond_at_least():
    assert faults(checkup(record([1.0] * 4, [0.01, 0.01, 0.029, 0.031]))) == [(), (), (), ("far",)]
    assert faults(checkup(record([1.0] * 3, [1e-5, 1e-5, 9e-4]))) == [(), (), ()]


def test_a_flapping_worker_is_slower_in_some_stretch_than_in_another():
    found = checkup(record([1.0, lambda number: 1.4 if number > 30 else 0.8], [0.0] * 2, noise=0.1))
    assert faults(found) == [(), ("flapping",)]
    assert found[1].spread == pytest.approx(1.75, rel=0.15)
    assert checkup(record([1.0, lambda number: 1.1 if number > 30 else 0.9], [0.0] * 2))[1].faults == ()


def test_chance_is_not_taken_for_flapping():
    # a round is five times slower in one of four cases, as a whole: stretches of six rounds differ by chance
    slow = np.random.default_rng(5).random(60) < 0.25
    found = checkup(record([1.0, lambda number: 5.0 if slow[number] else 1.0], [0.0] * 2))[1]
    assert found.spread > 1.5
    assert "flapping" not in found.faults


def test_a_worker_that_was_lost_is_flapping():
    found = checkup(record([1.0, 1.0], [0.0] * 2, losses=[(11.0, 1), (15.0, 1)]))
    assert (faults(found), found[1].losses) == ([(), ("flapping",)], 2)


def test_a_worker_that_finished_nothing_is_slow():
    whole = record([1.0, 1.0], [0.0] * 2)
    for seen in whole.rounds:
        seen.messages[:] = [message for message in seen.messages if message[0] == 0]
    assert faults(checkup(whole)) == [(), ("slow",)]


def test_the_first_round_warms_up():
    assert faults(checkup(record([1.0, lambda number: 1000.0 if number == 0 else 1.0], [0.0] * 2))) == [(), ()]


def test_without_rounds_nothing_can_be_said():
    with pytest.raises(ArgumentError, match="nothing is known of the workers"):
        checkup(Record(["a"], "uniform", None))
