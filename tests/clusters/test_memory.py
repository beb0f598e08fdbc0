"""Blocks and words that a master shares with its workers: nothing is used twice at once, nothing is kept for ever."""

import os
import sys

import pytest

from echelon.clusters import memory
from echelon.errors import ClusterError
from echelon.plan import AHEAD

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="anonymous files need Linux")


@pytest.fixture
def arena():
    descriptor = memory.create("test", memory.RESERVED)
    yield memory.Arena(descriptor)
    os.close(descriptor)


@pytest.fixture
def board():
    descriptor = memory.create("test", memory.Board.size(3))
    made = memory.Board(descriptor, 3)
    yield made
    made.close()
    os.close(descriptor)


def states(in_use):
    descriptor = memory.create("test", memory.RESERVED)
    made = memory.StateMemory(descriptor, in_use)
    os.close(descriptor)
    return made


def test_a_block_is_taken_again_only_after_it_was_given_back(arena):
    first, second = arena.take(50_000), arena.take(50_000)
    assert first != second
    arena.give_back(first)
    assert arena.take(50_000) == first


def test_a_block_that_is_not_in_use_can_not_be_given_back(arena):
    block = arena.take(50_000)
    arena.give_back(block)
    with pytest.raises(ClusterError, match=f"offset {block} is not in use"):
        arena.give_back(block)


def test_the_state_of_a_round_that_somebody_reads_is_not_overwritten():
    read = {1}
    made = states(read.__contains__)
    first = made.take(10_000, 1)
    read.add(2)
    second = made.take(10_000, 2)
    assert first != second
    read.remove(1)
    assert made.take(10_000, 3) == first


def test_a_round_is_read_as_long_as_any_place_says_so(board):
    board.read(0, 7)
    board.read(2, 7)
    board.read(0, 8)
    assert board.readers(7)
    assert board.readers(8)
    board.read(2, 0)
    assert not board.readers(7)


def test_slots_are_stopped_one_by_one_and_those_of_the_next_job_together(board):
    last = memory.SLOTS - 1
    board.stop(5, last)
    assert [board.stopped(5, slot) for slot in (0, last, last + 1, AHEAD)] == [False, True, False, False]
    board.stop(5, AHEAD)
    assert [board.stopped(5, slot) for slot in (0, last, last + 1, AHEAD)] == [False, True, False, True]
    assert not board.stopped(6, AHEAD)


def test_a_slot_beyond_the_board_goes_on_to_the_end_of_its_round(board):
    for slot in (memory.SLOTS, AHEAD - 1):
        board.stop(5, slot)
        assert not board.stopped(5, slot)
    assert not board.stopped(5, AHEAD)
