"""Wrong results are found before a step, their workers named and replaced, and the rows computed elsewhere."""

import json
import logging
import os

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Crash, Faults
from echelon.errors import ArgumentError, JobFailed
from echelon.schemes import backups, fractional_repetition, multi_message, pull
from echelon.stream import read_record

PLACES, LIAR = 8, 3


class Named(ec.Observer):
    """Counts who is named, and who is lost, by place."""

    def __init__(self):
        self.places, self.workers, self.lost = [], set(), []

    def wrong_result(self, time_s, worker, place, round, slot, row):
        self.places.append(place)
        self.workers.add(worker)

    def worker_down(self, time_s, worker, place, reason):
        self.lost.append(worker)


def cluster(wrong, places=PLACES, seed=5, incidents=()):
    return VirtualCluster(
        emulate=ec.Profile(
            ec.Workload(critical=16, redundancy=1.5, iterations=50, arrivals=ec.Arrivals.poisson(0.01)),
            [ec.Worker(f"w{i}", mean=0.1, std=0.1) for i in range(places)],
        ),
        faults=Faults(np.random.default_rng(seed), wrong=wrong, incidents=incidents),
    )


class Sums:
    """A sum over chunks whose state counts the rounds, and how far off the worst was, relative to its terms."""

    def __init__(self, rounds, parts=16, dtype=np.float64, **more):
        chunks = [chunk.astype(dtype) for chunk in np.random.default_rng(3).standard_normal((parts, 6, 20))]
        self.total = sum(chunk.sum(axis=0) for chunk in chunks)
        self.terms = sum(np.abs(chunk).sum() for chunk in chunks)
        self.worst = 0.0
        self.job = ec.SumJob(
            partial=lambda k, chunk: chunk.sum(axis=0) * np.asarray(k + 1, chunk.dtype), update=self._update, state=0,
            chunks=chunks, iterations=rounds, **more,
        )  # fmt: skip

    def _update(self, k, total):
        off = np.abs(total / (k + 1) - self.total).max() / self.terms
        self.worst = max(self.worst, float(off) if np.isfinite(total).all() else np.inf)
        return k + 1


class Products:
    """The same for products with a matrix."""

    def __init__(self, rounds, parts=16, **more):
        self.matrix, self.worst = np.random.default_rng(3).standard_normal((120, 30)), 0.0
        self.job = ec.LinearJob(
            matrix=self.matrix,
            vector=self._vector,
            update=self._update,
            state=0,
            parts=parts,
            iterations=rounds,
            **more,
        )

    def _vector(self, k):
        return np.random.default_rng(k).standard_normal(30)

    def _update(self, k, product):
        off = np.abs(product - self.matrix @ self._vector(k)).max() / np.abs(product).max()
        self.worst = max(self.worst, float(off) if np.isfinite(product).all() else np.inf)
        return k + 1


def run(made, redundancy, wrong=None, places=PLACES, **options):
    """Return what was noticed while a job ran in virtual time."""
    named, where = Named(), cluster({LIAR: 0.01} if wrong is None else wrong, places)
    with ec.Stream(where, redundancy=redundancy, split="uniform", observers=[named], **options) as stream:
        done = stream.submit(made.job).delivery()
    assert done.error is None, done.error
    assert not where.lent  # all memory was given back
    return named


@pytest.mark.parametrize("kind", [Sums, Products])
@pytest.mark.parametrize(("verify", "redundancy"), [("spare", 1.2), ("vote", 1.0)])
def test_of_300_rounds_with_bit_flips_none_is_wrong_and_the_liar_alone_is_named_and_replaced(kind, verify, redundancy):
    made = kind(300)
    named = run(made, redundancy, verify=verify)
    assert made.worst < 1e-9
    assert named.places
    assert set(named.places) == {LIAR}
    assert named.lost  # in some round for the third time
    assert set(named.lost) <= named.workers


@pytest.mark.parametrize("kind", [Sums, Products])
def test_without_verify_bit_flips_go_into_the_results(kind):
    made = kind(60)
    assert not run(made, 1.2, {LIAR: 0.2}).places
    assert made.worst > 1e-6


def test_one_row_to_spare_finds_wrong_rows_and_names_their_worker_when_they_are_computed_again():
    made = Sums(100)
    named = run(made, 16 / 15, {LIAR: 0.03}, verify="spare")
    assert made.worst < 1e-9
    assert set(named.places) == {LIAR}


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize(("verify", "redundancy"), [("spare", 1.2), ("vote", 1.0)])
def test_other_numbers_are_checked_by_their_own_precision(dtype, verify, redundancy):
    made = Sums(60, dtype=dtype)
    named = run(made, redundancy, {LIAR: 0.05}, verify=verify)
    assert made.worst < (1e-3 if dtype is np.float32 else 1e-9)
    assert set(named.places) == {LIAR}


