"""Registries on the command line: a scheme, code, law or cluster by its name does what the same call does in Python."""

import json

import numpy as np
import pytest

import echelon as ec
from echelon.cli.chains import in_virtual_time
from echelon.cli.schemes import REGISTRIES, entries
from echelon.delays import task_laws
from echelon.schemes import split_code
from echelon.seeds import place_generator
from echelon.stream import read_record
from tests.conftest import ROOT

EXAMPLE = str(ROOT / "examples" / "example2.toml")
PROFILE = ec.read_profile(EXAMPLE)
OFTEN = ["--seeds", 3, "--jobs", 20, "--json"]


def code(name, **arguments):
    return ec.codes.CODES[name](rng=place_generator(1, 0), **arguments)


def rows_of(made):
    return ec.schemes.coded_rows(made, split_code(made, PROFILE.speeds).counts)


PLANS = {
    "--scheme multi_message:load=4,clusters=1,order=2": lambda: ec.schemes.multi_message(workers=5, load=4, order=2),
    "--scheme multi_message:load=3,orders=[1,3]": lambda: ec.schemes.multi_message(workers=5, load=3, orders=[1, 3]),
    "--scheme multi_message:load=5,orders=[2,5],hybrid=true": lambda: ec.schemes.multi_message(
        workers=5, load=5, orders=[2, 5], hybrid=True
    ),
    "--scheme pull:copies=2": lambda: ec.schemes.pull(workers=5, parts=50, copies=2),
    "--scheme backups": lambda: ec.schemes.backups(workers=5, parts=50),
    "--scheme any_k": lambda: ec.schemes.any_k(ec.split_rows(PROFILE).counts, 50),
    "--scheme any_k --split uniform": lambda: ec.schemes.any_k([11] * 5, 50),
    "--scheme any_k:critical=40,counts=[10,10,10,10,10]": lambda: ec.schemes.any_k([10] * 5, 40),
    "--scheme sliding_window": lambda: ec.schemes.sliding_window(PROFILE),
    "--scheme block_coordinate:sizes=[2,0,3,0,1]": lambda: ec.schemes.block_coordinate(5, [2, 0, 3, 0, 1]),
    "--code cyclic": lambda: rows_of(code("cyclic", rows=55, load=6)),
    "--code cyclic:load=3": lambda: rows_of(code("cyclic", rows=55, load=3)),
    "--code mds --tasks 60": lambda: rows_of(code("mds", parts=50, rows=60)),
    "--scheme pull --code mds": lambda: ec.schemes.pull(workers=5, parts=55, code=code("mds", parts=50, rows=55)),
    "--scheme coded_rows --code uncoded:parts=20": lambda: rows_of(ec.codes.uncoded(parts=20)),
}


@pytest.mark.parametrize("options", PLANS)
def test_a_scheme_by_its_name_is_simulated_as_the_plan_that_python_makes(run, options):
    plan = PLANS[options]()
    status, out, err = run("simulate", EXAMPLE, *options.split(), *OFTEN)
    assert (status, err) == (0, "")
    said = json.loads(out)
    seen = ec.simulate_jobs(plan, PROFILE, jobs=20, seeds=3, seed=1)
    assert said["split"] == plan.counts.tolist()
    assert said["delay"]["mean"] == seen.delay.mean
    assert said["iteration_mean"] == seen.iteration_mean


@pytest.mark.parametrize("options", ["--scheme gradient_coding:load=2", "--code cyclic:load=6", "--scheme any_k"])
def test_a_scheme_by_its_name_is_predicted_as_the_plan_that_python_makes(run, options):
    plan = PLANS[options]() if options in PLANS else ec.schemes.gradient_coding(workers=5, load=2)
    if options == "--code cyclic:load=6":
        plan = rows_of(code("cyclic", rows=55, load=6))
    said = json.loads(run("plan", EXAMPLE, *options.split(), "--json")[1])
    seen = ec.predict_jobs(plan, PROFILE)
    assert said["delay"] == seen.delay
    assert said["method"] == seen.method
    assert said["tasks"] == plan.counts.tolist()
    assert said["parts"] == pytest.approx([costs.sum() for costs in plan.costs])
    status, out, _ = run("plan", EXAMPLE, *options.split())
    assert status == 0
    assert "A part takes one task time of the profile, whose iterations are 50 tasks" in " ".join(out.split())


