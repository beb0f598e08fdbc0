"""A plan under a law means what the master does in virtual time: every evaluator agrees with it, or refuses."""

from dataclasses import replace

import numpy as np
import pytest

from echelon.can import Rules
from echelon.codes import LagrangeCode, fractional_repetition, graph, mds, uncoded
from echelon.delays import (
    Deterministic,
    Exponential,
    Gamma,
    GilbertElliott,
    Recorded,
    RoundPace,
    ShiftedExponential,
    Trace,
)
from echelon.delays import base as delays_base
from echelon.endings import WAITING, Deadline, Due, Exact, Fastest, Quorum, Residual
from echelon.plan import Plan, Pool, Slot, Task
from echelon.schemes import CHAINS, SCHEMES, Window, coded_rows, multi_message, pull
from echelon.simulation import rounds as kernels
from echelon.simulation.slots import Slots
from echelon.stragglers import Arbitrary
from tests.schemes.test_conformance import plans
from tests.simulation import agreement
from tests.simulation.agreement import EVALUATORS, Case, agrees, exactly

WITH_CHAINS = {
    "diagonal_interleaved": {"x": 2, "y": 2, "delay": 2, "tolerance": 0.25, "waiting": "fastest"},
    "improved_diagonal_interleaved": {"model": Arbitrary(count=4, window=3)},
    "polynomial_products": {"x": 2, "y": 1},
    "uncoded_products": {},
}
LAWS = {
    "independent": lambda p: Exponential(rate=1.0 / (1 + p)),
    "one pace": lambda p: RoundPace(base=ShiftedExponential(shift=0.1, rate=1.0 / (1 + p))),
    "bursts": lambda p: GilbertElliott(base=Gamma(shape=2.0, scale=0.4), enter=0.3, leave=0.4, slowdown=5.0),
    "a record": lambda p: Trace(times=np.random.default_rng(p).uniform(0.2, 2.0, 31)),
    "recorded together": lambda p: Recorded(times=np.random.default_rng(p).uniform(0.2, 2.0, 7), part=0.2),
    "constant": lambda p: Deterministic(time=0.3 + 0.17 * p),
}


def window_plan(name, rounds):
    """Return what a chain plans after some rounds in which the last workers were late."""
    scheme = CHAINS[name](4, **WITH_CHAINS[name])
    window = Window(scheme)
    for product in range(rounds):
        plan = window.open(product)
        came = [(task.slot, task.row) for lane in plan.lanes[: 4 - product % 2] for task in lane]
        settled = [
            s
            for s, slot in enumerate(plan.slots)
            if s in plan.ending.due or sum(at == s for at, _ in came) >= slot.threshold
        ]
        window.close(came, settled)
    return window.open(rounds)


