from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.integrate import quad

from echelon.clusters.pace import Pace
from echelon.papers import mmc, mmc_beyond, mmc_lending, mmc_unequal
from echelon.papers.claims import NOT_REPRODUCED, REPRODUCED
from echelon.schemes import gradient_coding, multi_message
from echelon.search import multi_message as optimise
from echelon.search.halving import Stage
from echelon.seeds import place_generator
from tests.papers.tables import check_claims, check_files, harmonic, rows_of

NAMES = ("figure1", "clustering", "hybrid", "search", "unequal")
FILES = [f"{name}.{kind}" for name in NAMES for kind in ("csv", "png")]
FILES += ["claims.csv", "lending.csv", "orders.csv", "thresholds.csv"]
SIGMAS = 4.0  # of a simulated mean against theory: one in 16,000 would fall outside, and seeds are fixed


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mmc")
    patch = pytest.MonkeyPatch()
    patch.setattr(mmc, "ROUNDS", 6000)
    patch.setattr(mmc, "MOST_SUBSETS", 500)
    patch.setattr(mmc_beyond, "CHECK_ROUNDS", 3000)
    patch.setattr(mmc_beyond, "SEARCH_ORDERS", 1)
    patch.setattr(mmc_unequal, "SCREEN_ROUNDS", 300)
    patch.setattr(mmc_unequal, "SCORE_ROUNDS", 3000)
    patch.setattr(mmc_lending, "ROUNDS", 100)
    patch.setattr(optimise, "STAGES", (Stage(rounds=300, go_on=10), Stage(rounds=2000)))
    patch.setattr(optimise, "FRESH", Stage(rounds=4000))
    told = []
    claims = mmc.reproduce(folder, progress=lambda done, total: told.append((done, total)))
    patch.undo()
    return folder, claims, told


def test_every_figure_and_table_is_written(outcome):
    check_files("mmc", outcome, FILES)


def test_every_claim_has_a_verdict_and_a_reason(outcome):
    check_claims(outcome, least=15)


def test_the_verdicts_that_are_known_beforehand(outcome):
    """Theory tells these, whatever the seed: 0.439 is not 0.290, 6 - 2 - 1 is not 5."""
    _, claims, _ = outcome
    verdicts = {claim.claim: claim.verdict for claim in claims}
    refuted = {claim for claim, verdict in verdicts.items() if verdict == NOT_REPRODUCED}
    assert refuted == {
        "GC-MMC-2 achieves the same performance as LCC",
        "any K - m - 1 = 5 coded gradients are enough for K = 6, m = 2",
        "with orders [3, 2] the master needs at least 8 coded gradients",
    }
    assert verdicts["GC-MMC-1 performs as well as LCC in completion time"] == REPRODUCED
    assert verdicts["UC-MMC is the correlated design with order m = 1"] == REPRODUCED
    assert verdicts["the hybrid takes the better of both"] == REPRODUCED
    assert verdicts["clustering keeps the threshold of GC, and lowers its average time"] == REPRODUCED


def test_figure_1_agrees_with_order_statistics(outcome):
    """Ten computations take 0.1 + Exp(1): the k-th of n such times has mean 0.1 + H(n) - H(n - k)."""
    folder, _, _ = outcome
    shown = {row["scheme"]: row for row in rows_of(folder, "figure1")}
    means = {
        "GC": 0.1 + harmonic(40) - harmonic(9),
        "LCC": 0.1 + harmonic(40) - harmonic(33),
        "FR": 0.1 + harmonic(4) / 10,  # the last of four groups, each the first of ten
    }
    for scheme, mean in means.items():
        assert float(shown[scheme]["exact"]) == pytest.approx(mean, rel=1e-6)
        assert abs(float(shown[scheme]["mean"]) - mean) < SIGMAS * float(shown[scheme]["error"])
    loads = {"GC": 31, "LCC": 7, "UC-MMC": 40, "GC-MMC-2": 28, "FR": 4}
    assert {scheme: float(shown[scheme]["load_with_stop"]) for scheme in loads} == loads


