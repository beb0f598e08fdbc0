"""Messages that lie here, added up: against plain sums, whatever their size, type and weights."""

import os
import subprocess
import sys

import numpy as np
import pytest

import echelon as ec
from echelon import trees
from echelon.clusters import Message, ThreadCluster, Vanished, parallel, proc
from echelon.clusters.adding import Adding, Rooms
from echelon.jobs import SumJob

LARGE = 3 << 20


def message(row, array, *, told=True):
    form, segments = trees.flatten(array)
    sizes = tuple(float(np.abs(segment).max()) for segment in segments) if told else ()
    return Message(0, 1, 0, row, 0.0, form, segments, None, sizes)


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
@pytest.mark.parametrize("count", [5, 70_000, LARGE])
def test_a_weighted_sum_is_that_of_numpy(count, dtype, told):
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(count).astype(dtype) for _ in range(4)]
    weights = np.array([1.5, 0.0, -2.0, 1.0])
    total = Adding().combine(weights, [message(i, one, told=told) for i, one in enumerate(arrays)])
    wanted = sum(weight * one.astype(np.complex128) for weight, one in zip(weights, arrays, strict=True))
    assert total.segments[0].dtype == np.dtype(dtype)
    np.testing.assert_allclose(total.segments[0], wanted, rtol=0, atol=20 * np.finfo(dtype).eps * 5)
    assert total.largest[0] >= np.abs(total.segments[0].real).max() * (1 - 1e-6)
    entered = weights != 0 if not told else np.ones(4)
    # of complex numbers, both components may be added up
    np.testing.assert_allclose(
        total.sizes[0], entered * [np.abs(one).max() for one in arrays], rtol=0.42 if dtype in "FD" else 1e-6
    )


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("count", [50, LARGE])
def test_a_number_that_is_not_finite_shows(count, wrong):
    array = np.ones(count)
    array[count // 2] = wrong
    total = Adding().combine(np.ones(2), [message(0, np.ones(count)), message(1, array)])
    assert not np.isfinite(total.largest[0])


def test_a_message_of_weight_zero_changes_nothing_even_if_it_is_not_finite():
    total = Adding().combine(np.array([1.0, 0.0]), [message(0, np.ones(LARGE)), message(1, np.full(LARGE, np.nan))])
    assert total.largest == (1.0,)


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("count", [50, LARGE])
def test_a_sum_of_nothing_is_zero_also_in_memory_that_was_used_before(count, told):
    adding = Adding()
    assert adding.combine(np.ones(1), [message(0, np.full(count, 7.0))]).largest == (7.0,)
    total = adding.combine(np.zeros(2), [message(i, np.ones(count), told=told) for i in range(2)])
    assert not total.segments[0].any()
    assert total.largest == (0.0,)


def test_memory_of_a_total_is_used_again_when_nobody_has_it_and_never_before():
    adding, messages = Adding(), [message(i, np.full(LARGE, 1.0 + i)) for i in range(2)]
    first = adding.combine(np.ones(2), messages).segments[0]
    kept = first[10:20]  # a view is enough to hold it
    at = first.__array_interface__["data"][0]
    del first
    second = adding.combine(np.array([1.0, 2.0]), messages).segments[0]
    assert second.__array_interface__["data"][0] != at
    assert kept.tolist() == [3.0] * 10
    del kept
    third = adding.combine(np.ones(2), messages).segments[0]
    assert third.__array_interface__["data"][0] == at
    assert second[0] == 5.0


@pytest.mark.parametrize("told", [True, False])
def test_large_sums_lie_in_memory_that_is_kept_whether_or_not_workers_told_their_largest_numbers(told):
    adding = Adding()
    adding.combine(np.array([1.0, -1.0]), [message(i, np.ones(LARGE, np.float32), told=told) for i in range(2)])
    assert len(adding._rooms) == 1


def test_rooms_keep_few_and_small_totals_get_none():
    rooms = Rooms()
    assert rooms.take(np.dtype("d"), 10) is None
    held = [rooms.take(np.dtype("d"), LARGE) for _ in range(6)]
    assert len({one.__array_interface__["data"][0] for one in held}) == 6
    assert len(rooms) == 4
    rooms.clear()
    assert len(rooms) == 0


def test_totals_that_grow_each_round_keep_a_few_times_the_memory_of_the_largest():
    rooms = Rooms()
    for count in range(LARGE, 2 * LARGE, LARGE // 100):
        rooms.take(np.dtype("d"), count)
    assert 1 <= len(rooms) <= 9


def test_totals_of_several_sizes_in_turn_lie_where_they_lay_and_what_somebody_has_is_never_given_away():
    rooms, counts = Rooms(), [LARGE // size for size in range(1, 8)]
    where = []
    for _ in range(3):
        held = [rooms.take(np.dtype("d"), count) for count in counts]
        where.append([one.__array_interface__["data"][0] for one in held])
        assert len(set(where[-1])) == len(counts)
        held.clear()
    assert where[0] == where[1] == where[2]
    kept = rooms.take(np.dtype("d"), LARGE)
    kept.fill(3.0)
    for count in range(LARGE, 2 * LARGE, LARGE // 20):
        rooms.take(np.dtype("d"), count).fill(0.0)
    assert (kept == 3.0).all()


def test_many_arrays_are_copied_as_one():
    rng = np.random.default_rng(2)
    sources = [rng.integers(0, 255, size, dtype=np.uint8) for size in (0, 3, 5 << 20, 1, 7 << 20)]
    targets = [np.zeros_like(one) for one in sources]
    parallel.copy(list(zip(targets, sources, strict=True)))
    assert all(np.array_equal(to, of) for to, of in zip(targets, sources, strict=True))


def test_tensors_and_arrays_are_added_where_the_tensors_are():
    torch = pytest.importorskip("torch")
    array = np.arange(LARGE, dtype=float)
    one = message(0, array)._replace(segments=[torch.from_numpy(array)])
    total = Adding().combine(np.array([2.0, 1.0]), [one, message(1, np.ones(LARGE))])
    assert torch.equal(total.segments[0], torch.from_numpy(2 * array + 1))
    assert total.largest == (2.0 * LARGE - 1,)


def test_a_tensor_of_weight_zero_changes_nothing_even_if_it_is_not_finite():
    torch = pytest.importorskip("torch")
    values = float("nan"), 2.0, float("inf")
    messages = [
        message(i, np.ones(5))._replace(segments=[torch.full((5,), value)], sizes=(value,))
        for i, value in enumerate(values)
    ]
    total = Adding().combine(np.array([0.0, 3.0, 0.0]), messages)
    assert total.segments[0].tolist() == [6.0] * 5
    assert total.largest == (6.0,)
    assert Adding().combine(np.zeros(3), messages).segments[0].tolist() == [0.0] * 5


@pytest.mark.parametrize("weights", [(0.0, -2.0, 0.0), (1.0, 0.0, 0.0), (0.5, -2.0, 3.0), (0.0, 0.0, 0.0)])
@pytest.mark.parametrize("told", [True, False])
def test_the_largest_numbers_of_tensors_are_told_or_found(weights, told):
    torch = pytest.importorskip("torch")
    tensors = [torch.tensor([1.0, -3.0, 2.0]) * (i + 1) for i in range(3)]
    sizes = [3.0, 6.0, 9.0]
    messages = [
        message(i, np.ones(3))._replace(segments=[one], sizes=(size,) if told else ())
        for i, (one, size) in enumerate(zip(tensors, sizes, strict=True))
    ]
    total = Adding().combine(np.array(weights), messages)
    wanted = sum(weight * one for weight, one in zip(weights, tensors, strict=True))
    torch.testing.assert_close(total.segments[0], wanted)
    assert total.largest == (float(wanted.abs().max()),)
    assert total.sizes.tolist() == [sizes]


@pytest.mark.parametrize("told", [True, False])
def test_a_tensor_that_overflows_by_its_weight_is_seen(told):
    torch = pytest.importorskip("torch")
    one = torch.tensor([3e38, 1.0])
    only = message(0, np.ones(2))._replace(segments=[one], sizes=(float(one.max()),) if told else ())
    assert Adding().combine(np.array([2.0]), [only]).largest == (float("inf"),)


def test_a_sum_whose_worker_died_meanwhile_is_formed_from_others():
    class Vanishing(ThreadCluster):
        vanished = 0

        def combine(self, weights, messages):
            if self.vanished < 3:
                self.vanished += 1
                raise Vanished((messages[self.vanished],))
            return super().combine(weights, messages)

    chunks = [np.full(5, float(i)) for i in range(4)]
    job = SumJob(
        partial=lambda w, x: w * x, update=lambda w, total: w + total / 100, state=np.ones(5), chunks=chunks,
        iterations=4,
    )  # fmt: skip
    cluster = Vanishing(4)
    with ec.Stream(cluster) as stream:
        found = stream.submit(job).result()
    wanted = np.ones(5)
    for _ in range(4):
        wanted = wanted + sum(wanted * chunk for chunk in chunks) / 100
    np.testing.assert_allclose(found, wanted)
    assert cluster.vanished == 3


def test_the_kernel_knows_who_is_ending():
    assert not proc.ending(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert not proc.ending(child.pid)
    child.communicate()
    assert proc.ending(child.pid)
