"""The schemes of the mmc paper: thresholds, costs, what decodes, and that real gradients come out right."""

from itertools import combinations

import numpy as np
import pytest

from echelon.codes import CountTracker, Decoder, SpanTracker, tracker
from echelon.codes import lagrange as lagrange_code
from echelon.errors import ArgumentError, NotDecodable
from echelon.schemes import fractional_repetition, gradient_coding, lagrange, multi_message, uncoded_multi_message

EXAMPLE_1 = multi_message(workers=6, load=3, order=2)
EXAMPLE_1_UNCORRELATED = multi_message(workers=6, load=3, orders=[3, 2])
PLANS = {
    "example 1 correlated": EXAMPLE_1,
    "example 1 uncorrelated": EXAMPLE_1_UNCORRELATED,
    "[5, 3]": multi_message(workers=5, load=5, orders=[5, 3]),
    "[5, 3] hybrid": multi_message(workers=5, load=5, orders=[5, 3], hybrid=True),
    "GC": gradient_coding(workers=40, load=10),
    "GC in clusters": gradient_coding(workers=40, load=7, clusters=5),
    "FR": fractional_repetition(workers=40, load=10),
    "UC-MMC": uncoded_multi_message(workers=40, load=10, clusters=2),
    "order 1": multi_message(workers=12, load=4, clusters=2, order=1),
    "GC-MMC-1": multi_message(workers=40, load=10, clusters=4, order=6),
    "GC-MMC-1 hybrid": multi_message(workers=40, load=10, clusters=4, order=6, hybrid=True),
    "GC-MMC-2": multi_message(workers=40, load=10, clusters=4, orders=[6, 8, 10]),
    "GC-MMC-2 hybrid": multi_message(workers=40, load=10, clusters=4, orders=[6, 8, 10], hybrid=True),
    "hybrid of one order": multi_message(workers=8, load=4, clusters=2, orders=[4], hybrid=True),
    "hybrid of order load": multi_message(workers=8, load=4, clusters=2, order=4, hybrid=True),
    "one worker": multi_message(workers=1, load=1, order=1),
}


def messages(plan, rng):
    """Return (slot, row) in order of arrival, where every worker has one pace."""
    sent = []
    for lane in plan.lanes:
        at, pace = 0.0, rng.exponential()
        for task in lane:
            at += pace * task.cost
            sent.append((at, task.slot, task.row))
    return [(slot, row) for _, slot, row in sorted(sent)]


def enough(slot, rows):
    """The counting rule, by hand."""
    return len(rows) >= slot.threshold or any(row in slot.alone for row in rows)


@pytest.mark.parametrize(
    ("plan", "threshold"),
    [
        (EXAMPLE_1, 5),
        (EXAMPLE_1_UNCORRELATED, 8),
        (multi_message(workers=10, load=10, order=6), 5),
        (multi_message(workers=10, load=10, orders=[6, 8, 10]), 7),
        (multi_message(workers=5, load=5, orders=[5, 3]), 3),
        (gradient_coding(workers=40, load=10), 31),
        (lagrange(workers=40, load=10), 7),
    ],
)
def test_thresholds_are_those_of_the_rulings(plan, threshold):
    """Notes 1, 2 and 5."""
    assert [slot.threshold for slot in plan.slots] == [threshold]


@pytest.mark.parametrize(
    ("size", "orders"), [(6, [2]), (6, [3, 2]), (10, [6]), (10, [6, 8, 10]), (5, [5, 3]), (9, [1, 2, 7])]
)
def test_a_threshold_is_the_largest_number_of_zeros_in_a_column_and_one(size, orders):
    mask = [[(chunk - worker) % size < order for chunk in range(size)] for worker in range(size) for order in orders]
    zeros = max(sum(not row[chunk] for row in mask) for chunk in range(size))
    assert multi_message(workers=size, load=max(orders), orders=orders).slots[0].threshold == zeros + 1


