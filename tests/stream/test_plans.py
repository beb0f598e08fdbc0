"""Jobs that bring their own plans, on real workers: every scheme gives what one process gets."""

import numpy as np
import pytest

import echelon as ec
from echelon import schemes
from echelon.errors import ArgumentError
from echelon.plan import Plan, Slot, Task
from echelon.stream import read_record
from echelon.stream.recorded import tasks_seen

LIMIT_S = 60.0
PLANS = {
    "gradient coding": lambda: schemes.gradient_coding(workers=6, load=3),
    "correlated": lambda: schemes.multi_message(workers=6, load=3, clusters=2, order=2),
    "uncorrelated": lambda: schemes.multi_message(workers=6, load=3, clusters=2, orders=[1, 3]),
    "hybrid": lambda: schemes.multi_message(workers=6, load=3, clusters=2, orders=[1, 2, 3], hybrid=True),
    "fractional repetition": lambda: schemes.fractional_repetition(workers=6, load=3),
    "short messages": lambda: schemes.short_messages(workers=6, load=4, pieces=3),
    "uncoded": lambda: schemes.uncoded_multi_message(workers=6, load=2),
    "pulled": lambda: schemes.pull(workers=6, parts=9, ahead=1),
    "pulled, with copies": lambda: schemes.pull(workers=6, parts=9, batch=2, copies=3),
    "sliding windows": lambda: schemes.coded_rows(
        ec.codes.cyclic(rows=9, load=3, rng=np.random.default_rng(1)), [3, 1, 0, 2, 2, 1]
    ),
}


def partial(state, chunk):
    return {"sum": chunk * state["at"], "one": 1.0}


def update(state, total):
    return {"at": state["at"] / 2 + total["sum"].mean() / 100, "seen": [*state["seen"], float(total["one"])]}


CHUNKS = {count: [np.arange(3.0) + i for i in range(count)] for count in (6, 9)}


def job(plan, **more):
    start = {"at": 1.0, "seen": []}
    return ec.SumJob(
        partial=partial, update=update, state=start, chunks=CHUNKS[plan.parts], plan=plan, iterations=8, **more
    )


def plain(count):
    state = {"at": 1.0, "seen": []}
    for _ in range(8):
        total = {"sum": sum(chunk * state["at"] for chunk in CHUNKS[count]), "one": float(count)}
        state = update(state, total)
    return state


@pytest.fixture(scope="module", params=["threads", "processes"])
def stream(request):
    with ec.Stream(request.param, workers=6) as opened:
        yield opened


@pytest.mark.parametrize("lend", [False, True], ids=["", "lending"])
@pytest.mark.parametrize("name", PLANS)
def test_a_job_with_its_own_plan_gives_what_one_process_gets(stream, name, lend):
    plan = PLANS[name]()
    done = stream.submit(job(plan, lend=lend)).delivery(LIMIT_S)
    assert done.error is None
    wanted = plain(plan.parts)
    assert done.result["at"] == pytest.approx(wanted["at"], rel=1e-10)
    assert done.result["seen"] == pytest.approx(wanted["seen"], rel=1e-10)
    least = sum(1 if slot.alone else slot.threshold for slot in plan.slots)
    repeats = 2 if lend else 1
    assert 8 * least <= done.messages <= 8 * (plan.tasks + len(plan.pooled)) * repeats
    length = -(-4 // plan.codes[0].pieces)  # of four numbers
    assert done.nbytes == done.messages * length * 8


def test_a_lost_worker_s_lane_is_taken_over_and_the_sum_stays_right():
    cluster = ec.clusters.ThreadCluster(6)
    plan = PLANS["gradient coding"]()
    with ec.Stream(cluster) as stream:
        handles = [stream.submit(job(plan)) for _ in range(6)]
        for worker in range(4):  # more than the code can do without
            cluster.kill(worker)
        for handle in handles:
            assert handle.delivery(LIMIT_S).result["at"] == pytest.approx(plain(6)["at"], rel=1e-10)


def test_jobs_with_and_without_plans_take_turns(stream):
    plain_job = ec.SumJob(partial=partial, update=update, state={"at": 1.0, "seen": []}, chunks=CHUNKS[6], iterations=8)
    handles = [stream.submit(one) for one in (job(PLANS["hybrid"]()), plain_job, job(PLANS["correlated"]()))]
    for handle in handles:
        assert handle.delivery(LIMIT_S).result["at"] == pytest.approx(plain(6)["at"], rel=1e-10)


def test_a_plan_for_another_number_of_workers_is_refused(stream):
    plan = schemes.gradient_coding(workers=9, load=3)
    with pytest.raises(ArgumentError, match="plan: 9 lanes; must be 6, one per worker of the stream"):
        stream.submit(job(plan))


def test_chunks_must_be_those_of_the_plan():
    with pytest.raises(ArgumentError, match="chunks: 9 are not allowed; must be 6, as the plan says"):
        ec.SumJob(
            partial=partial, update=update, state=0, chunks=CHUNKS[9], plan=PLANS["uncoded"](), iterations=1
        )  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (lambda: Plan([Slot(rows=1, threshold=1)], [[Task(slot=0, row=0)]]), "plan: Plan is not allowed"),
        (lambda: schemes.lagrange(workers=6, load=3), "every slot must give a sum of partial results"),
        (
            lambda: schemes.coded_rows(ec.codes.reed_solomon(np.eye(6, dtype=bool)), [1] * 6),
            "every slot must give a sum of partial results",
        ),
    ],
    ids=["no codes", "encoded data", "complex"],
)
def test_plans_that_give_no_sum_of_partial_results_are_refused(plan, said):
    with pytest.raises(ArgumentError, match=said):
        ec.SumJob(partial=partial, update=update, state=0, chunks=CHUNKS[6], plan=plan(), iterations=1)


