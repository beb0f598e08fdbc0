"""The command line as a user meets it: through `main`, with real files."""

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT

EXAMPLE = str(ROOT / "examples" / "example2.toml")


def test_plan_of_example_2(run):
    code, out, err = run("plan", EXAMPLE, "--json")
    said = json.loads(out)
    assert (code, err) == (0, "")
    assert said["split"] == [13, 18, 7, 3, 14]
    assert said["theta"] == pytest.approx(1.33065, abs=5e-6)
    assert said["delay"] == pytest.approx(49.534, abs=5e-4)
    assert said["paper_bound"] == pytest.approx(33.928, abs=5e-4)
    assert said["paper_bound_queued"] == pytest.approx(42.640, abs=5e-4)
    assert said["bound"] == said["bound_active"] == pytest.approx(33.972, abs=5e-4)
    assert said["bound_queued"] == said["bound_active_queued"] == pytest.approx(42.714, abs=5e-4)
    assert said["stable"] is True
    assert said["tasks"] == 55
    assert said["active"] == 5
    assert set(said) >= {
        "split", "split_real", "theta", "tasks", "active", "metric", "iteration_mean", "iteration_second",
        "service_mean", "delay", "bound", "bound_queued", "bound_active", "bound_active_queued",
        "paper_bound", "paper_bound_queued", "stable", "unpurged", "mismatch", "mismatch_active",
    }  # fmt: skip
    assert set(said["unpurged"]) == {"iteration_mean", "iteration_second", "delay", "stable"}


def test_plan_with_the_uniform_split(run):
    said = json.loads(run("plan", EXAMPLE, "--split", "uniform", "--json")[1])
    assert said["split"] == [11] * 5
    assert said["delay"] == pytest.approx(148.40, abs=5e-3)
    assert said["theta"] is None
    assert said["unpurged"]["delay"] is None
    assert said["unpurged"]["stable"] is False


def test_plan_best_with_fifty_tasks(run):
    said = json.loads(run("plan", EXAMPLE, "--split", "best", "--tasks", 50, "--json")[1])
    assert said["delay"] <= 64.4
    assert sum(said["split"]) == 50


def test_no_bound_is_above_a_split_that_leaves_a_far_worker_out(run, tmp_path):
    far = tmp_path / "far.toml"
    text = (ROOT / "examples" / "example2.toml").read_text()
    far.write_text(text + '\n[[worker]]\nname = "far"\nrate = 1e6\nlink = 30.0\n')
    said = json.loads(run("plan", far, "--json")[1])
    assert said["split"][-1] == 0
    assert said["paper_bound"] > said["service_mean"]  # (9) counts the link all the same
    assert said["bound"] <= said["bound_active"] <= said["service_mean"]
    assert said["bound_queued"] <= said["bound_active_queued"] <= said["delay"]
    assert "(9) is no bound here" in run("plan", far)[1]


def test_an_unstable_plan_has_no_delay_and_says_so(run, tmp_path):
    busy = tmp_path / "busy.toml"
    busy.write_text((ROOT / "examples" / "example2.toml").read_text().replace("arrivals = 0.01", "arrivals = 1"))
    said = json.loads(run("plan", busy, "--json")[1])
    assert said["delay"] is None
    assert said["stable"] is False
    assert said["bound_queued"] is None
    code, out, _ = run("plan", busy)
    assert code == 0
    assert "Unstable: a job needs" in out
    assert "redundancy" in out
    assert "redundancy" not in run("plan", busy, "--no-purge")[1].split("Unstable")[1]
    assert "Delays grow with --jobs" in run("simulate", busy, "--seeds", 2, "--jobs", 5)[1]
    assert json.loads(run("simulate", busy, "--seeds", 2, "--jobs", 5, "--json")[1])["stable"] is False
    assert "Unstable throughout" in run("tune", busy, "--critical", 50)[1]