def test_example_1_has_the_papers_masks():
    """(2) without its last ones, and (3) with the smaller order first."""
    support = EXAMPLE_1.codes[0].support.astype(int)
    assert support.tolist() == [np.roll([1, 1, 0, 0, 0, 0], i).tolist() for i in range(6)]
    assert [[task.row for task in lane] for lane in EXAMPLE_1.lanes] == [[i, (i + 1) % 6] for i in range(6)]
    support = EXAMPLE_1_UNCORRELATED.codes[0].support.astype(int)
    assert support[0::2].tolist() == [np.roll([1, 1, 0, 0, 0, 0], i).tolist() for i in range(6)]
    assert support[1::2].tolist() == [np.roll([1, 1, 1, 0, 0, 0], i).tolist() for i in range(6)]
    assert [[task.row for task in lane] for lane in EXAMPLE_1_UNCORRELATED.lanes] == [
        [2 * i, 2 * i + 1] for i in range(6)
    ]


def sum_is_spanned(code, rows):
    held = code.matrix[list(rows)]
    return np.linalg.matrix_rank(np.vstack([held, code.target])) == np.linalg.matrix_rank(held)


def test_14_of_the_20_triples_of_example_1_decode():
    """By counting distinct rows, by matrix rank and by the decoder; workers 1, 2 and 4 are the paper's example."""
    code, decoder = EXAMPLE_1.codes[0], Decoder(EXAMPLE_1.codes[0])
    by_count = set()
    for triple in combinations(range(6), 3):
        rows = sorted({row for worker in triple for row in (worker, (worker + 1) % 6)})
        assert sum_is_spanned(code, rows) == decoder.ready(rows) == (len(rows) >= 5)
        if len(rows) >= 5:
            by_count.add(triple)
    assert len(by_count) == 14
    assert (0, 1, 3) in by_count


def test_every_8_of_the_12_rows_of_example_1_decode_real_gradients():
    code, decoder = EXAMPLE_1_UNCORRELATED.codes[0], Decoder(EXAMPLE_1_UNCORRELATED.codes[0])
    gradients = np.random.default_rng(1).normal(size=(6, 5))
    sent = code.matrix @ gradients
    sets = list(combinations(range(12), 8))
    assert len(sets) == 495
    for rows in sets:
        assert sum_is_spanned(code, rows)
        value = decoder.decode(rows, [sent[row] for row in rows]).value
        np.testing.assert_allclose(value, gradients.sum(axis=0, keepdims=True), rtol=0, atol=1e-9)


@pytest.mark.parametrize("order", range(2, 7))
def test_no_set_of_fewer_rows_than_the_threshold_decodes_a_correlated_code(order):
    code = multi_message(workers=7, load=7, order=order).codes[0]
    decoder = Decoder(code)
    for rows in combinations(range(7), code.threshold):
        assert sum_is_spanned(code, rows)
    for rows in combinations(range(7), code.threshold - 1):
        assert not sum_is_spanned(code, rows)
        with pytest.raises(NotDecodable):
            decoder.weights(rows)


@pytest.mark.parametrize("clusters", [1, 4])
def test_orders_mean_the_same_in_any_order(clusters):
    up, down = (
        multi_message(workers=40, load=10, clusters=clusters, orders=orders) for orders in ([6, 8, 10], [10, 8, 6])
    )
    assert (up.slots, up.lanes) == (down.slots, down.lanes)
    np.testing.assert_array_equal(up.codes[0].matrix, down.codes[0].matrix)


def costs_of(plan):
    return {tuple(task.cost for task in lane) for lane in plan.lanes}


def test_a_lane_costs_its_order_first_and_then_what_is_new():
    assert costs_of(EXAMPLE_1) == {(2.0, 1.0)}
    assert costs_of(PLANS["GC-MMC-1"]) == {(6.0, 1.0, 1.0, 1.0, 1.0)}
    assert costs_of(PLANS["GC-MMC-1 hybrid"]) == {(6.0, 1.0, 1.0, 1.0, 1.0)}
    assert costs_of(PLANS["GC-MMC-2"]) == costs_of(PLANS["GC-MMC-2 hybrid"]) == {(6.0, 2.0, 2.0)}
    assert costs_of(PLANS["[5, 3] hybrid"]) == {(3.0, 2.0)}
    assert costs_of(PLANS["GC"]) == costs_of(PLANS["FR"]) == costs_of(lagrange(workers=40, load=10)) == {(10.0,)}
    assert costs_of(PLANS["UC-MMC"]) == {(1.0,) * 10}
    assert costs_of(PLANS["hybrid of one order"]) == costs_of(PLANS["hybrid of order load"]) == {(4.0,)}