def test_figure_1_agrees_with_a_plain_simulation_of_gc_mmc_2(outcome):
    """Seven of the messages after 6, 8 and 10 computations, in each of four clusters of ten."""
    folder, _, _ = outcome
    shown = {row["scheme"]: row for row in rows_of(folder, "figure1")}
    paces = 0.01 + np.random.default_rng(5).exponential(0.1, size=(20_000, 4, 10, 1))
    times = np.sort((paces * [6, 8, 10]).reshape(20_000, 4, 30), axis=2)[:, :, 6].max(axis=1)
    error = times.std() / len(times) ** 0.5
    assert abs(float(shown["GC-MMC-2"]["exact"]) - times.mean()) < SIGMAS * error
    firsts = 10 * paces[..., 0].min(axis=2)  # the hybrid ends a cluster when one of its workers is through
    messages = np.sort((paces * [6, 8]).reshape(20_000, 4, 20), axis=2)[:, :, 6]
    mixed = np.minimum(messages, firsts).max(axis=1)
    assert abs(float(shown["hybrid 2"]["exact"]) - mixed.mean()) < SIGMAS * mixed.std() / len(mixed) ** 0.5


def test_thresholds_are_those_of_the_corrected_formulas(outcome):
    folder, _, _ = outcome
    shown = rows_of(folder, "thresholds")
    assert [int(row["code"]) for row in shown] == [4, 5, 8, 3, 5, 7, 31, 7]
    assert [row["printed"] for row in shown] == ["4", "5", "8", "3", "", "", "31", ""]
    for row in shown[:-1]:
        assert row["derived"] == row["code"]
        assert row["decoded"] == row["tried"]
    assert [int(row["tried"]) for row in shown[:3]] == [comb(6, 4), comb(6, 5), comb(12, 8)]


def test_sets_that_decode_are_those_whose_rows_combine_to_the_sum():
    code = multi_message(workers=6, load=3, orders=[3, 2]).codes[0]

    def solves(rows):
        weights = np.linalg.lstsq(code.matrix[list(rows)].T, np.ones(6), rcond=1e-10)[0]
        return bool(np.abs(weights @ code.matrix[list(rows)] - 1).max() < 1e-6)

    for size in (8, 7):
        sets = list(combinations(range(12), size))
        assert mmc.decodable(code, size, seed=1) == (sum(map(solves, sets)), len(sets))


def test_fourteen_of_twenty_triples_of_workers_send_five_different_rows(outcome):
    _, claims, _ = outcome
    triples = [len({row % 6 for p in some for row in (p, p + 1)}) >= 5 for some in combinations(range(6), 3)]
    assert sum(triples) == 14
    assert any("14 of 20 sets of three workers" in claim.ours for claim in claims)


def test_clusters_of_gc_agree_with_the_law_of_their_slowest(outcome):
    """Two clusters of 20: each needs the 11th of 20 times 0.1 + Exp(1), which all 11 to 20 being done says."""
    folder, _, _ = outcome
    rows = {(row["speeds"], row["design"], row["clusters"]): row for row in rows_of(folder, "clustering")}
    shown = rows["alike", "GC", "2"]

    def unfinished(t):
        done = 1 - np.exp(-t)
        return 1 - sum(comb(20, k) * done**k * (1 - done) ** (20 - k) for k in range(11, 21)) ** 2

    mean = 0.1 + quad(unfinished, 0, 40)[0]
    assert abs(float(shown["mean"]) - mean) < SIGMAS * float(shown["error"])
    assert len(gradient_coding(workers=40, load=10, clusters=2).slots) == 2


def test_hybrids_are_never_later_and_five_workers_are_as_computed_by_hand(outcome):
    folder, _, _ = outcome
    rows = rows_of(folder, "hybrid")
    assert {row["rounds_hybrid_later"] for row in rows} == {"0"}
    alike = next(row for row in rows if row["setting"].startswith("K = 5") and row["speeds"] == "alike")
    assert abs(float(alike["fr_mean"]) - 5 * (0.01 + 0.1 / 5)) < SIGMAS * float(alike["fr_error"])
    steady = next(row for row in rows if row["setting"].startswith("K = 5") and row["speeds"] == "steady")
    # nobody is 5/3 as fast as the third: the third of five first messages, after three computations each
    mean = 3 * (0.1 + 0.01 * (harmonic(5) - harmonic(2)))
    assert abs(float(steady["mmc_mean"]) - mean) < SIGMAS * float(steady["mmc_error"])


