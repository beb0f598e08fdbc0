"""The promises of DIP and IDIP, over all patterns of stragglers that conform, and over some that do not."""

from itertools import product as choices

import numpy as np
import pytest

from echelon.errors import ArgumentError
from echelon.schemes import (
    Window,
    diagonal_interleaved,
    improved_diagonal_interleaved,
    polynomial_products,
    uncoded_products,
)
from echelon.stragglers import Arbitrary, Bursts, waited
from tests.schemes.chains import Chain, Matrices, decoder, through_all

# workers P, window W, stragglers N, rounds
ARBITRARY = [
    (1, 2, 1, 6), (1, 3, 1, 7), (1, 3, 2, 7), (1, 4, 2, 8), (1, 4, 3, 8), (2, 1, 1, 4), (2, 2, 1, 5), (2, 2, 2, 5),
    (2, 2, 3, 5), (2, 3, 1, 6), (2, 3, 2, 6), (2, 3, 3, 5), (2, 3, 4, 5), (2, 3, 5, 5), (2, 4, 2, 6), (2, 4, 3, 6),
    (2, 4, 4, 6), (2, 5, 3, 7), (3, 1, 1, 3), (3, 1, 2, 3), (3, 2, 1, 5), (3, 2, 2, 4), (3, 2, 3, 4),
    (3, 2, 4, 4), (3, 3, 2, 5), (3, 3, 3, 5), (4, 1, 2, 3), (4, 2, 2, 4), (5, 1, 1, 3), (5, 2, 1, 4),
]  # fmt: skip
# workers P, at once S, length B, window W, rounds
BURSTS = [
    (1, 1, 2, 4, 8), (2, 1, 1, 3, 6), (2, 1, 2, 3, 6), (2, 2, 1, 3, 6), (2, 2, 2, 3, 6), (3, 1, 2, 3, 5),
    (3, 2, 1, 2, 4), (3, 2, 2, 3, 5), (2, 1, 2, 4, 7), (2, 2, 2, 4, 6), (4, 1, 2, 3, 5),
]  # fmt: skip
CASES = [(p, Arbitrary(count=n, window=w), rounds) for p, w, n, rounds in ARBITRARY]
CASES += [(p, Bursts(workers_at_once=s, length=b, window=w), rounds) for p, s, b, w, rounds in BURSTS]
BY_CASE = pytest.mark.parametrize(("workers", "model", "rounds"), CASES, ids=str)


def test_there_are_enough_configurations():
    assert len({case[:3] for case in ARBITRARY}) >= 20
    assert len(BURSTS) >= 5


@BY_CASE
def test_every_conforming_pattern_leaves_every_product_decodable_and_no_uncoded_task_fails(workers, model, rounds):
    """Each product by round i + T, from its rows; products of real matrices; W mini-tasks a round and no more."""
    scheme = improved_diagonal_interleaved(workers, model)
    assert scheme.threshold == workers * model.window - model.most
    done = set(range(rounds - scheme.delay))
    assert len(done) >= 3
    lengths = set()
    for chain in through_all(scheme, model.all_patterns(workers, rounds), rounds, Matrices(scheme)):
        assert done <= chain.found.keys()
        assert chain.most <= model.window
        if not chain.early:
            assert chain.most == model.window
        lengths.add(chain.most)
    assert max(lengths) == model.window


@BY_CASE
def test_other_cuts_than_the_squarest_hold_the_promises_too(workers, model, rounds):
    results = workers * model.window - model.most
    rng = np.random.default_rng(6)
    for x, y in {(1, results), (results, 1), (1, max(1, results - 1))}:
        scheme = improved_diagonal_interleaved(workers, model, x=x, y=y)
        for pattern in model.worst_patterns(workers, rounds, rng, 10):
            chain = Chain(scheme, rounds)
            for slow in pattern:
                chain.step(slow)
            assert set(range(rounds - scheme.delay)) <= chain.found.keys()


@BY_CASE
@pytest.mark.parametrize("chance", [0.2, 0.5, 0.9])
def test_patterns_that_do_not_conform_are_exact_too_after_waiting(workers, model, rounds, chance):
    """Waiting as `waited` says, and waiting as the round's own limits say, in random orders of finishing."""
    rng = np.random.default_rng(int(100 * chance))
    scheme = improved_diagonal_interleaved(workers, model)
    rounds += 4
    for pattern in rng.random((8, rounds, workers)) < chance:
        left = waited(pattern, model, rng)
        assert model.conforms(left)
        chains = Chain(scheme, rounds), Chain(scheme, rounds)
        for given, slow in zip(left, pattern, strict=True):
            chains[0].step(given)
            chains[1].step(slow, order=rng.permutation(workers))
        for chain in chains:
            assert set(range(rounds - scheme.delay)) <= chain.found.keys()
            assert chain.most <= model.window