@pytest.mark.parametrize("load", range(1, 7))
def test_a_hybrid_lane_costs_the_load_and_ends_with_the_sum(load):
    clusters = 3
    designs = [{"order": order} for order in range(1, load + 1)]
    designs += [{"orders": [*some, load]} for some in combinations(range(1, load), min(2, load - 1))]
    for design in designs:
        plan = multi_message(workers=clusters * load, load=load, clusters=clusters, hybrid=True, **design)
        for lane in plan.lanes:
            assert sum(task.cost for task in lane) == load
            code = plan.codes[lane[-1].slot]
            assert code.matrix[lane[-1].row].tolist() == [1.0] * load
            assert plan.slots[lane[-1].slot].threshold == 1 or lane[-1].row in plan.slots[lane[-1].slot].alone


def test_a_row_is_made_of_chunks_that_its_worker_has_computed_by_then():
    """Worker i of a cluster computes chunks i, i + 1, … in a circle, as many as the costs so far say."""
    for name, plan in PLANS.items():
        for p, lane in enumerate(plan.lanes):
            computed = 0.0
            for task in lane:
                computed += task.cost
                chunks = plan.chunks[task.slot]
                used = {chunks[part] for part in np.flatnonzero(plan.codes[task.slot].matrix[task.row])}
                size = len(plan.lanes) // CLUSTERS.get(name, 1)
                base = p // size * size
                held = {base + (p - base + i) % size for i in range(round(computed))}
                assert used <= held, name


CLUSTERS = {
    "GC in clusters": 5,
    "FR": 4,
    "UC-MMC": 2,
    "order 1": 2,
    "GC-MMC-1": 4,
    "GC-MMC-1 hybrid": 4,
    "GC-MMC-2": 4,
    "GC-MMC-2 hybrid": 4,
    "hybrid of one order": 2,
    "hybrid of order load": 2,
}


@pytest.mark.parametrize("name", PLANS)
def test_every_chunk_is_a_part_of_one_slot(name):
    plan = PLANS[name]
    assert sorted(chunk for some in plan.chunks for chunk in some) == list(range(len(plan.lanes)))
    assert plan.parts == len(plan.lanes)


@pytest.mark.parametrize("name", PLANS)
def test_real_gradients_are_summed_from_the_messages_that_are_enough_by_counting(name):
    plan = PLANS[name]
    rng = np.random.default_rng(2)
    decoders = {id(code): Decoder(code) for code in plan.codes}
    for _ in range(40):
        gradients = rng.normal(size=(plan.parts, 4))
        rows = [[] for _ in plan.slots]
        recovered = {}
        for s, row in messages(plan, rng):
            if s in recovered:
                continue
            rows[s] += [row] if row not in rows[s] else []
            if enough(plan.slots[s], rows[s]):
                code = plan.codes[s]
                sent = code.encode(gradients[list(plan.chunks[s])])
                recovered[s] = decoders[id(code)].decode(rows[s], [sent[r] for r in rows[s]]).value.sum(axis=0)
        assert len(recovered) == len(plan.slots)
        np.testing.assert_allclose(sum(recovered.values()), gradients.sum(axis=0), rtol=0, atol=1e-8)


def test_the_decoder_asks_for_no_more_than_counting_does_at_the_hardest_sets_of_gradient_coding():
    """Neighbours on the circle of workers that all fail: 31 consecutive ones are left, in 40 ways."""
    code = PLANS["GC"].codes[0]
    decoder = Decoder(code)
    gradients = np.random.default_rng(3).normal(size=(40, 6))
    sent = code.matrix @ gradients
    for start in range(40):
        rows = [(start + i) % 40 for i in range(31)]
        value = decoder.decode(rows, [sent[row] for row in rows]).value[0]
        np.testing.assert_allclose(value, gradients.sum(axis=0), rtol=0, atol=1e-8)
        assert not decoder.ready(rows[:30])


