"""The formulas of links and ports, against transfers counted one by one."""

import numpy as np
import pytest

from echelon.ports import LARGE, adding_s, state_s, stay_bytes, through_port
from echelon.profile import Costs

INF = float("inf")


def queued(arrivals, seconds):
    """Return when messages have passed a port, served one after another."""
    free, passed = 0.0, [0.0] * len(arrivals)
    for at in sorted(range(len(arrivals)), key=lambda i: arrivals[i]):
        free = passed[at] = max(free, arrivals[at]) + seconds[at]
    return passed


@pytest.mark.parametrize("seed", range(20))
def test_a_port_serves_first_come_first(seed):
    rng = np.random.default_rng(seed)
    messages, rounds = int(rng.integers(1, 12)), 5
    arrivals = np.round(rng.uniform(0, 4, (messages, rounds)), int(rng.integers(1, 6)))  # some at the same time
    seconds = rng.uniform(0, 1, messages) if seed % 2 else np.full(messages, 0.3)
    found = through_port(arrivals, seconds)
    for round in range(rounds):
        np.testing.assert_allclose(found[:, round], queued(arrivals[:, round].tolist(), seconds.tolist()), rtol=1e-12)
    if not seed % 2:
        np.testing.assert_array_equal(found, through_port(arrivals, 0.3))


def test_a_message_that_never_comes_delays_nobody():
    found = through_port(np.array([[1.0], [INF], [1.5]]), 1.0)
    assert found.ravel().tolist() == [2.0, INF, 3.0]


def transfers(held, total, costs, adders):
    """Return what adding takes, every slice on its way counted: who passes what to whom."""
    out, taken, count = [0.0] * len(held), [0.0] * len(held), len(adders)
    for holder, nbytes in enumerate(held):
        for adder in adders:
            if adder != holder:
                out[holder] += nbytes / count
                taken[adder] += nbytes / count
    exchange = max(out + taken) / costs.bandwidth
    adding = sum(held) / count * costs.combining
    return exchange + adding + max(total / costs.port, total / count / costs.bandwidth) + count * costs.message


@pytest.mark.parametrize("seed", range(20))
def test_adding_takes_what_the_busiest_link_takes(seed):
    rng = np.random.default_rng(seed)
    workers = int(rng.integers(1, 8))
    held = 1000.0 * rng.integers(0, 4, workers)
    held[0] = 1000.0
    costs = Costs(bandwidth=1e3, port=3e3, combining=1e-5, message=0.01)
    those = np.flatnonzero(held).tolist()
    assert float(adding_s(costs, held, 1000.0)) == pytest.approx(transfers(held.tolist(), 1000.0, costs, those))
    every = range(workers)
    found = float(adding_s(costs, held, 1000.0, adders=workers))
    assert found == pytest.approx(transfers(held.tolist(), 1000.0, costs, every))


def test_many_rounds_at_once_take_what_each_takes():
    held = 1000.0 * np.random.default_rng(1).integers(0, 4, (3, 5, 6))
    costs = Costs(bandwidth=1e3, port=3e3, combining=1e-5)
    found = adding_s(costs, held, 1000.0)
    assert found.shape == (3, 5)
    for at in np.ndindex(3, 5):
        assert found[at] == pytest.approx(float(adding_s(costs, held[at], 1000.0)))


def test_one_total_passes_the_port_however_many_workers_there_are():
    costs = Costs(bandwidth=INF, port=1e6)
    took = {workers: float(adding_s(costs, np.full(workers, 1e6), 1e6)) for workers in (1, 10, 1000)}
    assert set(took.values()) == {1.0}


def test_rows_that_lie_with_the_master_go_out_through_the_port():
    costs = Costs(bandwidth=1e6, port=1e6)
    alone = float(adding_s(costs, np.array([1e6, 1e6]), 1e6))
    # each adder takes in half of it, besides half of the other's row
    assert float(adding_s(costs, np.array([1e6, 1e6]), 1e6, here=1e6)) == pytest.approx(alone + 1.0 + 0.5)


def test_a_state_passes_the_port_once_per_worker_or_once():
    for workers in (1, 7, 1000):
        by_master, relayed = (
            state_s(Costs(bandwidth=1e6, port=4e6, plane=plane), 1e6, workers) for plane in ("master", "responders")
        )
        assert by_master == pytest.approx(workers / 4 + 1)
        # the port, the first slice over a link, and the slices of all others
        assert relayed == pytest.approx(1 / 4 + 1 / workers + (workers - 1) / workers)


def test_small_states_and_rows_go_the_plain_way():
    responders = Costs(bandwidth=1e6, port=4e6, message=0.1, plane="responders")
    assert state_s(responders, LARGE - 1, 9) == state_s(Costs(bandwidth=1e6, port=4e6), LARGE - 1, 9)
    assert stay_bytes(responders) == LARGE
    assert stay_bytes(Costs()) == INF


def test_without_a_port_costs_are_what_they_were():
    assert state_s(Costs(bandwidth=1e6), 5e6, 100) == 5.0
    assert state_s(Costs(), 5e6, 100) == 0.0