def test_no_purge_makes_the_awaited_numbers_the_main_ones(run):
    said = json.loads(run("plan", EXAMPLE, "--no-purge", "--json")[1])
    assert said["delay"] == said["unpurged"]["delay"] == pytest.approx(76.825, abs=5e-4)


def test_plan_with_a_pool(run, tmp_path):
    text = (ROOT / "examples" / "example2.toml").read_text()
    head, *tables = text.split("[[worker]]")
    weak, pool = tmp_path / "weak.toml", tmp_path / "pool.toml"
    weak.write_text(head + "[[worker]]" + tables[3])
    pool.write_text(head + "".join("[[worker]]" + table for table in tables[:3]))
    said = json.loads(run("plan", weak, "--pool", pool, "--json")[1])
    assert said["pool"]["stable"] is True
    assert said["stable"] is True
    assert "added" in run("plan", weak, "--pool", pool)[1]


def test_rates_of_a_pool_refer_to_the_work_in_its_own_file(run, tmp_path):
    text = "[workload]\ncritical = 20\nredundancy = 1\niterations = 1\narrivals = 0.9\n"
    base, pool = tmp_path / "base.toml", tmp_path / "pool.toml"
    base.write_text(text + '[[worker]]\nname = "a"\nmean = 0.1\nstd = 0.1\nlink = 0\n')
    pool.write_text(text + 'operations = 5\n[[worker]]\nname = "b"\nrate = 50\nlink = 0\n')
    said = json.loads(run("plan", base, "--pool", pool, "--json")[1])
    assert said["pool"]["added"] == ["b"]


def test_names_that_look_like_markup_are_printed_as_they_are(run, tmp_path):
    text = (ROOT / "examples" / "example2.toml").read_text()
    odd = tmp_path / "odd.toml"
    odd.write_text(text.replace('"w1"', '"[/x]"').replace('"w2"', '"w[bold]"'))
    for command in (["plan", odd], ["simulate", odd, "--seeds", 1, "--jobs", 2]):
        code, out, _ = run(*command)
        assert code == 0
        assert "[/x]" in out
        assert "w[bold]" in out


def test_plan_tables_name_every_worker(run):
    code, out, _ = run("plan", EXAMPLE)
    assert code == 0
    for word in ("w1", "w5", "49.534", "42.640", "Pollaczek-Khinchine", "Split by theorem2"):
        assert word in out


def test_plan_says_where_the_bound_is_none_and_where_a_law_has_another_spread(run, tmp_path):
    assert "(9) is no bound here" in run("plan", EXAMPLE, "--law", "straggler", "--tasks", 150)[1]
    assert "(9) is no bound here" not in run("plan", EXAMPLE)[1]
    assert "No lower bound is known" in run("plan", EXAMPLE, "--law", "pareto")[1]
    steady = tmp_path / "steady.toml"
    text = (ROOT / "examples" / "example2.toml").read_text()
    steady.write_text(text.replace("rate = 5.29e7", "mean = 0.05\nstd = 0.01"))
    assert "w1: the law exponential has a deviation of 0.05 s, not the 0.01 s stated" in run(
        "plan", steady, "--law", "exponential"
    )[1]  # fmt: skip


def test_a_pool_with_a_name_twice_is_refused_by_its_own_name(run):
    code, _, err = run("plan", EXAMPLE, "--pool", EXAMPLE)
    assert code == 2
    assert "pool: 'w1' names 2 workers" in err


def test_tune_takes_another_law_and_says_when_the_best_is_at_the_edge(run):
    assert "The best Omega is the largest tried" in run("tune", EXAMPLE, "--critical", 50)[1]
    said = json.loads(
        run("tune", EXAMPLE, "--critical", 50, "--redundancy", 1.1, "--law", "deterministic", "--json")[1]
    )
    assert said["best"]["delay"] < 49


def test_sampled_plans_state_their_error(run):
    said = json.loads(run("plan", EXAMPLE, "--law", "pareto", "--json")[1])
    assert said["method"] == "sampled"
    assert said["delay_error"] > 0
    assert "±" in run("plan", EXAMPLE, "--law", "pareto")[1]


