"""Messages that are a fraction of a result: what they carry, how long they are, and when advice takes them."""

from itertools import combinations, product
from statistics import fmean, stdev

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import shipping
from echelon.codes import Decoder, cyclic, short_messages
from echelon.errors import ArgumentError, JobFailed
from tests.search.clusters import cluster, named

LIMIT_S = 60.0
Z = 2.576  # 99 %


class Sizes(ec.Observer):
    """The bytes of all messages, and the time of every round."""

    def __init__(self):
        self.nbytes, self.rounds = set(), []

    def received(self, arrival):
        self.nbytes.add(arrival.nbytes)

    def round_over(self, seen):
        self.rounds.append(seen.end - seen.start)


def tree(state, chunk):
    return {"far": np.outer(chunk, state), "near": [(chunk * 2).astype(np.float32), np.float64(chunk.sum())]}


def added(state, total):
    near, count = total["near"]
    return (state + total["far"].sum(axis=0) + near.sum() + count) / (1 + np.abs(total["far"]).max())


def by_one(chunks, rounds):
    state = np.ones(5)
    for _ in range(rounds):
        results = [tree(state, chunk) for chunk in chunks]
        far = np.sum([one["far"] for one in results], axis=0)
        near = [np.sum([one["near"][i] for one in results], axis=0) for i in (0, 1)]
        state = added(state, {"far": far, "near": near})
    return state