@pytest.mark.parametrize("name", [name for name in PLANS if name != "example 1 uncorrelated"])
def test_the_span_of_rows_and_the_count_of_rows_say_enough_at_the_same_message(name):
    plan = PLANS[name]
    rng = np.random.default_rng(4)
    for trial in range(60):
        order = messages(plan, rng) if trial % 2 else rng.permutation(messages(plan, rng)).tolist()
        for s in {0, len(plan.slots) - 1}:
            code, slot = plan.codes[s], plan.slots[s]
            span, chosen = SpanTracker(code), tracker(code)
            count = CountTracker(rows=slot.rows, threshold=slot.threshold, alone=slot.alone)
            rows = set()
            for row in [row for at, row in order if at == s]:
                rows.add(row)
                said = enough(slot, rows)
                assert span.add(row) == count.add(row) == chosen.add(row) == said
            assert said
            assert count.received == span.received


def test_where_rows_outnumber_chunks_the_span_may_be_enough_before_the_count_and_never_after():
    """Example 1 has 12 rows of rank 6, and a threshold of 8: the paper's count is safe, not sharp."""
    code = EXAMPLE_1_UNCORRELATED.codes[0]
    assert not code.counting
    rng = np.random.default_rng(5)
    earlier = 0
    for _ in range(200):
        span = SpanTracker(code)
        needed = next(i + 1 for i, row in enumerate(rng.permutation(12).tolist()) if span.add(row))
        assert 2 < needed <= 8
        earlier += needed < 8
    assert earlier


def test_a_tracker_of_counts_knows_rows_that_are_enough_alone():
    count = CountTracker(rows=5, threshold=3, alone=[4])
    assert [count.add(row) for row in (0, 0, 9, 1, -1, 4)] == [False, False, False, False, False, True]
    assert count.received == [0, 1, 4]
    assert CountTracker(rows=5, threshold=3, alone=[4]).add(4)
    patient = CountTracker(rows=5, threshold=3, alone=[4])
    assert [patient.add(row) for row in (3, 2, 1, 1)] == [False, False, True, True]