def test_simulate_gives_its_keys(run):
    code, out, err = run("simulate", EXAMPLE, "--seeds", 6, "--jobs", 200, "--json")
    said = json.loads(out)
    assert (code, err) == (0, "")  # no progress bar when nobody watches
    assert set(said["delay"]) == {"mean", "low", "high", "p50", "p99"}
    assert said["delay"]["low"] < said["delay"]["mean"] < said["delay"]["high"]
    assert len(said["utilisation"]) == 5
    assert (said["jobs"], said["seeds"]) == (200, 6)
    assert said["service_mean"] == pytest.approx(37.94, rel=0.02)


def test_simulate_is_repeatable_and_seeded(run):
    one, two, other = (
        run("simulate", EXAMPLE, "--seeds", 2, "--jobs", 20, "--seed", seed, "--json")[1] for seed in (1, 1, 2)
    )
    assert one == two
    assert one != other


def test_simulate_quick_and_in_tables(run):
    said = json.loads(run("simulate", EXAMPLE, "--quick", "--seeds", 20, "--json")[1])
    assert said["utilisation"] is None
    code, out, _ = run("simulate", EXAMPLE, "--seeds", 2, "--jobs", 20, "--law", "gilbert_elliott")
    assert code == 0
    assert "computing" in out


def test_simulate_charges_links_and_ports_by_the_plane(run, tmp_path):
    profile, took = tmp_path / "p.toml", {}
    for plane in ("master", "responders"):
        profile.write_text(f'{Path(EXAMPLE).read_text()}\n[costs]\nbandwidth = 1e9\nport = 1e9\nplane = "{plane}"\n')
        few = ["--seeds", 2, "--jobs", 5, "--bytes-per-message", 1e9, "--bytes-of-state", 1e9]
        said = json.loads(run("simulate", profile, *few, "--json")[1])
        assert said["plane"] == plane
        took[plane] = said["iteration_mean"]
        assert f"The {plane} add" in run("simulate", profile, *few)[1]
    assert took["master"] > 50 + 5  # fifty rows through the port, one second each, and five states
    assert took["responders"] < 20
    code, _, err = run("simulate", profile, "--quick", "--bytes-per-message", 1e9)
    assert code == 2
    assert "--bytes-per-message: not allowed for --quick" in err


def test_one_seed_has_a_null_interval(run):
    said = json.loads(run("simulate", EXAMPLE, "--seeds", 1, "--jobs", 5, "--json")[1])
    assert said["delay"]["low"] is None


def test_tune_names_the_best_code_and_algorithm_1(run):
    said = json.loads(run("tune", EXAMPLE, "--critical", 50, "--redundancy", 1, "--redundancy", 1.1, "--json")[1])
    assert said["best"]["tasks"] == 55
    assert said["best"]["delay"] == pytest.approx(49.534, abs=5e-4)
    assert {"critical", "redundancy", "mismatch"} <= set(said["algorithm1"])
    code, out, _ = run("tune", EXAMPLE, "--critical", 50, "--cost", "gradient")
    assert code == 0
    assert "Algorithm 1" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "no.toml"], "no.toml: can't be read"),
        (["plan", EXAMPLE, "--tasks", 49], "tasks: 49 is not allowed; must be at least critical, 50"),
        (["plan", EXAMPLE, "--split", "fair"], "split: 'fair' is not allowed; must be one of theorem2, uniform, best"),
        (["plan", EXAMPLE, "--law", "nope"], "law: 'nope' is not allowed; must be one of"),
        (["plan", EXAMPLE, "--law", "trace"], "worker[1].times: () is not allowed"),
        (["plan", EXAMPLE, "--law", "pareto", "--split", "best"], "use theorem2 for these workers"),
        (["simulate", EXAMPLE, "--jobs", 0], "jobs: 0 is not allowed"),
        (["simulate", EXAMPLE, "--seeds", 0], "seeds: 0 is not allowed"),
        (["simulate", EXAMPLE, "--seed", -1], "seed: -1 is not allowed"),
        (["simulate", EXAMPLE, "--quick", "--law", "pareto"], "no exact law, since the law of worker 0"),
        (["simulate", EXAMPLE, "--jobs", 10**12], "jobs: 1000000000000 times 200 seeds are not allowed"),
        (
            ["plan", EXAMPLE, "--tasks", 10**9],
            "counts: they sum to 1000000000; must reach critical, 50, and be at most",
        ),
        (["tune", EXAMPLE, "--redundancy", 0.5], "redundancy: 0.5 is not allowed"),
        (["tune", EXAMPLE, "--cost", "free"], "cost: 'free' is not allowed; must be one of fixed, gradient"),
        (
            ["reproduce", "novel"],
            "paper: 'novel' is not allowed; must be one of block, mmc, sequential, stream, traces",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run, arguments, said):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert err.startswith("echelon: ")