@pytest.mark.parametrize("where", ["virtual", "threads", "processes"])
@pytest.mark.parametrize("pieces", [2, 3, 4])
def test_dicts_of_any_length_come_back_whole_from_messages_of_a_fraction(where, pieces):
    chunks = list(np.random.default_rng(1).standard_normal((6, 7)))
    plan, sizes = ec.schemes.short_messages(workers=6, load=5, pieces=pieces), Sizes()
    job = ec.SumJob(partial=tree, update=added, state=np.ones(5), chunks=chunks, plan=plan, iterations=3)
    with ec.Stream(where, workers=6, observers=[sizes]) as stream:
        done = stream.submit(job).delivery(LIMIT_S)
    assert done.error is None
    # 7 float32 beside float64s: their rounding is 1e-7 of terms of size 10, amplified as the estimate says
    np.testing.assert_allclose(
        done.result, by_one(chunks, 3), rtol=max(1e-5, 10 * done.error_estimate.relative_to_terms)
    )
    doubles, singles = -(-36 // pieces), -(-7 // pieces)
    assert sizes.nbytes == {-(-8 * doubles // 64) * 64 + 4 * singles}


@pytest.mark.parametrize("pieces", [2, 3])
def test_any_promised_set_gives_every_piece_and_errors_are_as_stated(pieces):
    code = short_messages(rows=10, critical=7, pieces=pieces, rng=np.random.default_rng(3))
    assert code.sums
    assert (code.support.sum(axis=1) == 3 + pieces).all()
    rng, decoder = np.random.default_rng(4), Decoder(code)
    results = rng.standard_normal((10, pieces, 50))
    messages = np.stack(code.encode(results.reshape(10 * pieces, 50)))
    for _ in range(100):
        rows = np.sort(rng.choice(10, 7, replace=False))
        weights = decoder.weights(rows)
        np.testing.assert_allclose(weights.combine(list(messages[rows])), results.sum(axis=0), atol=1e-8)
        # noise of size one on every message becomes what is said: the sample deviation of 50 numbers, at 99.99 %
        noise = weights.matrix @ rng.standard_normal((7, 50))
        assert noise.std(axis=1).max() <= weights.amplification * 1.45


@pytest.mark.parametrize("rows", range(1, 11))
def test_all_sets_of_up_to_ten_rows_give_the_sum_with_an_error_as_estimated(rows):
    """Any critical rows, for every number of them and of pieces (of few pieces where rows are many)."""
    rng = np.random.default_rng(rows)
    for critical, pieces in product(range(1, rows + 1), range(1, 11 if rows < 8 else 3)):
        if pieces > critical:
            continue
        code = short_messages(rows=rows, critical=critical, pieces=pieces, rng=rng)
        assert (code.support.sum(axis=1) == min(rows, rows - critical + pieces)).all()
        results = rng.standard_normal((rows, pieces, 5))
        messages, decoder = np.stack(code.encode(results.reshape(rows * pieces, 5))), Decoder(code, limit=1e12)
        total = results.sum(axis=0)
        for some in combinations(range(rows), critical):
            weights = decoder.weights(some)
            found = weights.combine(list(messages[list(some)]))
            error = np.linalg.norm(found - total) / np.linalg.norm(total)
            sizes = np.abs(messages[list(some)]).max(axis=1)
            assert error <= min(1e-9, weights.error_estimate(found, sizes).relative_to_result)


def test_noise_of_twenty_rows_stays_within_three_digits():
    """Measured on all arcs of losses and on random ones; waves alone, or random columns alone, may be worse."""
    for pieces, lost in ((2, 2), (4, 2), (4, 4)):
        code = short_messages(rows=20, critical=20 - lost, pieces=pieces, rng=np.random.default_rng(1))
        decoder = Decoder(code)
        arcs = [(start + np.arange(20 - lost)) % 20 for start in range(20)]
        assert max(decoder.weights(rows).gain for rows in arcs) < 1000


def test_one_piece_is_a_gradient_code_of_the_same_support():
    one, known = (
        short_messages(rows=8, critical=6, pieces=1, rng=np.random.default_rng(1)),
        cyclic(rows=8, load=3, rng=np.random.default_rng(1)),
    )
    assert (one.support == known.support).all()
    assert (one.threshold, one.pieces) == (known.threshold, 1)


def test_a_result_that_is_not_finite_is_computed_again_without_a_code():
    job = ec.SumJob(
        partial=lambda w, x: np.full(5, x), update=lambda w, total: total, state=0.0,
        chunks=[1.0, np.inf, 2.0, 3.0], code="short_messages:critical=3,pieces=2", iterations=1,
    )  # fmt: skip
    with ec.Stream("virtual", workers=4) as stream:
        assert np.isposinf(stream.submit(job).result()).all()


def test_bfloat16_and_pieces_make_messages_shorter_together():
    chunks, sizes = list(np.ones((6, 10), dtype=np.float32)), Sizes()
    job = ec.SumJob(
        partial=lambda w, x: x, update=lambda w, total: total, state=0.0, chunks=chunks, messages="bfloat16",
        plan=ec.schemes.short_messages(workers=6, load=3, pieces=2), iterations=1, tolerance=1.0,
    )  # fmt: skip
    with ec.Stream("virtual", workers=6, observers=[sizes]) as stream:
        np.testing.assert_allclose(stream.submit(job).result(), 6.0, rtol=0.25)
    assert sizes.nbytes == {10}  # five numbers of two bytes, and not ten of four


def test_a_slow_network_makes_advice_cut_results_into_pieces_by_hand():
    """Six equal chunks of a second; messages of 8 s: with m pieces m chunks and 8/m s, least for three."""
    slow = cluster([1.0] * 6, critical=6, bandwidth=1e6)
    found = ec.advise(slow, bytes_per_message=8e6)
    assert found.best.name == "short messages, 3 pieces, 3 chunks each"
    by_name = named(found)
    for pieces in (2, 3, 4):
        name = f"short messages, {pieces} pieces, {pieces} chunks each"
        if name in by_name:
            assert by_name[name].iteration == pytest.approx(pieces + 8 / pieces)
    assert by_name["uncoded, uniform"].iteration == pytest.approx(9.0)
    quick = ec.advise(cluster([1.0] * 6, critical=6, bandwidth=1e9), bytes_per_message=8e6)
    assert "short" not in quick.best.name
    assert found.best.plane == "master"


@pytest.mark.parametrize("port", [float("inf"), 2e4])
def test_advice_for_short_messages_agrees_with_virtual_time_at_99_percent(port):
    profile = cluster([1.0] * 6, std=0.5, critical=6, bandwidth=1e4, port=port)
    state = np.zeros(1)
    pickled, buffers = shipping.pack(state)
    told = len(pickled) + sum(buffer.nbytes for buffer in buffers)
    found = ec.advise(profile, bytes_per_message=8e4, bytes_of_state=told)
    best = found.best
    assert "short messages" in best.name
    sizes = Sizes()
    job = ec.SumJob(
        partial=lambda w, x: x, update=lambda w, total: w, state=state, chunks=[np.ones(10_000)] * 6,
        plan=best.plan(), iterations=400,
    )  # fmt: skip
    with ec.Stream("virtual", emulate=profile, seed=5, patience_s=1e6, observers=[sizes]) as stream:
        done = stream.submit(job).delivery()
    seen = sizes.rounds
    half = Z * stdev(seen) / len(seen) ** 0.5
    assert abs(done.delay / 400 - best.iteration) <= half + best.error
    assert abs(fmean(seen) - done.delay / 400) < 0.02 * best.iteration  # rounds follow one another


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"workers": 4, "load": 2, "pieces": 3}, "pieces: 3"),
        ({"workers": 4, "load": 5}, "load: 5"),
        ({"workers": 0, "load": 1}, "workers: 0"),
        ({"workers": 4, "load": 2, "pieces": 0}, "pieces: 0"),
    ],
)
def test_shapes_that_are_no_code_are_refused(asked, said):
    with pytest.raises(ArgumentError, match=said):
        ec.schemes.short_messages(**asked)


def test_results_of_different_shapes_fail_the_job_with_both_forms():
    job = ec.SumJob(
        partial=lambda w, x: np.ones(x), update=lambda w, total: total, state=0.0, chunks=[2, 2, 3, 2],
        plan=ec.schemes.short_messages(workers=4, load=3, pieces=2), iterations=1,
    )  # fmt: skip
    with ec.Stream("virtual", workers=4) as stream, pytest.raises(JobFailed, match="one shape and type"):
        stream.submit(job).result()
