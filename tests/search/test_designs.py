"""Designs of the papers for any number of parts: their sums, their costs, and closed forms of what they take."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, erlang

import echelon as ec
from echelon.blocks import equalised, expected_runtime, order_means
from echelon.codes import Decoder
from echelon.delays import Exponential, RoundPace, ShiftedExponential
from echelon.profile import Costs
from echelon.schemes import BlockPlan, CodedPlan, any_k, multi_message
from echelon.search import Strategy
from echelon.search.designs import blocks, designs, spread, whole_shares
from echelon.search.handling import Sizes, handling
from echelon.search.rehearsal import Rehearsal, Rehearsed
from echelon.search.sparse import sparse
from tests.search.clusters import cluster, named

LIMIT_S = 60.0


def plans(profile):
    listed = [*designs(profile), *sparse(profile, [Exponential(rate=1.0)] * len(profile.workers))]
    return {strategy.name: strategy.plan() for strategy in listed}


@pytest.mark.parametrize("parts", [6, 13, 18])
def test_enough_rows_of_every_slot_give_the_sum_of_all_parts(parts):
    rng = np.random.default_rng(parts)
    results = rng.normal(size=(parts, 24))  # 24 numbers each: whatever they are cut into divides that
    for name, plan in plans(cluster([1.0] * 6, critical=parts)).items():
        assert sorted(part for some in plan.chunks for part in some) == list(range(parts)), name
        total = np.zeros(24)
        for code, slot, chunks in zip(plan.codes, plan.slots, plan.chunks, strict=True):
            rows = np.sort(rng.choice(slot.rows, slot.threshold, replace=False))
            pieces = results[list(chunks)].reshape(len(chunks) * code.pieces, -1)
            messages = [code.matrix[row] @ pieces for row in rows.tolist()]
            total += Decoder(code).weights(rows.tolist()).combine(messages).ravel()
        np.testing.assert_allclose(total, results.sum(axis=0), atol=1e-9, err_msg=name)


def test_a_task_costs_the_parts_that_its_worker_has_not_computed():
    plan = spread(multi_message(workers=3, load=2, order=1), [1, 2, 4])
    assert [[task.cost for task in lane] for lane in plan.lanes] == [[1.0, 2.0], [2.0, 4.0], [4.0, 1.0]]
    shares = whole_shares(np.array([2, 0, 5]))
    assert [[task.cost for task in lane] for lane in shares.lanes] == [[2.0], [], [5.0]]
    assert shares.slots[0].threshold == 2


def test_workers_are_dealt_out_so_that_every_group_has_a_quick_one():
    plan = plans(cluster([1.0, 1.0, 1.0, 9.0, 9.0, 9.0]))["fractional repetition, groups of 2"]
    groups = [{lane[0].slot for lane in some} for some in (plan.lanes[:3], plan.lanes[3:])]
    assert groups == [{0, 1, 2}, {0, 1, 2}]


def test_designs_need_a_part_for_every_worker():
    assert not list(designs(cluster([1.0] * 4, critical=3)))
    assert not plans(cluster([1.0]))
    assert plans(cluster([1.0] * 2, critical=2))


def test_repetition_takes_the_last_of_the_quickest_of_each_group():
    """Groups of two with sums of four parts: the later of two minima of two Erlang times, by quadrature."""
    plan = plans(cluster([1.0] * 4, std=1.0, critical=8))["fractional repetition, groups of 2"]
    seen = ec.simulate_rounds(plan, Exponential(rate=1.0), rounds=200_000, seed=2)
    expected = quad(lambda t: 1 - (1 - erlang.sf(t, 4) ** 2) ** 2, 0, 60)[0]
    assert seen.interval.low < expected < seen.interval.high


def test_one_message_each_takes_the_order_statistic_that_is_enough():
    """Any three of four workers with four parts each: the third of four Erlang times, by quadrature."""
    plan = plans(cluster([1.0] * 4, std=1.0, critical=8))["multi-message, 2 chunks each, clusters of 4, order 2"]
    seen = ec.simulate_rounds(plan, Exponential(rate=1.0), rounds=200_000, seed=2)
    expected = quad(lambda t: binom.cdf(2, 4, erlang.cdf(t, 4)), 0, 60)[0]
    assert seen.interval.low < expected < seen.interval.high


def test_block_coordinates_take_what_the_runtime_says():
    """Workers of one pace a round: the exact expectation of the partition that was cut."""
    base = ShiftedExponential(shift=0.5, rate=1.0)
    (strategy,) = blocks(cluster([1.5] * 4, critical=12), [RoundPace(base=base)] * 4, 1000)
    plan = strategy.plan()
    assert isinstance(plan, BlockPlan)
    x = np.zeros(4)
    for level, block in zip(plan.levels, plan.blocks, strict=True):
        x[level] = block.stop - block.start
    exact = expected_runtime(x, base, unit=3 / 1000).mean  # a chunk is three parts
    seen = ec.simulate_rounds(strategy.lighter(), RoundPace(base=base), rounds=200_000, seed=2)
    assert seen.interval.low < exact < seen.interval.high
    # cut by mean times of the workers in order, which the draws know to some percent
    np.testing.assert_allclose(x / 1000, equalised(order_means(4, base), 1.0), atol=0.05)


def test_a_gradient_of_a_gigabyte_is_cut_as_quickly_as_a_small_one():
    (strategy,) = blocks(cluster([1.0] * 4), [Exponential(rate=1.0)] * 4, 10**8)
    assert strategy.plan().blocks[-1].stop == 10**8


def test_a_sum_of_parts_takes_what_they_take_one_by_one():
    """One message with the sum of a share comes when the last of its parts would have come."""
    counts = np.array([4, 0, 2])
    laws = [Exponential(rate=1.0), Exponential(rate=1.0), Exponential(rate=0.5)]
    whole = handling(Strategy("", "uncoded", lambda: whole_shares(counts)), 6).rehearsed(Costs(), Sizes())
    rehearsal = Rehearsal(laws, np.zeros(3), rounds=400, seed=1)
    together, one_by_one = rehearsal.times([whole, Rehearsed(any_k(counts, 6))])
    np.testing.assert_allclose(together, one_by_one)


def test_copies_of_all_parts_do_not_win_by_the_luck_of_single_parts():
    """A sum of 24 parts varies by a fifth of its mean, so the first of four is no quicker than a share of six is."""
    advice = named(ec.advise(cluster([0.1] * 4, std=1.0, critical=24)))
    assert advice["fractional repetition, groups of 4"].iteration > 1.6 > advice["uncoded, uniform"].iteration


def test_nothing_is_cut_where_there_is_one_worker_or_no_chunk_for_each():
    assert not list(blocks(cluster([1.0]), [Exponential(rate=1.0)], 1000))
    assert not list(blocks(cluster([1.0] * 4, critical=3), [Exponential(rate=1.0)] * 4, 1000))


def test_a_sum_job_runs_every_design():
    profile = cluster([1.0] * 4, critical=10)
    chunks = np.random.default_rng(1).normal(size=(10, 3))
    with ec.Stream("threads", workers=4) as stream:
        for name, plan in {**plans(profile), "shares": whole_shares(np.array([4, 3, 0, 3]))}.items():
            assert isinstance(plan, CodedPlan)
            job = ec.SumJob(
                partial=lambda state, chunk: state * chunk,
                update=lambda state, total: state + total,
                state=np.ones(3),
                chunks=list(chunks),
                plan=plan,
                iterations=2,
            )
            total = chunks.sum(axis=0)
            expected = np.ones(3) + total + (1 + total) * total
            np.testing.assert_allclose(stream.submit(job).result(LIMIT_S), expected, rtol=1e-9, err_msg=name)