def test_a_law_by_its_name_takes_the_place_of_the_profile_s(run):
    said = json.loads(run("simulate", EXAMPLE, "--law", "straggler:probability=0.05,slowdown=3", *OFTEN)[1])
    other = PROFILE.with_law("straggler", probability=0.05, slowdown=3)
    plan = ec.schemes.any_k(ec.split_rows(PROFILE).counts, 50)
    assert said["delay"]["mean"] == ec.simulate_jobs(plan, other, jobs=20, seeds=3, seed=1).delay.mean
    trace = run("simulate", EXAMPLE, "--law", "trace:times=[1,2,1,4]", *OFTEN)
    assert trace[0] == 0


def test_a_chain_by_its_name_is_simulated_as_in_python(run):
    said = json.loads(
        run("simulate", EXAMPLE, "--scheme", "diagonal_interleaved:x=2,y=3,delay=2,tolerance=0.1", *OFTEN)[1]
    )
    scheme = ec.schemes.diagonal_interleaved(5, x=2, y=3, delay=2, tolerance=0.1)
    seen = ec.simulation.simulate_chain(
        scheme, task_laws(PROFILE), loads=np.full(20, 50.0), links=PROFILE.speeds.link, seeds=3, seed=1
    )
    assert said["iteration_mean"] == pytest.approx(seen.mean, rel=1e-12)
    assert said["method"] == "tasks"
    status, out, _ = run("simulate", EXAMPLE, "--scheme", "uncoded_products", "--seeds", 2, "--jobs", 5)
    assert status == 0
    assert "2 chains of 5" in " ".join(out.split())


def test_a_chain_of_gradients_by_its_name_is_simulated_as_in_python(run):
    name = "m_sgc:workers_at_once=2,length=1,window=2"
    said = json.loads(run("simulate", EXAMPLE, "--scheme", name, *OFTEN)[1])
    scheme = ec.schemes.m_sgc(5, workers_at_once=2, length=1, window=2)
    seen = ec.simulation.simulate_gradients(
        scheme, task_laws(PROFILE), gradients=20, cost=50.0, links=PROFILE.speeds.link, seeds=3, seed=1
    )
    assert said["iteration_mean"] == pytest.approx(seen.mean, rel=1e-12)
    status, out, _ = run("simulate", EXAMPLE, "--scheme", name, "--seeds", 2, "--jobs", 5)
    assert status == 0
    assert "2 chains of 5 gradients" in " ".join(out.split())


@pytest.mark.parametrize("waiting", ["due", "fastest"])
def test_chains_that_the_master_runs_take_what_the_quick_simulator_says(waiting):
    """Constant times, so that both have the same draws."""
    steady = PROFILE.with_law("deterministic")
    scheme = ec.schemes.diagonal_interleaved(5, x=2, y=3, delay=2, waiting=waiting, tolerance=0.2)
    seen = ec.simulation.simulate_chain(scheme, task_laws(steady), loads=np.full(30, 50.0), links=steady.speeds.link)
    assert in_virtual_time(scheme, steady, 30, 1) == pytest.approx(seen.mean, rel=1e-9)


