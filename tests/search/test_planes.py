"""Advice where the master's port, or the exchange among workers, is what a round waits for: by hand."""

from dataclasses import replace

import pytest

from echelon import advise
from echelon.errors import CannotEvaluate
from tests.search.clusters import cluster, named

SPEED = {"bandwidth": 1e7, "port": 1e7}  # 0.1 s for a message of 1 MB on a link, and as much at the port
BYTES = {"bytes_per_message": 1e6, "bytes_of_state": 2e6}
STEADY = cluster([1.0, 1.0, 1.0], combining=1e-8, **SPEED)


def with_costs(profile, **changes):
    return replace(profile, costs=replace(profile.costs, **changes))


def test_the_master_s_port_is_charged_for_every_message_and_every_state():
    advice = named(advise(STEADY, **BYTES))
    # the state, three times through the port and once over links; three messages at once, one after another
    one_each = 3 * 0.2 + 0.2 + 4 + 4 * 0.01 + 0.1 + 3 * 0.1 + 3 * 0.01
    assert advice["uncoded, Theorem 2, one message each"].iteration == pytest.approx(one_each)
    # four messages from each, a second apart: only the last three wait for one another
    by_one = 3 * 0.2 + 0.2 + 4 * 1.1 + 3 * 0.1 + 12 * 0.01
    assert advice["uncoded, uniform"].iteration == pytest.approx(by_one)
    assert {one.plane for one in advice.values()} == {"master"}


def test_the_responders_exchange_slices_and_send_one_total():
    advice = named(advise(with_costs(STEADY, plane="responders"), **BYTES))
    state = 0.2 + 0.2
    # each passes on two thirds of its row, adds up a third of three, and the total passes the port
    one_each = state + 4 + 4 * 0.01 + 0.1 * 2 / 3 + 0.01 + 0.1
    assert advice["uncoded, Theorem 2, one message each"].iteration == pytest.approx(one_each)
    by_one = state + 4 + 4 * 0.1 * 2 / 3 + 4 * 0.01 + 0.1
    assert advice["uncoded, uniform"].iteration == pytest.approx(by_one)
    # pieces of a sum are several sums of the same rows: the master forms them
    planes = {name.startswith("short messages"): one.plane for name, one in advice.items()}
    assert planes == {False: "responders", True: "master"}
    assert {one.plane for name, one in advice.items() if "short" not in name} == {"responders"}


def test_small_results_and_products_go_the_way_of_the_master():
    responders = with_costs(STEADY, plane="responders")
    assert {one.plane for one in advise(responders, bytes_per_message=1e5).ranked} == {"master"}
    assert {one.plane for one in advise(responders, work="linear", **BYTES).ranked} == {"master"}


def test_what_can_not_be_tried_is_named_with_the_reason():
    free = advise(with_costs(STEADY, port=float("inf")), **BYTES)
    assert free.refused == ()
    for plane in ("master", "responders"):
        advice = advise(with_costs(STEADY, plane=plane), **BYTES)
        refused = dict(advice.refused)
        assert "pulled by 1, with copies" in refused
        assert refused.keys().isdisjoint(one.name for one in advice.ranked)
        assert all(refused.values())


def test_a_chain_of_products_behind_a_port_is_refused():
    with pytest.raises(CannotEvaluate, match="master's port"):
        advise(STEADY, work="product", bytes_per_message=1e6)
    assert advise(STEADY, work="product").ranked
