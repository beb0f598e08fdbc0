import pytest

from echelon.plan import Plan, Slot, Task


def test_a_plan_knows_its_lanes():
    plan = Plan(
        [Slot(rows=3, threshold=2)], [[Task(slot=0, row=0), Task(slot=0, row=2, cost=2.0)], [], [Task(slot=0, row=1)]]
    )
    assert plan.counts.tolist() == [2, 0, 1]
    assert plan.tasks == 3
    assert plan.costs[0].tolist() == [1.0, 2.0]
    assert plan.counts_suffice
    assert not plan.unit_costs


def test_a_row_in_two_lanes_means_that_counting_arrivals_is_not_enough():
    assert not Plan(
        [Slot(rows=2, threshold=1)], [[Task(slot=0, row=0)], [Task(slot=0, row=0), Task(slot=0, row=1)]]
    ).counts_suffice


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Slot(rows=2, threshold=3), "threshold: 3 is not allowed"),
        (lambda: Slot(rows=0, threshold=1), "rows: 0 is not allowed"),
        (lambda: Plan([], [[]]), "slots, lanes: empty"),
        (lambda: Plan([Slot(rows=1, threshold=1)], [[Task(slot=1, row=0)]]), r"lanes\[0\]: .* no such slot or row"),
        (lambda: Plan([Slot(rows=1, threshold=1)], [[Task(slot=0, row=1)]]), r"lanes\[0\]: .* no such slot or row"),
        (
            lambda: Plan([Slot(rows=1, threshold=1)], [[Task(slot=0, row=0, cost=0)]]),
            r"lanes\[0\]: cost: 0 is not allowed",
        ),
        (
            lambda: Plan([Slot(rows=2, threshold=2)], [[Task(slot=0, row=0), Task(slot=0, row=0)]]),
            "1 planned rows are not allowed",
        ),
    ],
)
def test_a_plan_that_cannot_work_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