def test_kinds_of_workers_are_seeded_and_have_the_means_they_should():
    kinds = mmc_beyond.speeds(40, 10, 3)
    assert kinds == mmc_beyond.speeds(40, 10, 3)
    total = {kind: sum(law.mean for law in laws) / 0.11 for kind, laws in kinds.items()}
    slow = 20 + 20 * 3
    expected = {"alike": 40, "steady": 40, "half slow": slow, "slow half together": slow, "few fast": 36.4}
    assert total == pytest.approx(expected)
    fast = [p for p, law in enumerate(kinds["few fast"]) if law.mean < 0.1]
    assert [p // 10 for p in fast] == [0, 1, 2, 3]


def test_the_search_keeps_to_a_message_a_worker_and_order_10_is_fractional_repetition(outcome):
    folder, _, _ = outcome
    winner, *finalists = rows_of(folder, "search")
    assert winner["figures"] == "winner on fresh draws"
    assert float(winner["load"]) <= 40
    assert winner["design"] in {row["design"] for row in finalists}
    orders = rows_of(folder, "orders")
    assert [int(row["threshold"]) for row in orders] == [10 - m + 1 for m in range(1, 11)]
    last = orders[-1]
    assert abs(float(last["mean"]) - 0.1 - harmonic(4) / 10) < SIGMAS * float(last["error"])


def test_unequal_workers_without_code_end_with_the_slowest_of_them(outcome):
    """A twelfth of the data each: E max of shifted exponential times with mean w/12 and std of the same times 10/11."""
    folder, _, _ = outcome
    rows = {(row["variation"], row["family"], row["most_messages"]): row for row in rows_of(folder, "unequal")}
    shown = rows["as in (5)", "no code, equal lanes", "12"]
    spread = 10 / 11 / (12 * np.linspace(1.0, 0.25, 12))
    shift = spread / 10

    def unfinished(t):
        return 1 - np.prod(np.where(t > shift, 1 - np.exp(-np.maximum(t - shift, 0) / spread), 0.0))

    mean = quad(unfinished, 0, 20, points=[*shift, 1.0], limit=500)[0]
    assert abs(float(shown["mean"]) - mean) < SIGMAS * float(shown["error"])


def test_all_plans_for_unequal_workers_cost_the_same_data():
    """A worker that computed every chunk of a plan would take its time for the whole data, however it is cut."""
    for one in mmc_unequal.candidates(0.1):
        laws = mmc_unequal.unequal_laws(one.plan.parts, 0.1, 0.0)
        np.testing.assert_allclose([law.mean * one.plan.parts for law in laws], mmc_unequal.WHOLE)
        assert len(one.plan.lanes) == len(laws)
    slowed = mmc_unequal.unequal_laws(12, 0.1, 0.05)
    np.testing.assert_allclose([law.mean * 12 for law in slowed], mmc_unequal.WHOLE * (0.95 + 0.05 * 10))


def test_families_keep_to_the_limits(outcome):
    folder, _, _ = outcome
    for row in rows_of(folder, "unequal"):
        assert float(row["copies"]) <= mmc_unequal.MOST_COPIES + 1e-9
        # chosen on other draws than scored: a mean at the limit may come out a little above it
        assert float(row["load"]) <= float(row["most_messages"]) + 0.5


def paces_of(place, rounds):
    """Return what a worker takes for a part in each round, as virtual time draws it from seed 1."""
    pace, found = Pace(mmc.MODEL, 0.0, place_generator(1, place)), []
    for number in range(1, rounds + 1):
        pace.begin(round=number, start=0.0, parts=1)
        found.append(pace.due(1.0, given=0.0)[1])
    return found


def test_rounds_without_lending_are_those_of_the_simulation(outcome):
    """The table's means against the same paces by sorting, for fractional repetition: the first of each cluster."""
    folder, _, _ = outcome
    (row,) = (row for row in rows_of(folder, "lending") if row["scheme"] == "FR")
    paces = np.array([paces_of(place, rounds=100) for place in range(40)]).T
    wanted = 10 * paces.reshape(100, 4, 10).min(axis=2).max(axis=1)
    assert float(row["alone"]) == pytest.approx(wanted.mean())
    assert float(row["lent"]) < float(row["alone"])
