"""The references that timings are held against must compute the same thing."""

import numpy as np
import pytest

import echelon as ec
from bench import ports_virtual, simpy_stream
from bench.gpt2 import likely
from bench.results import markdown_table, replace_section
from tests.conftest import ROOT


def test_the_simpy_model_is_the_same_system(example2):
    """Service times over 300 jobs at 99.9 %, and the shares of computing time to 2 %."""
    counts = ec.split_rows(example2).counts
    plan = ec.schemes.any_k(counts, 50)
    seen = simpy_stream.run(example2, counts.tolist(), 300, seed=1)
    services = np.array(seen.services)
    exact = ec.predict_jobs(plan, example2).service_mean
    assert abs(services.mean() - exact) < 3.29 * services.std(ddof=1) / np.sqrt(len(services))
    ours = ec.simulate_jobs(plan, example2, jobs=300, seeds=4)
    shares = np.array(seen.busy) / services.sum()
    np.testing.assert_allclose(shares, ours.utilisation * ours.makespan / (300 * ours.service.mean), rtol=0.02)


def test_sections_are_replaced_between_their_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n")
    replace_section(page, "x", "new")
    assert page.read_text() == "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb\n"
    with pytest.raises(SystemExit, match="needs one"):
        replace_section(page, "y", "new")


def test_tables_have_a_line_a_row():
    assert markdown_table(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bench", ["SimPy", "every task sampled", "Theorem 2", "numpy lstsq", "roots of unity"]),
        ("reproduce stream", ["Example 2", "Fig. 4", "Table II"]),
    ],
)
def test_the_results_page_holds_what_the_commands_printed(name, said):
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    section = page.split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0]
    for word in said:
        assert word in section


@pytest.mark.parametrize("plane", ports_virtual.PLANES)
def test_both_planes_take_in_virtual_time_what_the_evaluators_say(plane):
    for plan in ports_virtual._small_plans():
        assert ports_virtual._off(plane, plan) < ports_virtual.HELD


def test_trainings_are_told_apart_where_they_differ_and_not_where_they_are_alike():
    """By permutations of the labels: distances of curves that are alike but for noise, and of shifted ones."""
    rng = np.random.default_rng(1)
    alike = rng.normal(0.0, 1.0, (10, 25))
    shifted = alike + np.where(np.arange(10) < 5, 0.0, 3.0)[:, None]
    curves = {"alike": alike, "shifted": shifted, "the same": np.zeros((10, 25))}
    chance = {name: likely(abs(some[:, None] - some).max(axis=2), 5) for name, some in curves.items()}
    assert chance["alike"] > 0.05
    assert chance["shifted"] < 0.02  # one of 252 labellings, and its mirror
    assert chance["the same"] == 1.0
