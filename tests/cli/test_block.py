import json

import pytest

from tests.conftest import ROOT

EXAMPLE = str(ROOT / "examples" / "example2.toml")


def test_the_paper_s_setting_is_the_default(run):
    code, out, err = run("block", "--workers", 20, "--json")
    said = json.loads(out)
    assert (code, err) == (0, "")
    assert set(said) == {"x", "expected", "certificate", "baselines", "method", "gap", "converged"}
    assert set(said["baselines"]) == {"single", "tandon", "ferdinand", "uncoded"}
    assert said["expected"] == pytest.approx(70.494e6, rel=1e-5)
    assert said["certificate"] <= 1e-5
    assert sum(said["x"]) == 20_000
    assert len(said["x"]) == 20
    assert said["method"] == "exact"


@pytest.mark.parametrize(("method", "expected"), [("t", 78.853e6), ("f", 78.438e6)])
def test_the_closed_forms_can_be_asked_for(run, method, expected):
    said = json.loads(run("block", "--workers", 20, "--method", method, "--json")[1])
    assert said["expected"] == pytest.approx(expected, rel=1e-5)
    assert 1 - 70.495e6 / expected < said["certificate"] < 1  # a bound, not a sharp one


def test_a_table_tells_the_gains_and_how_near_the_best_is(run):
    code, out, _ = run("block", "--workers", 4, "--coordinates", 100, "--shift", 0.1, "--rate", 1, "--work", 4)
    assert code == 0
    assert "stragglers tolerated" in out
    assert "single" in out
    assert "No partition is quicker by more than" in out


def test_unequal_workers_of_a_profile_are_planned_from_draws(run):
    said = json.loads(run("block", EXAMPLE, "--coordinates", 1000, "--json")[1])
    assert said["method"] == "lp"
    assert sum(said["x"]) == 1000
    assert said["certificate"] is None
    assert said["baselines"] == {}
    assert "Sampled; standard error" in run("block", EXAMPLE, "--coordinates", 1000)[1]


@pytest.fixture
def alike(tmp_path):
    """Write a profile of six equal workers; return the file's name."""

    def write(law, std):
        worker = f'[[worker]]\nname = "w{{}}"\nmean = 1.0\nstd = {std}\nlink = 0.0\nlaw = "{law}"\n'
        job = "[workload]\ncritical = 4\nredundancy = 1.5\niterations = 1\narrivals = 0.01\n"
        path = tmp_path / f"{law}.toml"
        path.write_text(job + "".join(worker.format(i) for i in range(6)))
        return path

    return write


def test_equal_stragglers_are_planned_exactly_however_steep_their_law(run, alike):
    """Healthy and slow tasks that hardly vary: two steep stretches, far apart."""
    for std in (0.858, 0.87):
        code, out, err = run("block", alike("straggler", std), "--coordinates", 100, "--json")
        said = json.loads(out)
        assert (code, err) == (0, "")
        assert said["method"] == "exact"
        assert said["certificate"] <= 1e-5


@pytest.mark.parametrize("law", ["pareto", "deterministic"])
def test_equal_workers_without_a_formula_are_planned_from_draws_and_compared(run, alike, law):
    said = json.loads(run("block", alike(law, 1.2), "--coordinates", 100, "--json")[1])
    assert said["method"] == "lp"
    assert said["converged"] is True
    assert said["gap"] <= 1e-4
    assert set(said["baselines"]) == {"single", "tandon", "ferdinand", "uncoded"}
    code, _, err = run("block", alike(law, 1.2), "--method", "exact")
    assert code == 2
    assert "use a method that samples, subgradient or lp" in err


def test_the_tolerance_of_the_exact_method_is_an_option(run):
    assert json.loads(run("block", "--workers", 3, "--tolerance", 1e-8, "--json")[1])["certificate"] <= 1e-8
    code, _, err = run("block", "--workers", 3, "--tolerance", 1e-25)
    assert code == 2
    assert "tolerance: 1e-25 is not allowed; " in err


