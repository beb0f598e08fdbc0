import numpy as np
import pytest

from echelon.codes import Code, cyclic, mds, reed_solomon, uncoded
from echelon.errors import ArgumentError
from echelon.plan import Plan, Slot, Task
from echelon.schemes import CodedPlan, coded_rows
from echelon.schemes.coded_plan import LEAST, lane_tasks

CYCLIC = cyclic(rows=5, load=3, rng=np.random.default_rng(1))


def test_slots_say_what_their_codes_say():
    plan = CodedPlan(
        [CYCLIC, uncoded(parts=2)], [[Task(slot=0, row=i) for i in range(5)], [Task(slot=1, row=i) for i in (0, 1)]]
    )
    assert isinstance(plan, Plan)
    assert plan.slots == (Slot(rows=5, threshold=3), Slot(rows=2, threshold=2))
    assert plan.codes[0] is CYCLIC


def test_slots_follow_one_another_in_the_data_unless_chunks_say_otherwise():
    codes = [uncoded(parts=2), uncoded(parts=3)]
    lanes = [[Task(slot=s, row=row) for s, code in enumerate(codes) for row in range(code.rows)]]
    plan = CodedPlan(codes, lanes)
    assert (plan.chunks, plan.parts) == (((0, 1), (2, 3, 4)), 5)
    shared = CodedPlan(codes, lanes, [[0, 2], (2, 1, 0)])
    assert (shared.chunks, shared.parts) == (((0, 2), (2, 1, 0)), 3)


@pytest.mark.parametrize("chunks", [[], [[0]], [[0, 1], [2, 3]], [[0, 1, 2]]])
def test_chunks_that_do_not_fit_the_codes_are_refused(chunks):
    with pytest.raises(ArgumentError, match=r"^chunks: "):
        CodedPlan([uncoded(parts=2)], [[Task(slot=0, row=0), Task(slot=0, row=1)]], chunks)


def test_rows_that_are_the_wanted_value_are_enough_alone_where_counting_is_not_the_rule():
    matrix = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 2.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 0.9]])
    lanes = [[Task(slot=0, row=row)] for row in range(5)]

    def slot(*, target, counting):
        code = Code(matrix=matrix, target=target, threshold=4, counting=counting)
        return CodedPlan([code], lanes).slots[0]

    assert slot(target=np.ones((1, 3)), counting=False).alone == (1, 3)
    assert slot(target=np.ones((1, 3)), counting=True).alone == ()
    assert slot(target=np.eye(3), counting=False).alone == ()


@pytest.mark.parametrize("seed", range(20))
def test_a_task_costs_the_chunks_that_its_worker_has_not_computed_before(seed):
    """Random masks, two slots on shared chunks, against a set of computed chunks."""
    rng = np.random.default_rng(seed)
    masks = [rng.random((6, 4)) < 0.5 for _ in range(2)]
    for mask in masks:
        mask[:4] |= np.eye(4, dtype=bool)
        mask[4:, 0] = True
    codes = [reed_solomon(mask, real=True) for mask in masks]
    chunks = [[0, 1, 2, 3], [5, 3, 2, 4]]
    rows = [(int(s), int(row)) for s, row in zip(rng.integers(0, 2, 8), rng.integers(0, 6, 8), strict=True)]
    tasks = lane_tasks(codes, chunks, rows)
    assert [(task.slot, task.row) for task in tasks] == rows
    computed = set()
    for task in tasks:
        fresh = {chunks[task.slot][j] for j in range(4) if masks[task.slot][task.row, j]} - computed
        assert task.cost == (len(fresh) or LEAST)
        computed |= fresh


def test_a_row_of_work_that_was_coded_beforehand_costs_one_part_each_time():
    code = mds(parts=4, rows=6, rng=np.random.default_rng(1))
    assert code.precoded
    assert [task.cost for task in lane_tasks([code], [range(4)], [(0, 5), (0, 0), (0, 5)])] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("counts", [[3, 2], [5, 0], [1, 1, 1, 1, 1], [0, 4, 1]])
def test_lanes_of_neighbouring_rows_cost_the_union_of_their_parts(counts):
    plan = coded_rows(CYCLIC, counts)
    assert [row for lane in plan.lanes for row in (task.row for task in lane)] == list(range(5))
    for lane, count in zip(plan.lanes, counts, strict=True):
        assert len(lane) == count
        held = CYCLIC.matrix[[task.row for task in lane]] != 0
        free = sum(task.cost == LEAST for task in lane)
        assert sum(task.cost for task in lane) == pytest.approx(held.any(axis=0).sum() + LEAST * free)


@pytest.mark.parametrize(
    ("counts", "said"), [([2, 2], "counts: they sum to 4"), ([6, -1], r"counts\[1\]: -1"), ([2.5, 2.5], "2.5")]
)
def test_counts_that_do_not_fit_the_code_are_refused(counts, said):
    with pytest.raises(ArgumentError, match=said):
        coded_rows(CYCLIC, counts)