class Shortcut(Arbitrary):
    """Line 13 with what the last window alone leaves: h(t-W+1, t-1) + W-l+1 <= N."""

    def longest(self, history):
        left = self.count - int(self.recent(history).sum())
        return np.full(history.shape[1], left)


def test_the_shortcut_for_line_13_gives_out_an_uncoded_task_that_never_returns():
    """Ruling 3: P = 2, W = 2, N = 2, stragglers {}, {}, {1}, {1}, {1}."""
    pattern = np.zeros((6, 2), dtype=bool)
    pattern[2:, 0] = True
    assert Arbitrary(count=2, window=2).conforms(pattern)
    chain = Chain(improved_diagonal_interleaved(2, Arbitrary(count=2, window=2)), 5)
    for slow in pattern:
        chain.step(slow)
    assert chain.found.keys() == set(range(5))
    unsafe = Chain(improved_diagonal_interleaved(2, Shortcut(count=2, window=2)), 5)
    for slow in pattern[:4]:
        unsafe.step(slow)
    with pytest.raises(AssertionError, match="an uncoded mini-task did not succeed"):
        unsafe.step(pattern[4])  # what worker 1 was given plain in the round before is due


def test_uncoded_tasks_are_given_out_where_nothing_can_be_lost():
    """N = 0: all is plain. Bursts that can't last for a whole window leave more plain than any N stragglers do."""
    plain = {}
    for model in (
        Arbitrary(count=0, window=3),
        Arbitrary(count=2, window=3),
        Bursts(workers_at_once=1, length=2, window=3),
    ):
        scheme = improved_diagonal_interleaved(4, model)
        chain = Chain(scheme, 6)
        for _ in range(8):
            chain.step(np.zeros(4, dtype=bool))
        plain[type(model).__name__, model.most] = [len(rows) for rows in chain.plain.values()]
    assert plain["Arbitrary", 0] == [12] * 6
    assert plain["Bursts", 2] == plain["Arbitrary", 2]  # nobody straggled, so nothing was ruled out


def test_a_burst_rules_out_other_stragglers():
    """One worker at a time, in its burst: the others get plain work, in the window of any two stragglers they don't."""
    pattern = np.zeros((9, 3), dtype=bool)
    pattern[2:4, 0] = True
    counts = []
    for model in (Arbitrary(count=2, window=4), Bursts(workers_at_once=1, length=2, window=4)):
        scheme = improved_diagonal_interleaved(3, model)
        chain = Chain(scheme, 6)
        for slow in pattern:
            chain.step(slow)
        counts.append(sum(len(rows) for rows in chain.plain.values()))
    assert counts[0] <= counts[1]


# DIP


@pytest.mark.parametrize("spread", [1, 2, 3])
@pytest.mark.parametrize(("x", "y", "delay"), [(1, 5, 0), (2, 3, 1), (2, 2, 3), (1, 1, 2)])
def test_dip_finishes_every_product_as_soon_as_lambda_workers_return(x, y, delay, spread):
    """Whatever the pattern: it is enough that any lambda workers finish in a round that something is due in."""
    rng = np.random.default_rng(10 * delay + spread)
    scheme = diagonal_interleaved(3, x=x, y=y, delay=delay, spread=spread)
    matrices = Matrices(scheme)
    for pattern in rng.random((30, 8, 3)) < 0.6:
        chain = Chain(scheme, 8 - delay, matrices)
        for slow in pattern:
            order = rng.permutation(3)
            if slow.sum() > 3 - spread:
                slow = np.isin(np.arange(3), order[: 3 - spread])
            chain.step(slow)
        assert chain.found.keys() == set(range(8 - delay))