def test_a_wrong_profile_names_file_key_and_what_is_allowed(run, tmp_path):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text((ROOT / "examples" / "example2.toml").read_text().replace("link = 0.0481", "link = -1"))
    for command in ("plan", "simulate", "tune"):
        code, _, err = run(command, wrong)
        assert code == 2
        assert err == f"echelon: {wrong}: worker[1].link: -1 is not allowed; must be a finite number >= 0\n"


def test_help_and_version(run):
    code, out, _ = run("--help")
    assert code == 0
    for command in ("plan", "simulate", "tune", "reproduce"):
        assert command in out
        assert run(command, "--help")[0] == 0
    assert run("--version")[1].startswith("echelon 0.")


def test_rounds_may_end_by_policies_and_their_residual_is_told(run):
    few = ("simulate", EXAMPLE, "--code", "uncoded", "--seeds", 2, "--jobs", 20)
    exact = json.loads(run(*few, "--json")[1])
    ended = json.loads(run(*few, "--ending", "quorum:share=0.8", "--json")[1])
    both = json.loads(run(*few, "--ending", "quorum:share=0.8", "--ending", "deadline:seconds=5", "--json")[1])
    assert (exact["residual"], both["residual"]) == (0.0, 0.0)  # all is there after five seconds
    assert 0.2 < ended["residual"] <= 0.2**0.5 + 1e-9
    assert ended["iteration_mean"] < exact["iteration_mean"] == both["iteration_mean"]
    assert "Residual of a round, mean: 0." in run(*few, "--ending", "residual:most=0.4")[1]


def test_the_residual_that_is_told_is_that_of_the_rounds_that_were_simulated(run, tmp_path):
    """Messages take so long that fewer of them come before the deadline."""
    slow = tmp_path / "slow.toml"
    slow.write_text(Path(EXAMPLE).read_text() + "\n[costs]\nmessage = 0.05\n")
    few = ("--code", "uncoded", "--seeds", 2, "--jobs", 20, "--ending", "deadline:seconds=0.8", "--json")
    free, dear = (json.loads(run("simulate", file, *few)[1])["residual"] for file in (EXAMPLE, slow))
    assert dear > free + 0.1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ending", "deadline:seconds=-1"), "seconds: -1 is not allowed"),
        (("--ending", "quorum:share=1.5"), "share: 1.5 is not allowed"),
        (("--ending", "deadline:seconds=auto"), "are learnt from rounds while a stream runs"),
        (("--ending", "deadline"), "ending: deadline needs seconds"),
        (("--ending", "due"), "ending: 'due' is not allowed; must be one of deadline, exact, quorum, residual"),
        (("--ending", "exact", "--ending", "fastest"), "ending: 'fastest' is not allowed; must be one of"),
    ],
)
def test_endings_that_can_t_be_meant_are_one_clear_line(run, options, said):
    code, out, err = run("simulate", EXAMPLE, "--code", "uncoded", "--seeds", 2, "--jobs", 20, *options)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