def test_rounded_messages_are_checked_as_coarsely():
    made = Sums(60, dtype=np.float32, messages="bfloat16", tolerance=0.05)
    assert set(run(made, 1.2, {LIAR: 0.1}, verify="vote").places) <= {LIAR}
    assert made.worst < 0.05


@pytest.mark.parametrize(
    "plan",
    [
        backups(workers=PLACES, parts=16, copies=2, code=ec.codes.uncoded(parts=16)),
        pull(workers=PLACES, parts=16),
        multi_message(workers=PLACES, load=2, clusters=2, order=2),
        fractional_repetition(workers=PLACES, load=2),
    ],
    ids=["backups", "pull", "multi_message", "fractional_repetition"],
)  # fmt: skip
def test_a_vote_works_with_any_plan(plan):
    made = Sums(40, parts=plan.parts, plan=plan)
    named = run(made, 1.0, {LIAR: 0.1}, verify="vote")
    assert made.worst < 1e-9
    assert set(named.places) <= {LIAR}
    assert named.places or plan.slots[0].threshold < plan.slots[0].rows  # else the round did without the row


def test_copies_of_a_group_s_sum_are_rows_to_spare():
    made = Sums(60, code="fractional_repetition:load=4")
    assert set(run(made, 1.0, {LIAR: 0.1}, verify="spare").places) == {LIAR}
    assert made.worst < 1e-9


@pytest.mark.parametrize("verify", ["spare", "vote"])
def test_blocks_are_checked_too(verify):
    levels = [1, 2, PLACES - 1]
    job = ec.BlockJob(
        partial=lambda w, x, at: x[at] * w[at], update=lambda w, g: w - 0.1 * g, state=np.ones(3),
        chunks=list(np.random.default_rng(1).uniform(0, 0.1, (PLACES, 3))),
        plan=ec.schemes.block_coordinate(PLACES, levels=levels), iterations=60, verify=verify,
    )  # fmt: skip
    named, results = Named(), []
    for wrong in ({}, {LIAR: 0.1}):
        with ec.Stream(cluster(wrong), observers=[named]) as stream:
            results.append(stream.submit(job).result())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-9)
    assert set(named.places) == {LIAR}


@pytest.mark.parametrize(("verify", "redundancy"), [("spare", 1.3), ("vote", 1.0)])
def test_workers_that_die_while_results_are_checked_do_no_harm(verify, redundancy):
    made, named, where = Sums(60), Named(), cluster({LIAR: 0.1})

    class Killer(ec.Observer):
        def opened(self, seen):
            where.kill(seen.workers[seen.round % len(seen.workers)])

    with ec.Stream(where, redundancy=redundancy, verify=verify, observers=[named, Killer()]) as stream:
        assert stream.submit(made.job).result() == 60
    assert made.worst < 1e-9
    assert set(named.places) <= {LIAR}


@pytest.mark.parametrize(("verify", "redundancy"), [("spare", 1.3), ("vote", 1.0)])
def test_results_that_are_not_finite_are_nobody_s_fault(verify, redundancy):
    job = ec.SumJob(
        partial=lambda w, x: np.array([np.nan, 1.0]) * x, update=lambda w, total: total, state=0.0,
        chunks=[float(i + 1) for i in range(12)], iterations=2, verify=verify,
    )  # fmt: skip
    named = Named()
    with ec.Stream(cluster({}), redundancy=redundancy, observers=[named]) as stream:
        assert not np.isfinite(stream.submit(job).result()[0])
    assert not named.places


@pytest.mark.parametrize(("verify", "redundancy"), [("spare", 1.3), ("vote", 1.0)])
def test_a_partial_that_draws_at_random_fails_with_what_to_do_and_names_nobody(verify, redundancy):
    draw, named = np.random.default_rng(1), Named()
    job = ec.SumJob(
        partial=lambda w, x: draw.standard_normal(3), update=lambda w, total: total, state=0.0, chunks=[1.0] * 12,
        iterations=2, verify=verify,
    )  # fmt: skip
    with (
        ec.Stream(cluster({}), redundancy=redundancy, observers=[named], patience_s=5.0) as stream,
        pytest.raises(JobFailed, match="do not agree, time after time"),
    ):
        stream.submit(job, deliver=False).result()
    assert not named.places


def test_two_workers_that_never_agree_fail_their_job_and_hang_for_no_third():
    where = cluster({1: 1.0}, places=2)
    with (
        ec.Stream(where, redundancy=1.2, verify="spare") as stream,
        pytest.raises(JobFailed, match="do not agree, time after time, and no third one settles it"),
    ):
        stream.submit(Sums(40).job, deliver=False).result()


def test_a_vote_waits_for_the_third_place_while_its_worker_is_away():
    made, named = Sums(2, parts=6), Named()
    where = cluster({1: 1.0}, places=3, incidents=(Crash(time=0.1, place=2, notice=0.0, restart=300.0),))
    with ec.Stream(where, verify="vote", patience_s=0.5, observers=[named]) as stream:
        assert stream.submit(made.job).result() == 2
    assert where.now() > 300.0
    assert made.worst < 1e-9
    assert set(named.places) == {1}