def test_dip_gives_as_many_tasks_as_note_2_says():
    """l_t = T tasks for the products that are not due and not finished, and ceil(missing / lambda) of the due one."""
    rng = np.random.default_rng(3)
    scheme = diagonal_interleaved(4, x=3, y=4, delay=2, spread=3)
    window = Window(scheme)
    got = {}
    for t in range(30):
        plan = window.open(t)
        for product in plan.products:
            each = {sum(plan.products[task.slot] == product for task in lane) for lane in plan.lanes}
            due = product == t - 2
            assert each == {-(-(12 - got.get(product, 0)) // 3) if due else 1}
        slow = rng.random(4) < 0.5
        slow[rng.permutation(4)[:3]] = False
        received = {(task.slot, task.row) for p, lane in enumerate(plan.lanes) if not slow[p] for task in lane}
        for slot, _ in received:
            got[plan.products[slot]] = got.get(plan.products[slot], 0) + 1
        window.close(received, [s for s, p in enumerate(plan.products) if got.get(p, 0) >= 12])


@pytest.mark.parametrize(("workers", "window", "count", "rounds"), [(2, 2, 2, 5), (2, 3, 2, 6), (3, 2, 3, 4)])
def test_dip_with_lambda_p_has_the_least_load_of_the_arbitrary_model(workers, window, count, rounds):
    """Theorem 3.1: x y = P W - N, lambda = P, T = W - 1, over all conforming patterns."""
    scheme = diagonal_interleaved(workers, x=1, y=workers * window - count, delay=window - 1, spread=workers)
    most = 0
    patterns = Arbitrary(count=count, window=window).all_patterns(workers, rounds)
    for chain in through_all(scheme, patterns, rounds):
        assert set(range(rounds - scheme.delay)) <= chain.found.keys()
        most = max(most, chain.most)
    assert most == window


# the window itself


def test_a_product_that_is_there_early_gets_no_more_tasks():
    window = Window(diagonal_interleaved(3, x=1, y=3, delay=2))
    plan = window.open(0)
    assert window.close([(0, task.row) for lane in plan.lanes for task in lane], [0]) == [0]
    assert window.products == []
    assert window.open() is None


def test_rows_that_came_are_remembered_and_never_asked_for_again():
    window = Window(diagonal_interleaved(2, x=1, y=5, delay=2))
    window.open(0)
    window.close([(0, 1)], [])
    assert window.rows_of(0) == (1,)
    plan = window.open(1)
    assert plan.slots[1].threshold == 4
    assert plan.slots[1].known == (1,)
    assert {task.row for lane in plan.lanes for task in lane if task.slot == 1} == {2, 3}


def test_rows_that_the_next_round_gives_out_are_known_ahead():
    window = Window(diagonal_interleaved(2, x=1, y=7, delay=2))
    window.open(0)
    assert {product: list(rows) for product, rows in window.ahead().items()} == {0: [2, 3]}
    window.close([], [])
    plan = window.open(1)
    assert {task.row for lane in plan.lanes for task in lane if plan.products[task.slot] == 0} == {2, 3}
    window.close([], [])
    window.open(2)
    assert set(window.ahead()) == {1, 2}


def test_what_turned_out_too_noisy_gets_one_more_row_for_every_worker():
    """All three results are there and were refused: the product is not settled, and still lacks one."""
    window = Window(diagonal_interleaved(3, x=1, y=3, delay=1))
    window.open(0)
    assert window.close([(0, 0), (0, 1), (0, 2)], []) == []
    plan = window.open()
    assert plan.slots[0].threshold == 1
    assert [[task.row for task in lane] for lane in plan.lanes] == [[3], [4], [5]]


def test_tasks_cost_their_share_of_their_own_product():
    window = Window(diagonal_interleaved(2, x=2, y=3, delay=1))
    window.open(0, load=6.0)
    window.close([], [])
    plan = window.open(1, load=3.0)
    assert {(plan.products[task.slot], task.cost) for lane in plan.lanes for task in lane} == {(1, 0.5), (0, 1.0)}


def test_numbers_of_products_must_grow():
    window = Window(diagonal_interleaved(2, x=1, y=5, delay=2))
    window.open(4)
    window.close([], [])
    with pytest.raises(ArgumentError, match="product: 4 is not allowed; numbers of products must grow"):
        window.open(4)


@pytest.mark.parametrize("scheme", [polynomial_products(4, x=2, y=1), uncoded_products(4)], ids=["coded", "uncoded"])
def test_without_delay_every_product_takes_one_round_and_one_task_a_worker(scheme):
    window = Window(scheme)
    for t in range(3):
        plan = window.open(t)
        assert plan.counts.tolist() == [1, 1, 1, 1]
        assert plan.ending.due == (0,)
        assert window.close([(0, lane[0].row) for lane in plan.lanes], [0]) == [t]


def test_only_the_rounds_that_a_model_looks_at_are_remembered():
    model = Arbitrary(count=3, window=3)
    window = Window(improved_diagonal_interleaved(3, model))
    for t in range(10):
        plan = window.open(t)
        received = {(task.slot, task.row) for lane in plan.lanes[1:] for task in lane}
        window.close(received, [slot for slot in plan.ending.due])
        assert len(window.history) <= 2
    assert window.history.tolist() == [[True, False, False]] * 2


def test_every_set_of_rows_that_a_small_chain_can_end_with_decodes():
    """All subsets of the rows of two rounds on two workers that reach the threshold of a DIP chain."""
    scheme = diagonal_interleaved(2, x=1, y=3, delay=1, spread=2)
    window = Window(scheme)
    first = [lane[0].row for lane in window.open(0).lanes]
    window.close([], [])
    second = [task.row for lane in window.open().lanes for task in lane]
    rows = [*first, *second]
    sets = [
        [r for r, there in zip(rows, some, strict=True) if there] for some in choices((0, 1), repeat=len(rows))
    ]  # fmt: skip
    for some in sets:
        assert decoder(scheme).ready(some) == (len(some) >= 3)
