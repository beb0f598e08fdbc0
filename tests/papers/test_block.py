from math import comb, log

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import linprog

from echelon.papers import block, block_runtimes
from echelon.papers.claims import NOT_REPRODUCED
from tests.papers.tables import check_claims, check_files, harmonic, rows_of

DRAWN = ("figure1", "figure2", "figure3", "formula8", "crossing", "theorem4")
FILES = [f"{name}.{kind}" for name in DRAWN for kind in ("csv", "png")]
FILES += ["claims.csv", "partitions.csv", "ferdinand.csv", "figure4a.csv", "figure4b.csv", "figure4.png"]
SIGMAS = 4.0  # of a simulated mean against theory: one in 16,000 would fall outside, and seeds are fixed
UNIT = 50 / 20 * 20_000  # M b L / N at N = 20


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("block")
    patch = pytest.MonkeyPatch()
    patch.setattr(block, "DRAWS", 10_000)
    patch.setattr(block_runtimes, "SIZES", (5, 20, 50))
    patch.setattr(block_runtimes, "EXPONENTS", (-3.4, -3.0, -2.6))
    patch.setattr(block_runtimes, "CROSSING_MOST", 30)
    patch.setattr(block_runtimes, "BOUND_SIZES", (5, 20, 80))
    patch.setattr(block_runtimes, "EXACT_MOST", 20)
    told = []
    claims = block.reproduce(folder, progress=lambda done, total: told.append((done, total)))
    patch.undo()
    return folder, claims, told


def order_mean(n, k, rate=1e-3):
    return 50 + (harmonic(n) - harmonic(n - k)) / rate


def test_every_figure_and_table_is_written(outcome):
    check_files("block", outcome, FILES)


def test_every_claim_has_a_verdict_and_a_reason(outcome):
    check_claims(outcome, least=18)


def test_the_verdicts_that_are_known_beforehand(outcome):
    """No draw decides these: all means are exact."""
    _, claims, _ = outcome
    refuted = {claim.claim for claim in claims if claim.verdict == NOT_REPRODUCED}
    assert refuted == {
        "the first and the last block hold most of the coordinates in all three solutions",
        "tau(x(t), t) = m(t)",
        "t'_n can be computed by (8)",
        "alpha = E[T | T <= t] / E[T | T > t] = 6 at the median t",
        "37 % and 44 % are gains over the best of the four baselines",
        "the proposed solutions outperform the four baselines",
        "the closed forms are quite close to the optimum, and the gaps are very small even at N = 50",
        "r = L and r = L/2 of Ferdinand et al. are two baselines",
        "x(f) slightly outperforms x(t)",
        "the upper bounds on the gaps are not large, as log² N = 4 at N = 8 and log N = 4 at N = 55",
    }
    crossing = next(claim for claim in claims if claim.claim.startswith("x(f) slightly"))
    assert crossing.ours == "true for N = 2 to 26, false from N = 27"


def test_figure_1_is_as_counted_by_hand(outcome):
    """s = 1: two subsets a coordinate, the third worker (T = 1/4) ends all 8; s = 2: the second (1/10) ends all 12."""
    folder, _, _ = outcome
    runtimes = {row["code"][:3]: float(row["runtime"]) for row in rows_of(folder, "figure1")}
    assert runtimes == pytest.approx({"(b)": 8 / 4, "(c)": 12 / 10, "(d)": max(4 / 4, 10 / 10)})


def test_figure_2_gives_the_printed_levels(outcome):
    folder, _, _ = outcome
    rows = rows_of(folder, "figure2")
    assert [row["level"] for row in rows] == [row["printed"] for row in rows] == list("112223011133")
    assert {row["x"] for row in rows} == {"0 2 3 1", "1 3 0 2"}


def test_the_closed_forms_solve_the_linear_program_of_theorem_2(outcome):
    """Minimise m with t_{N-n} c_n <= m and sum x = L, by an independent solver; t' by quadrature of the law."""
    folder, _, _ = outcome
    rows = rows_of(folder, "figure3")

    def inverse(k):  # E[1 / T_(k)] over p = exp(-mu (t - t0)), which is uniform
        density = k * comb(20, k)
        return quad(lambda p: density * p ** (20 - k) * (1 - p) ** (k - 1) / (50 - 1000 * log(p)), 0, 1, limit=200)[0]

    times = {
        "x(t)": np.array([order_mean(20, k) for k in range(1, 21)]),
        "x(f)": np.array([1 / inverse(k) for k in range(1, 21)]),
    }
    for name, t in times.items():
        work = np.tril(np.ones((20, 20))) * np.arange(1, 21)
        limits = np.column_stack([work * t[::-1, None] / t.mean(), -np.ones(20)])
        cost = np.append(np.zeros(20), 1.0)
        found = linprog(cost, A_ub=limits, b_ub=np.zeros(20), A_eq=[[1.0] * 20 + [0.0]], b_eq=[1.0])
        np.testing.assert_allclose([float(row[name]) for row in rows], 20_000 * found.x[:20], rtol=1e-5, atol=1e-3)
        assert sum(int(row[f"{name} rounded"]) for row in rows) == 20_000


