"""Strategies on times that are known: equal to plain loops over the table."""

import numpy as np
import pytest

from echelon.search.replay import replayed
from tests.search.clusters import cluster

MEANS, LINK, ROUNDS, K = (1.0, 2.0, 3.0), 0.25, 40, 12
RNG = np.random.default_rng(4)
TABLE = [RNG.gamma(2.0, mean / 2, (ROUNDS, 60)) for mean in MEANS]
PROFILE = cluster(MEANS, std=0.7, link=LINK, critical=K)


def parts(rounds, most):
    return [table[rounds, :most].copy() for table in TABLE]


@pytest.fixture(scope="module", params=["gradient", "linear"])
def found(request):
    return {one.name: (one, times) for one, times in replayed(PROFILE, request.param, parts, ROUNDS)}


def lanes_end(table_row, count):
    return LINK + sum(table_row[:count]) if count else 0.0


@pytest.mark.parametrize(("name", "counts"), [("uncoded, uniform", [4, 4, 4]), ("uncoded, by speed", [7, 3, 2])])
def test_shares_take_what_the_slowest_lane_takes(found, name, counts):
    strategy, times = found[name]
    assert strategy.plan().counts.tolist() == counts
    expected = [max(lanes_end(TABLE[p][t], n) for p, n in enumerate(counts)) for t in range(ROUNDS)]
    assert times == pytest.approx(expected)


def test_pulling_gives_the_next_part_to_whoever_is_done_first(found):
    expected = []
    for t in range(ROUNDS):
        done, had = [LINK + TABLE[p][t, 0] for p in range(3)], [1, 1, 1]
        ends = list(done)
        for _ in range(K - 3):
            p = int(np.argmin(done))
            done[p] += LINK + TABLE[p][t, had[p]]
            had[p] += 1
            ends.append(done[p])
        expected.append(max(ends))
    assert found["pulled by 1"][1] == pytest.approx(expected)


def test_copies_are_taken_from_the_ends_of_shares_by_who_is_idle(found):
    counts, expected = [7, 3, 2], []
    firsts = np.cumsum([0, *counts])
    late = [firsts[p] + counts[p] - 1 - back for back in range(7) for p in range(3) if back < counts[p]]
    for t in range(ROUNDS):
        came, asks, had = {}, [], list(counts)
        for p, count in enumerate(counts):
            reach = LINK + np.cumsum(TABLE[p][t, :count])
            came |= {int(firsts[p]) + j: float(at) for j, at in enumerate(reach)}
            asks.append(float(reach[-1]))
        own = {p: set(range(firsts[p], firsts[p + 1])) for p in range(3)}
        left = list(late)
        while any(now < np.inf for now in asks):
            p = int(np.argmin(asks))
            now, asks[p] = asks[p], np.inf
            row = next((row for row in left if row not in own[p] and came[row] > now), None)
            if row is None:
                continue
            left.remove(row)
            end = now + LINK + TABLE[p][t, had[p]]
            had[p] += 1
            own[p].add(row)
            came[row] = min(came[row], end)
            asks[p] = end
        expected.append(max(came.values()))
    assert found["by speed, with copies"][1] == pytest.approx(expected)


def test_a_code_takes_what_its_threshold_of_rows_takes_at_true_cost(found):
    strategy, times = next(one for one in found.values() if one[0].family == "coded")
    plan = strategy.plan()
    expected = []
    for t in range(ROUNDS):
        ends = []
        for p, costs in enumerate(plan.costs):
            whole = np.cumsum(np.maximum(1, np.ceil(costs - 1e-9))).astype(int)
            assert (costs == np.round(costs)).all()
            ends += [LINK + TABLE[p][t, :n].sum() for n in whole]
        expected.append(sorted(ends)[plan.slots[0].threshold - 1])
    assert times == pytest.approx(expected)


def test_rounds_that_are_held_in_pieces_take_the_same(found, monkeypatch):
    monkeypatch.setattr("echelon.search.replay._HELD", 500)
    work = "linear" if any("MDS" in name for name in found) else "gradient"
    for strategy, times in replayed(PROFILE, work, parts, ROUNDS):
        assert times == pytest.approx(found[strategy.name][1])


def test_adding_up_is_charged_to_codes_and_not_to_plain_parts():
    cheap, dear = (dict(replayed(PROFILE, "gradient", parts, ROUNDS, adding_s=cost)) for cost in (0.0, 0.5))
    for one, other in zip(cheap, dear, strict=True):
        assert one.family == other.family
        if one.family == "coded":
            # rows of two parts or more are added up, at half a second each part; parts take one second and more
            assert dear[other].mean() > cheap[one].mean() + 0.5
        else:
            assert dear[other] == pytest.approx(cheap[one])


def test_one_worker_has_nobody_to_share_with():
    alone = replayed(cluster([1.0], critical=3), "gradient", lambda rounds, most: [np.ones((2, most))], 2)
    assert [(one.name, times.tolist()) for one, times in alone] == [("uncoded, uniform", [3.0, 3.0])]