def two_slots(**settings):
    """Two slots of three lanes each; the second takes longer."""
    lanes = [[Task(slot=p % 2, row=p // 2, cost=1.0 + p % 2)] for p in range(6)]
    return Plan([Slot(rows=3, threshold=2)] * 2, lanes, **settings)


def workers_of_one_slot(ending, count=6):
    """A slot for each worker, which takes one or two parts of work."""
    return Plan([Slot(rows=1, threshold=1)] * count, [[Task(slot=p, row=0, cost=1.0 + p % 2)] for p in range(count)],
                ending=ending)  # fmt: skip


def exact(plan):
    """Return a plan of which as many rows are enough as its slots say: neighbouring points of Lagrange's are not.

    In floating point the master waits for more of them, since no digit of what they give would be right.
    """
    lagrange = any(isinstance(code, LagrangeCode) for code in plan.codes)
    return Plan(plan.slots, plan.lanes) if lagrange else plan


SHARES_OF_PARTS = Plan(
    [Slot(rows=4, threshold=3)],
    [[Task(slot=0, row=2 * p, cost=2.5), Task(slot=0, row=2 * p + 1, cost=0.5)] for p in range(2)],
)
LONG_POOL = Plan(
    [Slot(rows=6, threshold=6)],
    [[]] * 3,
    pool=Pool(batches=tuple((Task(slot=0, row=r, cost=2.0 + r % 2),) for r in range(6))),
)
TWO_SLOT_POOL = Plan(
    [Slot(rows=3, threshold=3)] * 2,
    [[]] * 3,
    pool=Pool(batches=tuple((Task(slot=s, row=r),) for r in range(3) for s in (0, 1))),
)
GRAPH = graph(parts=6, load=3, rng=np.random.default_rng(1))
GROUPS = fractional_repetition(rows=6, load=2)
POLICIES = [
    Exact(),
    Residual(0.5),
    Deadline(0.7),
    Quorum(0.6, grace=0.2),
    Deadline(0.7) & Quorum(0.6, stretch=0.3),
    Residual(0.4) | Deadline(1.1),
]
CASES = {
    **{f"{name}{f', {i}' if i else ''}": Case(exact(plan)) for name in SCHEMES for i, plan in enumerate(plans(name))},
    **{f"{name}, round {n}": Case(window_plan(name, n), linked=n != 2) for name in CHAINS for n in (0, 2, 3)},
    "costs": Case(coded_rows(mds(parts=4, rows=6, rng=np.random.default_rng(1)), [2, 2, 2])),
    "shares of parts": Case(SHARES_OF_PARTS),
    "spans": Case(multi_message(workers=6, load=3, orders=[3, 2])),
    "an ending": Case(two_slots(ending=Due(due=(0,)))),
    **{f"ending {name}": Case(two_slots(ending=ending(due=(0,)))) for name, ending in WAITING.items()},
    "ending fastest, with patience": Case(two_slots(ending=Fastest(due=(1,), tolerance=0.4))),
    "an ending, nothing due": Case(two_slots(ending=Due())),
    "an ending with patience": Case(two_slots(ending=Due(due=(0,), tolerance=0.4))),
    "an ending with limits": Case(two_slots(ending=Due(due=(0,), limits=(((0, 1, 2), 1), ((3, 4, 5), 2))))),
    "a quorum of two slots": Case(two_slots(ending=Quorum(share=1.0))),
    "a quorum with a grace": Case(workers_of_one_slot(Quorum(least=4, grace=0.35))),
    "a quorum that is stretched": Case(workers_of_one_slot(Quorum(share=0.5, stretch=0.4))),
    "a quorum that no slot is needed for": Case(workers_of_one_slot(Quorum(share=0.5, grace=0.1) | Quorum(least=2))),
    **{f"a graph, {policy}": Case(coded_rows(GRAPH, [3, 2, 4]).ended(policy)) for policy in POLICIES},
    **{f"groups, {policy}": Case(coded_rows(GROUPS, [2, 1, 3]).ended(policy)) for policy in POLICIES},
    **{
        f"clusters, {policy}": Case(multi_message(workers=6, load=3, orders=[3, 2]).ended(policy))
        for policy in POLICIES
    },
    "a pool by twos, ahead": Case(pull(workers=3, parts=11, batch=2, ahead=1)),
    "a pool, with copies": Case(pull(workers=3, parts=7, copies=3)),
    "a pool of long tasks": Case(LONG_POOL),
    "a pool of two slots": Case(TWO_SLOT_POOL),
    "uncoded": Case(coded_rows(uncoded(parts=6), [2, 3, 1])),
    "a graph": Case(coded_rows(graph(parts=6, load=3, rng=np.random.default_rng(1)), [3, 2, 4])),
    "a large graph": Case(coded_rows(graph(parts=10, load=6, rng=np.random.default_rng(1)), [2] * 15)),
}
CASES |= {f"{name}, lent": replace(CASES[name], rules=Rules(lend=True)) for name in ("multi_message", "an ending")}
CASES |= {
    f"{name}, ahead": replace(CASES[name], rules=Rules(overlap=True))
    for name in (
        "any_k",
        "uncoded",
        "pull",
        "multi_message",
        "a pool, with copies",
        "an ending",
        "spans",
        "a quorum with a grace",
    )
}
CASES |= {
    f"{name}, messages and rounds cost": replace(CASES[name], message=0.11, round=0.23)
    for name in (
        "any_k",
        "multi_message",
        "pull",
        "a pool by twos, ahead",
        "an ending with patience",
        "spans",
        "a quorum with a grace",
        "a quorum that is stretched",
    )
}
CASES["any_k, ahead, messages cost"] = replace(CASES["any_k, ahead"], message=0.1)
# messages of 320 kB over links of 1 MB/s, and a port that passes 400 kB a second
PORTED = ("any_k", "uncoded", "gradient_coding", "multi_message", "pull", "a pool, with copies", "spans")
PORTED += (
    "a quorum with a grace",
    "block_coordinate",
    "an ending with patience",
    "an ending",
    "multi_message, lent",
    "any_k, ahead",
)
LINKED = {"message": 0.02, "round": 0.1, "bandwidth": 1e6, "port": 4e5, "numbers": 40_000, "state": 35_000}
CASES |= {f"{name}, by a port": replace(CASES[name], **LINKED) for name in PORTED}
CASES |= {f"{name}, staying": replace(CASES[name], plane="responders", **LINKED) for name in PORTED}


def laws_for(case, kind):
    return [LAWS[kind](p) for p in range(len(case.plan.lanes))]


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_an_evaluator_agrees_with_the_master_on_the_same_draws_or_refuses(evaluator, kind):
    could = {name for name, case in CASES.items() if agrees(evaluator, case, laws_for(case, kind))}
    assert could
    assert evaluator == "overlapped" or len(could) < len(CASES)  # what nobody else can do is refused


def test_the_exact_law_agrees_with_the_master_or_refuses():
    for kind in LAWS:
        could = {name for name, case in CASES.items() if exactly(case, laws_for(case, kind))}
        assert bool(could) == (kind in ("independent", "one pace", "constant"))
        assert {"an ending", "pull", "multi_message, lent"}.isdisjoint(could)


def test_every_plan_that_runs_without_lending_and_working_ahead_is_evaluated_by_somebody():
    alone = {name for name, case in CASES.items() if not case.rules.lend and not case.rules.overlap}
    could = {name for name in alone if agrees("sampler", CASES[name], laws_for(CASES[name], "independent"))}
    plain = {name for name in alone if not CASES[name].numbers}
    assert plain - could == {"a pool of two slots"}
    # what a pool hands out depends on the port; which rows are chosen, and when slots are stopped, on the master
    ported = {"any_k", "uncoded", "gradient_coding", "block_coordinate", "multi_message", "spans"}
    staying = {"any_k", "uncoded", "gradient_coding", "pull"}
    wanted = {f"{name}, by a port" for name in ported} | {f"{name}, staying" for name in staying}
    assert could - plain == wanted


def test_an_evaluator_that_forgets_what_adding_takes_is_caught(monkeypatch):
    case = CASES["any_k, staying"]
    real = agreement.price
    monkeypatch.setattr(
        agreement, "price", lambda case: replace(real(case), adding=lambda rows: np.zeros(len(rows)))
    )  # fmt: skip
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        agrees("sampler", case, laws_for(case, "independent"))


def test_an_evaluator_that_forgets_the_port_is_caught(monkeypatch):
    case = CASES["uncoded, by a port"]
    monkeypatch.setattr(kernels, "through_port", lambda arrivals, seconds: arrivals + seconds[:, None])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        agrees("sampler", case, laws_for(case, "independent"))


def test_an_evaluator_that_ignores_an_ending_is_caught(monkeypatch):
    case = CASES["an ending"]
    real = Slots.can
    monkeypatch.setattr(Slots, "can", staticmethod(lambda plan, laws, rules: real(_without(plan), laws, rules)))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        agrees("kernel: slots", case, laws_for(case, "independent"))


def _without(plan):
    return Plan(plan.slots, plan.lanes, pool=plan.pool)


def test_an_evaluator_that_scales_a_draw_is_caught(monkeypatch):
    case = CASES["gradient_coding"]
    monkeypatch.setattr(delays_base, "task_times", lambda times, costs: times[..., : len(costs)] * costs)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        agrees("sampler", case, laws_for(case, "independent"))


def test_an_evaluator_that_forgets_what_messages_cost_is_caught(monkeypatch):
    case = CASES["any_k, messages and rounds cost"]
    monkeypatch.setattr(agreement, "beside", lambda case: [np.zeros(len(lane)) for lane in case.plan.lanes])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        agrees("rehearsal", case, laws_for(case, "independent"))