def test_partitions_take_as_long_as_a_plain_simulation_says(outcome):
    """Sorted exponential draws and the formula (5), written out here."""
    folder, _, _ = outcome
    rows = rows_of(folder, "figure3")
    slowest = np.sort(50 + np.random.default_rng(8).exponential(1000, size=(40_000, 20)), axis=1)[:, ::-1]
    for shown in rows_of(folder, "partitions"):
        x = np.array([float(row[shown["partition"]]) for row in rows])
        runs = 2.5 * (slowest * np.cumsum(np.arange(1, 21) * x)).max(axis=1)
        assert abs(float(shown["expected"]) - runs.mean()) < SIGMAS * runs.std() / len(runs) ** 0.5
        assert abs(float(shown["expected"]) - float(shown["sampled"])) < SIGMAS * float(shown["error"])
        assert float(shown["rounded"]) == pytest.approx(float(shown["expected"]), rel=1e-4)
    best, t, f = (float(row["expected"]) / 1e6 for row in rows_of(folder, "partitions"))
    assert (best, t, f) == pytest.approx((70.494, 78.853, 78.438), abs=6e-4)


def test_baselines_with_one_block_are_order_statistics(outcome):
    folder, _, _ = outcome
    for row in rows_of(folder, "figure4a"):
        n = int(row["workers"])
        scale = 50 / n * 20_000
        assert float(row["uncoded"]) == pytest.approx(scale * order_mean(n, n), rel=1e-9)
        least = min((s + 1) * order_mean(n, n - s) for s in range(n))
        assert float(row["single"]) == pytest.approx(scale * least, rel=1e-9)
    for row in rows_of(folder, "figure4b"):
        rate = float(row["mu"])
        assert float(row["uncoded"]) == pytest.approx(50 / 30 * 20_000 * order_mean(30, 30, rate), rel=1e-9)


def test_the_optimum_is_below_everything_and_above_what_jensen_allows(outcome):
    folder, _, _ = outcome
    for row in rows_of(folder, "figure4a"):
        others = [float(value) for name, value in row.items() if name not in ("workers", "optimum")]
        assert float(row["optimum"]) < min(others)
    for row in rows_of(folder, "theorem4"):
        assert max(float(row["by_gradient"]), float(row["jensen"])) <= float(row["least"]) * (1 + 1e-9)
        assert 1 < float(row["ratio_f"]) < float(row["bound_f"])
        assert 1 < float(row["ratio_t"]) < float(row["bound_t"])
    assert [row["against"] for row in rows_of(folder, "theorem4")] == ["optimum", "optimum", "lower bound"]


def test_jensens_bound_is_the_time_of_x_t_for_constant_workers(outcome):
    """(M b / N) L over the sum of beta_i = 1 / (i (i+1) t_{N+1-i}), with beta_N = 1 / (N t_1)."""
    folder, _, _ = outcome
    row = next(row for row in rows_of(folder, "theorem4") if row["workers"] == "20")
    betas = sum(1 / (i * (i + 1) * order_mean(20, 21 - i)) for i in range(1, 20)) + 1 / (20 * order_mean(20, 1))
    assert float(row["jensen"]) == pytest.approx(UNIT / betas, rel=1e-9)


def test_bounds_of_theorem_4_have_the_constants_of_its_proof():
    bound_t, bound_f = block_runtimes.theorem4_bounds(3)
    assert bound_t == pytest.approx((11 / 6 + 1) * (11 / 6 + 0.05) / 0.05**2)
    assert bound_f == pytest.approx(11 / 6 / 0.05 + 1)


def test_formula_8_is_right_for_few_workers_and_lost_for_many(outcome):
    folder, _, _ = outcome
    worst = {}
    for row in rows_of(folder, "formula8"):
        worst[row["workers"]] = max(worst.get(row["workers"], 0.0), float(row["relative_error"]))
    assert worst["10"] < 1e-9
    assert worst["20"] < 1e-4
    assert worst["30"] > 1e-4
    assert worst["40"] > 1


def test_layers_of_ferdinand_need_the_workers_that_their_time_allows():
    """N = 2, t = (550, 1550): the first 550/1550 of the layers need both workers, the others one."""
    np.testing.assert_array_equal(block_runtimes.ferdinand_layers(2, 20_000), [7096, 12904])
    np.testing.assert_array_equal(block_runtimes.ferdinand_layers(2, 10_000), [7096, 12904])


def test_alpha_is_below_6_by_simulation(outcome):
    _, claims, _ = outcome
    times = 50 + np.random.default_rng(3).exponential(1000, 400_000)
    median = np.median(times)
    alpha = times[times > median].mean() / times[times <= median].mean()
    claim = next(claim for claim in claims if claim.claim.startswith("alpha"))
    said = float(claim.ours.split("and ")[1].split()[0])
    # standard errors of the two means: about 1000 and 200 over sqrt(200,000), so 0.3 % of alpha at four of them
    assert alpha == pytest.approx(said, rel=SIGMAS * (1000 / 1743 + 200 / 357) / 200_000**0.5)
    assert said < 6