def test_schemes_lists_every_entry_of_every_registry_with_arguments_and_one_line(run):
    status, out, err = run("schemes", "--json")
    assert (status, err) == (0, "")
    said = json.loads(out)
    assert list(said) == [key.lower() for _, _, key in REGISTRIES]
    for _, module, key in REGISTRIES:
        assert said[key.lower()].keys() == entries(module, key).keys()
        assert all(line["about"] for line in said[key.lower()].values())
    assert said["schemes"]["multi_message"]["arguments"] == (
        "workers, load, clusters=1, order=none, orders=none, hybrid=false"
    )
    assert said["delays"]["straggler"]["arguments"] == "probability=0.1, slowdown=5.0"
    assert said["clusters"]["processes"] == {"arguments": "threads=1", "about": "Workers as processes of this machine"}
    status, out, _ = run("schemes")
    assert status == 0
    assert "fractional_repetition" in out
    assert "waiting=NAME" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scheme", "many"], "scheme: 'many' is not allowed; must be one of any_k"),
        (["--scheme", "multi_message:lod=4"], "scheme: 'lod' is not allowed; multi_message takes workers, load"),
        (["--scheme", "multi_message"], "scheme: multi_message needs load"),
        (["--scheme", "multi_message:load=two,order=1"], "scheme: load=two is not allowed; must be a whole number"),
        (["--scheme", "multi_message:load=4,clusters=3,order=2"], "clusters: 3 is not allowed; must divide"),
        (["--scheme", "coded_rows"], "its code must be given by --code"),
        (["--scheme", "pull:code=mds"], "its code must be given by --code"),
        (["--scheme", "gradient_coding:load=2", "--code", "mds"], "code: 'mds' is not allowed; gradient_coding has"),
        (["--code", "fractional_repetition"], "load: 6 is not allowed; must divide the number of rows, 55"),
        (["--code", "round"], "code: 'round' is not allowed; must be one of balanced, cyclic"),
        (["--code", "cyclic", "--split", "best"], "split: 'best' is not allowed; must be one of theorem2, uniform"),
        (["--scheme", "multi_message:workers=4,load=2,order=1"], "4 lanes are not allowed; must be 5, one per worker"),
        (["--law", "straggler:chance=0.2"], "law: 'chance' is not allowed; straggler takes probability, slowdown"),
        (["--law", "straggler:mean=1"], "law: 'mean' is not allowed; straggler takes probability, slowdown"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_a_mistake_is_one_line_that_says_what_is_allowed(run, command, arguments, said):
    status, out, err = run(command, EXAMPLE, *arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("option", [["--quick"], ["--no-purge"], ["--overlap"], ["--code", "mds"], ["--tasks", 60]])
def test_options_that_make_no_sense_for_a_chain_are_refused(run, option):
    status, _, err = run("simulate", EXAMPLE, "--scheme", "uncoded_products", *option)
    assert status == 2
    assert f"{option[0]}: not allowed for a chain of products" in err


def test_a_pool_beside_a_scheme_is_refused(run):
    status, _, err = run("plan", EXAMPLE, "--scheme", "pull", "--pool", EXAMPLE)
    assert status == 2
    assert "not allowed together with --scheme or --code" in err


JOBS = """
import numpy as np
import echelon as ec

listed = [ec.SumJob(partial=lambda w, x: x * w, update=lambda w, total: total / 66, state=1.0,
                    chunks=np.arange(12.0), iterations=3)]
planned = [ec.SumJob(partial=lambda w, x: x * w, update=lambda w, total: total / 66, state=1.0,
                     chunks=np.arange(2.0), iterations=3, plan=ec.schemes.gradient_coding(workers=2, load=2))]
"""


def test_jobs_of_a_file_run_by_a_code_and_a_law_of_the_command_line(run, tmp_path):
    (tmp_path / "some.py").write_text(JOBS)
    record = tmp_path / "record"
    where = ["run", f"{tmp_path}/some.py:listed", "--cluster", "virtual", "--json"]
    chosen = ["--code", "fractional_repetition:load=3", "--law", "deterministic"]
    status, out, _ = run(*where, "--profile", EXAMPLE, *chosen, "--record", record)
    assert status == 0
    assert json.loads(out)["jobs"][0]["failed"] is None
    assert len(read_record(record).rounds) == 3
    for options, said in (
        (["--workers", 2, "--law", "pareto"], "law: 'pareto' is not allowed without --profile or --emulate"),
        (["--workers", 2, "--code", "cyclic:rows=5,load=2"], "code: 5 parts are not allowed; must be 12"),
    ):
        status, _, err = run(*where, *options)
        assert status == 2
        assert said in err
    planned = f"{tmp_path}/some.py:planned"
    status, _, err = run("run", planned, "--cluster", "virtual", "--workers", 2, "--code", "cyclic")
    assert status == 2
    assert "code: not allowed together with a plan" in err