@pytest.mark.filterwarnings("ignore:optimise_lp")
def test_a_search_that_stopped_early_is_said_to_have(run, monkeypatch):
    from echelon.blocks import linear_program

    monkeypatch.setattr(linear_program, "_NEAR", -1.0)
    assert "The search stopped early: " in run("block", EXAMPLE, "--coordinates", 1000)[1]


@pytest.fixture
def layers(tmp_path):
    """Write costs of layers; return the file's name."""

    def write(text, name="layers.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


COSTS = "forward = 0.1\ndeltas = [0.1, 0]\nweights = [1, 2]"
PACE = ("--workers", 8, "--shift", 0.1, "--rate", 1, "--work", 8, "--coordinates", 1)


def test_layers_get_levels_and_a_sentence(run, layers):
    said = json.loads(run("block", "--layers", layers(COSTS), *PACE, "--json")[1])
    assert set(said) == {"levels", "expected", "single", "uncoded", "one_block", "why"}
    assert said["levels"] == [0, 7]
    assert said["one_block"] is False
    assert said["expected"] == pytest.approx(1.48757, rel=1e-5)
    code, out, _ = run("block", "--layers", layers(COSTS), *PACE)
    assert code == 0
    assert "stragglers tolerated" in out
    assert "2 blocks at levels 0, 7 save 17 %" in out


def test_layers_come_as_json_too_and_one_block_is_said_to_be_best(run, layers):
    costs = layers('{"forward": 2, "deltas": [1, 0], "weights": [1, 1]}', "layers.json")
    said = json.loads(run("block", "--layers", costs, *PACE, "--json")[1])
    assert said["one_block"] is True
    assert said["expected"] == said["single"]
    assert "One block at level 7 is best" in run("block", "--layers", costs, *PACE)[1]


def test_many_layers_are_said_to_be_climbed(run, layers):
    costs = f"forward = 0.1\ndeltas = {[0] * 12}\nweights = {[1] * 12}"
    assert "found by climbs from several starts" in run("block", "--layers", layers(costs), *PACE)[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("forward = 1", "must have the keys forward, deltas, weights, and no other"),
        ("forward = ", "layers.toml: "),
        (COSTS + "\nbias = 1", "and no other"),
        (COSTS.replace("0]", "1]"), "layers.toml: deltas[1]: 1.0 is not allowed; must be 0"),
    ],
)
def test_a_mistake_in_the_costs_of_layers_is_named_with_its_file(run, layers, text, said):
    code, _, err = run("block", "--layers", layers(text), *PACE)
    assert code == 2
    assert said in err.replace("\n", " ")


def test_layers_that_are_not_there_or_have_a_method_are_refused(run, layers):
    assert "can't be read" in run("block", "--layers", "nowhere.toml", *PACE)[2]
    assert "not allowed with --layers" in run("block", "--layers", layers(COSTS), "--method", "t", *PACE)[2]
    assert "not allowed with --layers" in run("block", "--layers", layers(COSTS), "--tolerance", 0.1, *PACE)[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "FILE, --workers: one of them must be given"),
        ([EXAMPLE, "--workers", 3], "FILE, --workers: one of them must be given"),
        (["--workers", 3, "--method", "magic"], "method: 'magic' is not allowed"),
        ([EXAMPLE, "--method", "exact"], "method: 'exact' needs workers that are all alike; use subgradient or lp"),
        (["--workers", 3, "--method", "t", "--tolerance", 0.1], "tolerance: 0.1 is not allowed with the method t"),
        (["--workers", 3, "--work", 0], "work: 0.0 is not allowed"),
        (["--workers", 3, "--rate", -1], "rate: -1.0 is not allowed"),
        (["--workers", 3, "--coordinates", 0], "coordinates: 0 is not allowed"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run, arguments, said):
    code, out, err = run("block", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