def test_products_whose_terms_cancel_are_not_taken_for_wrong():
    left = np.random.default_rng(1).standard_normal((60, 40))
    left[:, 1] = left[:, 0] + 1e-9 * np.random.default_rng(2).standard_normal(60)
    vector = np.zeros(40)
    vector[:2] = 1.0, -1.0
    named = Named()
    job = ec.LinearJob(
        matrix=left, vector=lambda k: vector, update=lambda k, product: k + 1, state=0, parts=12, iterations=30,
        verify="spare",
    )  # fmt: skip
    with ec.Stream(cluster({}), redundancy=1.3, observers=[named]) as stream:
        assert stream.submit(job).result() == 30
    assert not named.places


def test_a_job_s_own_choice_comes_before_the_stream_s():
    made = Sums(40, verify="vote")
    # rows to spare there are none
    assert set(run(made, 1.0, {LIAR: 0.1}, verify="spare").places) == {LIAR}
    assert made.worst < 1e-9


def test_checked_jobs_and_others_take_turns_and_are_not_begun_ahead():
    checked, plain, named = Sums(20, verify="vote"), Sums(20), Named()
    with ec.Stream(cluster({}), redundancy=1.2, overlap=True, observers=[named]) as stream:
        handles = [stream.submit(made.job) for made in (checked, plain, Sums(20, verify="spare"), plain)]
        assert [handle.result() for handle in handles] == [20] * 4
    assert not named.places


def test_who_sends_wrong_results_is_in_the_log_and_in_the_record(tmp_path, caplog):
    made = Sums(60)
    with caplog.at_level(logging.WARNING, "echelon.stream"):
        run(made, 1.2, {LIAR: 0.1}, verify="spare", record=tmp_path / "record")
    assert "(place 3) sent a wrong result for row" in caplog.text
    assert "(place 3) sent wrong results in 3 rounds; it is replaced" in caplog.text
    entries = [json.loads(line) for line in (tmp_path / "record").read_text().splitlines()]
    wrong = [entry for entry in entries if entry["kind"] == "wrong"]
    assert {entry["place"] for entry in wrong} == {LIAR}
    assert read_record(tmp_path / "record").rounds


def test_a_check_costs_as_many_rows_as_it_waits_for():
    rows = {}
    for verify in (None, "spare", "vote"):
        made = Sums(20)
        with ec.Stream(cluster({}), redundancy=1.5, verify=verify) as stream:
            rows[verify] = stream.submit(made.job).delivery().messages / 20
    assert rows[None] == pytest.approx(11)
    assert 12 <= rows["spare"] < 12.5  # a second one now and then, where one does not check every row well
    assert rows["vote"] >= 22


def test_a_choice_that_can_not_work_is_refused_at_the_door():
    with pytest.raises(ArgumentError, match="verify: 'twice' is not allowed; must be one of spare, vote"):
        ec.Stream("virtual", workers=2, verify="twice")
    with pytest.raises(ArgumentError, match="verify: 3 is not allowed"):
        Sums(1, verify=3)
    with ec.Stream("virtual", workers=2, redundancy=1.0) as stream:
        with pytest.raises(ArgumentError, match="'spare' is not allowed with 16 rows of which 16 may be needed"):
            stream.submit(Sums(1, verify="spare").job)
        with pytest.raises(ArgumentError, match="'vote' is not allowed with 2 workers; must have 3 or more"):
            stream.submit(Sums(1, verify="vote").job)


@pytest.mark.parametrize(("verify", "redundancy"), [("spare", 1.5), ("vote", 1.0)])
def test_a_process_that_is_always_wrong_is_named_and_replaced_and_the_result_is_right(verify, redundancy, tmp_path):
    mark = str(tmp_path / "liar")

    def partial(state, chunk):
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.environ["LIAR"] = "yes"  # the first process that gets here; its successor is another one
        except FileExistsError:
            pass
        return (chunk * state).sum(axis=0) + (5.0 if os.environ.get("LIAR") else 0.0)

    chunks, named = list(np.random.default_rng(1).uniform(0, 1, (12, 3, 4))), Named()
    job = ec.SumJob(
        partial=partial, update=lambda w, total: total / total.sum(), state=np.ones(4), chunks=chunks, iterations=30
    )
    with ec.Stream(
        "processes", workers=4, redundancy=redundancy, verify=verify, split="uniform", observers=[named]
    ) as stream:
        found = stream.submit(job).result()
    wanted = np.ones(4)
    for _ in range(30):
        wanted = sum((chunk * wanted).sum(axis=0) for chunk in chunks)
        wanted /= wanted.sum()
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert len(named.workers) == 1
    assert set(named.lost) == named.workers