def test_lending_without_a_plan_is_refused():
    with pytest.raises(ArgumentError, match="lend: not allowed without a plan"):
        ec.SumJob(partial=partial, update=update, state=0, chunks=CHUNKS[6], lend=True, iterations=1)


def test_a_journal_resumes_a_job_with_its_plan(tmp_path):
    plan = PLANS["hybrid"]()
    with ec.Stream("threads", workers=6, journal=tmp_path / "jobs.db") as stream:
        stream.submit(job(plan))
        stream.close(wait=False)
    with ec.Stream("threads", workers=6, journal=tmp_path / "jobs.db") as stream:
        (done,) = list(stream.deliveries())
    assert done.result["at"] == pytest.approx(plain(6)["at"], rel=1e-10)


def test_a_record_of_a_run_with_a_plan_knows_its_rows_and_every_message(tmp_path):
    plan = PLANS["uncoded"]()
    with ec.Stream("threads", workers=6, record=tmp_path / "run") as stream:
        done = stream.submit(job(plan)).delivery(LIMIT_S)
    record = read_record(tmp_path / "run")
    assert sum(len(seen.messages) for seen in record.rounds) == done.messages
    for seen in record.rounds:
        assert seen.rows == {p: [(task.slot, task.row) for task in lane] for p, lane in enumerate(plan.lanes)}
        assert len(seen.recovered) == len(plan.slots)
        assert max(seen.recovered) <= seen.end - seen.start + 3e-6  # each is rounded to a microsecond
    finished = [task for task in tasks_seen(record) if task.finished]
    assert len(finished) == done.messages
    assert all(task.cost == 1.0 for task in finished)


def test_a_record_shows_what_each_worker_did_of_a_pool(tmp_path):
    path = tmp_path / "record"
    with ec.Stream("threads", workers=6, record=path) as stream:
        stream.submit(job(schemes.pull(workers=6, parts=9))).result(LIMIT_S)
    record = read_record(path)
    for seen in record.rounds:
        listed = sorted(row for lane in seen.rows.values() for _, row in lane)
        assert listed == list(range(9))
        assert {(place, row) for place, lane in seen.rows.items() for _, row in lane} == {
            (place, row) for place, _, row, *_ in seen.messages
        }


def test_products_may_be_pulled_with_or_without_parity():
    matrix = np.random.default_rng(3).normal(size=(17, 5))
    code = ec.codes.mds(parts=6, rows=8, rng=np.random.default_rng(1))
    with ec.Stream("threads", workers=3) as stream:
        found = [
            stream.submit(
                ec.LinearJob(
                    matrix=matrix, update=lambda state, product: product, state=np.ones(5), parts=6, iterations=1,
                    plan=schemes.pull(workers=3, parts=rows, code=made),
                )
            ).result(LIMIT_S)
            for rows, made in ((8, code), (6, ec.codes.mds(parts=6, rows=6, rng=np.random.default_rng(1))))
        ]  # fmt: skip
    for product in found:
        np.testing.assert_allclose(product, matrix.sum(axis=1), rtol=1e-10)
