"""Blocks and words that a master shares with its workers: nothing is used twice at once, nothing is kept for ever."""

import os
import sys

import numpy as np
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


GROWING = [400_000 + 5000 * round for round in range(300)]  # bytes; 345 MB in all


def test_results_that_grow_a_little_each_round_take_a_few_times_the_memory_of_the_largest():
    """Two are in use at any time: the older one is given back when the next was taken."""
    descriptor = memory.create("test", memory.RESERVED)
    arena, held = memory.Arena(descriptor), []
    for nbytes in GROWING:
        held.append(arena.take(nbytes))
        arena.memory[held[-1] : held[-1] + nbytes] = b"x" * nbytes
        if len(held) > 2:
            arena.give_back(held.pop(0))
    assert 512 * os.fstat(descriptor).st_blocks <= 6 * GROWING[-1]
    os.close(descriptor)


def test_states_that_grow_a_little_each_round_take_a_few_times_the_memory_of_the_largest():
    """A state is read until the next round has begun."""
    descriptor = memory.create("test", memory.RESERVED)
    now = [0]
    made = memory.StateMemory(descriptor, lambda round: round >= now[0])
    for round, nbytes in enumerate(GROWING, 1):
        at = made.take(nbytes, round)
        made.memory[at : at + nbytes] = b"x" * nbytes
        now[0] = round
    assert 512 * os.fstat(descriptor).st_blocks <= 6 * GROWING[-1]
    os.close(descriptor)


def test_blocks_never_overlap_whatever_is_taken_and_given_back(arena):
    """Of any size, in any order; each block keeps what was written to it as long as it is in use."""
    rng = np.random.default_rng(1)
    held = {}
    for number in range(1, 2000):
        nbytes = int(rng.integers(1, 60_000))
        at = arena.take(nbytes)
        assert at not in held
        held[at] = number % 251, nbytes
        arena.memory[at : at + nbytes] = bytes([number % 251]) * nbytes
        while len(held) > rng.integers(0, 12):
            at = list(held)[int(rng.integers(len(held)))]
            byte, nbytes = held.pop(at)
            assert arena.memory[at : at + nbytes] == bytes([byte]) * nbytes
            arena.give_back(at)


def test_a_place_is_seen_at_its_row_since_a_time_until_it_rests(board):
    assert board.worked(1) is None
    board.work(1, 7, 2, 5, 12.5)
    assert board.worked(1) == ((7, 2, 5), 12.5)
    assert board.worked(0) is None
    board.work(1, 0, 0, 0)
    assert board.worked(1) is None


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


def test_memory_of_a_device_is_opened_once_until_its_worker_lends_other_memory(arena, monkeypatch):
    opened = []

    class Block:
        def __init__(self, payload):
            opened.append(payload)

        def tensor(self):
            return f"memory {len(opened)}"

    monkeypatch.setattr(memory, "Block", type("Blocks", (), {"opened": staticmethod(Block)}))
    ticket = arena.take(memory.PAYLOAD)
    first, other = b"1" * memory.PAYLOAD, b"2" * memory.PAYLOAD
    arena.memory[ticket : ticket + memory.PAYLOAD] = first
    assert arena.device_memory(ticket) == arena.device_memory(ticket) == "memory 1"
    arena.memory[ticket : ticket + memory.PAYLOAD] = other
    assert arena.device_memory(ticket) == arena.device_memory(ticket) == "memory 2"
    assert opened == [first, other]