@pytest.mark.parametrize(("workers", "load"), [(40, 10), (12, 5), (9, 3)])
def test_lagrange_coding_gives_the_gradient_of_least_squares_of_every_block(workers, load):
    """X^T X w of coded data is a polynomial of degree two; any threshold of workers, in random orders."""
    plan = lagrange(workers=workers, load=load)
    code, slot = plan.codes[0], plan.slots[0]
    blocks = -(-workers // load)
    assert slot.threshold == 2 * blocks - 1
    rng = np.random.default_rng(6)
    data, weights = rng.normal(size=(blocks, 8, 5)), rng.normal(size=5)
    plain = np.array([block.T @ (block @ weights) for block in data])
    coded = code.encode_parts(data)
    sent = [coded[i].T @ (coded[i] @ weights) for i in range(workers)]
    decoder = Decoder(code)
    for _ in range(30):
        rows = [row for _, row in messages(plan, rng)][: slot.threshold]
        value = decoder.decode(rows, [sent[row] for row in rows]).value
        np.testing.assert_allclose(value, plain, rtol=0, atol=1e-8 * np.abs(plain).max())
        np.testing.assert_allclose(
            value.sum(axis=0), plain.sum(axis=0), rtol=0, atol=1e-8 * np.abs(plain.sum(axis=0)).max()
        )
        assert not decoder.ready(rows[:-1])


def test_lagrange_coding_of_a_higher_degree_needs_more_workers():
    assert lagrange(workers=40, load=10, degree=3).slots[0].threshold == 10
    assert lagrange(workers=40, load=10, degree=1).slots[0].threshold == 4
    assert lagrange_code(parts=4, degree=3, rows=40).threshold == 10


@pytest.mark.parametrize("clusters", [1, 2, 4])
def test_gradient_coding_is_the_design_of_one_order_the_load(clusters):
    plain = gradient_coding(workers=8, load=2, clusters=clusters)
    for kind in ({"order": 2}, {"orders": [2]}):
        other = multi_message(workers=8, load=2, clusters=clusters, **kind)
        assert (plain.slots, plain.lanes) == (other.slots, other.lanes)
        np.testing.assert_array_equal(plain.codes[0].matrix, other.codes[0].matrix)


def test_uncoded_computation_and_order_one_send_the_same_chunks_at_the_same_times():
    ours, theirs = uncoded_multi_message(workers=12, load=4, clusters=2), PLANS["order 1"]

    def sent(plan):
        return [[(plan.chunks[task.slot][task.row], task.cost) for task in lane] for lane in plan.lanes]

    assert sent(ours) == sent(theirs)
    assert sent(ours)[5] == [(5, 1.0), (0, 1.0), (1, 1.0), (2, 1.0)]


REFUSED = [
    ({"clusters": 4}, "clusters: 4 is not allowed; must divide"),
    ({"clusters": 0}, "clusters: 0"),
    ({"clusters": 7}, "clusters: 7"),
    ({"clusters": 3}, "load: 3 is not allowed; must be at most 2"),
    ({"load": 7}, "load: 7"),
    ({"load": 0}, "load: 0"),
    ({"load": 2.0}, "load: 2.0"),
    ({"workers": 0}, "workers: 0"),
    ({"workers": 5001}, "workers: 5001"),
    ({"order": 0}, "order: 0"),
    ({"order": 4}, "order: 4 is not allowed; must be at most 3"),
    ({"order": 1.5}, "order: 1.5"),
    ({"order": None}, "order, orders: "),
    ({"orders": [2, 3]}, "order, orders: "),
    ({"order": None, "orders": [2, 2]}, r"orders: \[2, 2\]"),
    ({"order": None, "orders": []}, r"orders: \[\]"),
    ({"order": None, "orders": [2, 4]}, "orders: 4"),
    ({"order": None, "orders": [0, 2]}, "orders: 0"),
    ({"hybrid": True}, "hybrid: not allowed with load 3"),
    ({"hybrid": True, "clusters": 2, "order": None, "orders": [1, 2]}, "orders: the largest is 2; must be load, 3"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED)
def test_designs_that_cannot_be_are_refused_by_name(arguments, said):
    with pytest.raises(ArgumentError, match=f"^{said}"):
        multi_message(**{"workers": 6, "load": 3, "order": 2, **arguments})


@pytest.mark.parametrize(
    ("scheme", "arguments", "said"),
    [
        (gradient_coding, {"workers": 6, "load": 4, "clusters": 2}, "load: 4"),
        (gradient_coding, {"workers": 6, "load": 2, "clusters": 5}, "clusters: 5"),
        (fractional_repetition, {"workers": 6, "load": 4}, "load: 4 is not allowed; must divide"),
        (fractional_repetition, {"workers": 6, "load": 7}, "load: 7"),
        (uncoded_multi_message, {"workers": 6, "load": 4, "clusters": 2}, "load: 4"),
        (uncoded_multi_message, {"workers": 6, "load": 1, "clusters": 4}, "clusters: 4"),
        (lagrange, {"workers": 6, "load": 7}, "load: 7"),
        (lagrange, {"workers": 0, "load": 1}, "workers: 0"),
        (lagrange, {"workers": 6, "load": 3, "degree": 0}, "degree: 0"),
    ],
)
def test_the_other_schemes_refuse_what_cannot_be_by_name(scheme, arguments, said):
    with pytest.raises(ArgumentError, match=f"^{said}"):
        scheme(**arguments)


def test_lagrange_coding_on_too_few_workers_is_refused():
    """Four blocks of degree two need 7 workers."""
    with pytest.raises(ArgumentError, match="load: 1 is not allowed; 4 blocks need 7 workers"):
        lagrange(workers=4, load=1)
