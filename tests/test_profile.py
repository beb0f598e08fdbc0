import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echelon as ec
from echelon import profile_toml

GOOD = """
[workload]
critical = 50
redundancy = 1.1
operations = 2827440
iterations = 50
arrivals = 0.01
[[worker]]
name = "w1"
rate = 5.29e7
link = 0.0481
[[worker]]
name = "w2"
mean = 0.05
std = 0.02
link = 0
"""


def test_the_example_of_the_paper_reads_as_printed(example2):
    assert example2.names == ["w1", "w2", "w3", "w4", "w5"]
    assert example2.workload.tasks == 55
    np.testing.assert_allclose(example2.speeds.mean[0], 2827440 / 5.29e7)
    np.testing.assert_array_equal(example2.speeds.mean, example2.speeds.std)
    assert example2.workload.arrivals.second == 20_000


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("critical = 50\n", "", "x.toml: workload.critical: missing"),
        ("redundancy = 1.1\n", "", "x.toml: workload.redundancy: missing"),
        ("iterations = 50\n", "", "x.toml: workload.iterations: missing"),
        ("operations = 2827440\n", "", "x.toml: workload.operations: missing"),
        ("arrivals = 0.01\n", "", "x.toml: workload.arrivals: missing"),
        ('name = "w1"\n', "", "x.toml: worker[1].name: missing"),
        ("link = 0.0481\n", "", "x.toml: worker[1].link: missing"),
        ("rate = 5.29e7\n", "", "x.toml: worker[1].mean, std: missing"),
        ("std = 0.02\n", "", "x.toml: worker[2].mean, std: missing"),
        (
            "critical = 50",
            "critical = 50.5",
            "x.toml: workload.critical: 50.5 is not allowed; must be a whole number >= 1",
        ),
        ("critical = 50", "critical = true", "x.toml: workload.critical: True is not allowed"),
        ("critical = 50", "critical = 0", "x.toml: workload.critical: 0 is not allowed"),
        ("redundancy = 1.1", "redundancy = 0.9", "x.toml: workload.redundancy: 0.9 is not allowed; must be >= 1"),
        ("redundancy = 1.1", "redundancy = nan", "x.toml: workload.redundancy: nan is not allowed"),
        ("redundancy = 1.1", 'redundancy = "a"', "x.toml: workload.redundancy: 'a' is not allowed"),
        (
            "arrivals = 0.01",
            "arrivals = -1",
            "x.toml: workload.arrivals: -1 is not allowed; must be a finite number > 0",
        ),
        ("arrivals = 0.01", "arrivals = inf", "x.toml: workload.arrivals: inf is not allowed"),
        ("link = 0.0481", "link = -0.1", "x.toml: worker[1].link: -0.1 is not allowed; must be a finite number >= 0"),
        ("rate = 5.29e7", "rate = 0", "x.toml: worker[1].rate: 0 is not allowed"),
        ("rate = 5.29e7", "rate = 1\nmean = 2", "x.toml: worker[1].rate: 1 is not allowed together with mean"),
        ("mean = 0.05", "mean = inf", "x.toml: worker[2].mean: inf is not allowed"),
        ("std = 0.02", "std = -1", "x.toml: worker[2].std: -1 is not allowed"),
        ("std = 0.02", "std = 0.02\ncolour = 1", "x.toml: worker[2].colour: unknown key; must be one of name, rate"),
        ("iterations = 50", "iterations = 50\nspeed = 1", "x.toml: workload.speed: unknown key"),
        ("[workload]", "x = 1\n[workload]", "x.toml: x: unknown key; must be one of workload, worker"),
        ('name = "w2"', 'name = "w1"', "x.toml: worker[2].name: 'w1' is the name of worker[1] too"),
        ('name = "w2"', 'name = ""', "x.toml: worker[2].name: '' is not allowed"),
        ("[workload]", "[workload", "x.toml: not valid TOML"),
        ("[workload]", "x = " + "[" * 3000 + "\n[workload]", "x.toml: not valid TOML"),
        ("critical = 50", "critical = " + "9" * 5000, "x.toml: not valid TOML"),
        (
            "critical = 50",
            "critical = 1" + "0" * 20,
            "x.toml: workload.critical: 1" + "0" * 20 + " is not allowed; must be at",
        ),
        (
            "arrivals = 0.01",
            "arrivals = 1e-200",
            "x.toml: workload.arrivals: 1e-200 is not allowed; must be a finite number",
        ),
        ("redundancy = 1.1", "redundancy = 1e308", "x.toml: workload.redundancy: 1e+308 is not allowed"),
        ("std = 0.02", "std = 1e-200", "x.toml: worker[2].std: 1e-200 is not allowed"),
        ("rate = 5.29e7", "rate = 1e-29", "x.toml: worker[1].rate: a task's time, operations/rate: 2.8"),
        ("[workload]", '"a\\nb" = 1\n[workload]', r"x.toml: 'a\nb': unknown key"),
        ("arrivals = 0.01", "interarrival = { mean = 100 }", "x.toml: workload.interarrival.second: missing"),
        (
            "arrivals = 0.01",
            "interarrival = { mean = 100, second = 9000 }",
            "x.toml: workload.interarrival.second: 9000.0 is not allowed; must be at least mean squared",
        ),
        ("arrivals = 0.01", "interarrival = { times = [1, -2] }", "x.toml: workload.interarrival.times[1]: -2"),
        ("arrivals = 0.01", "interarrival = 7", "x.toml: workload.interarrival: must be"),
        (
            "arrivals = 0.01",
            "arrivals = 1\ninterarrival = 7",
            "x.toml: workload.arrivals: given together with interarrival",
        ),
    ],
)
def test_a_wrong_profile_is_one_line_that_names_file_key_and_what_is_allowed(old, new, said):
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    with pytest.raises(ec.errors.ProfileError) as caught:
        profile_toml.parse(text, "x.toml")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_an_empty_worker_list_is_refused():
    with pytest.raises(ec.errors.ProfileError, match="worker: the list is empty"):
        profile_toml.parse("worker = []\n" + GOOD.split("[[worker]]")[0], "x.toml")


def test_an_unknown_law_is_refused_when_laws_are_made():
    profile = profile_toml.parse(GOOD.replace("std = 0.02", 'std = 0.02\nlaw = "magic"'), "x.toml")
    with pytest.raises(ec.errors.ProfileError, match=r"x.toml: worker\[2\].law: 'magic' is not allowed"):
        ec.delays.task_laws(profile)


@pytest.mark.parametrize(
    "arrivals", ["arrivals = 0.01", "interarrival = { mean = 3, second = 10 }", "interarrival = { times = [1, 2.5] }"]
)
def test_writing_and_reading_gives_the_same_profile(arrivals):
    text = GOOD.replace("arrivals = 0.01", arrivals)
    text = text.replace("std = 0.02", 'std = 0.02\nlaw = "straggler"\nparameters = { probability = 0.1 }')
    profile = profile_toml.parse(text)
    assert profile_toml.parse(profile_toml.write(profile)) == profile


@given(name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), mean=st.floats(1e-12, 1e12))
def test_any_name_and_number_survive_writing(name, mean):
    job = ec.Workload(critical=3, redundancy=1.0, iterations=1, arrivals=ec.Arrivals.poisson(1.0))
    profile = ec.Profile(job, [ec.Worker(name, mean=mean, std=0.0)])
    assert profile_toml.parse(profile_toml.write(profile)) == profile


def test_redundancy_is_rounded_and_never_cut():
    job = ec.Workload(critical=50, redundancy=1.1, iterations=1, arrivals=ec.Arrivals.poisson(1.0))
    assert job.tasks == 55  # 50 * 1.1 is 55.00000000000001 in floats
    assert ec.Workload(critical=1000, redundancy=1.06, iterations=1, arrivals=job.arrivals).tasks == 1060


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ec.errors.ProfileError, match=r"no\.toml: can't be read: No such file"):
        ec.read_profile(tmp_path / "no.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xff")
    with pytest.raises(ec.errors.ProfileError, match=r"latin\.toml: not UTF-8 text"):
        ec.read_profile(tmp_path / "latin.toml")


def test_a_profile_is_written_to_and_read_from_a_file(tmp_path, example2):
    ec.write_profile(example2, tmp_path / "p.toml")
    assert ec.read_profile(tmp_path / "p.toml") == example2


def test_numbers_of_any_kind_are_kept_as_plain_ones():
    job = ec.Workload(
        critical=np.int64(3), redundancy=np.float32(1.5), iterations=np.int8(2), arrivals=ec.Arrivals(mean=2, second=5)
    )
    profile = ec.Profile(job, [ec.Worker("a", mean=np.float32(0.5), std=np.int64(1))])
    assert profile_toml.parse(profile_toml.write(profile)) == profile


def test_costs_are_written_read_and_scaled(example2, tmp_path):
    profile = dataclasses.replace(example2, costs=ec.Costs(message=1e-4, round=2e-3, combining=1e-10))
    ec.write_profile(profile, tmp_path / "p.toml")
    assert ec.read_profile(tmp_path / "p.toml").costs == profile.costs
    assert "bandwidth" not in (tmp_path / "p.toml").read_text()
    costs = ec.Costs(message=1e-4, round=2e-3, bandwidth=1e6, combining=1e-10, port=1e8, plane="responders")
    small = dataclasses.replace(profile, costs=costs).scaled(0.1).costs
    *numbers, plane = dataclasses.astuple(small)
    assert numbers == pytest.approx([1e-5, 2e-4, 1e7, 1e-11, 1e9])
    assert plane == "responders"


def test_ports_and_planes_are_written_and_read(example2, tmp_path):
    assert (ec.Costs().port, ec.Costs().plane) == (float("inf"), "master")
    profile = dataclasses.replace(example2, costs=ec.Costs(port=1.25e9, plane="responders"))
    ec.write_profile(profile, tmp_path / "p.toml")
    assert ec.read_profile(tmp_path / "p.toml") == profile
    assert 'port = 1250000000.0\nplane = "responders"\n' in (tmp_path / "p.toml").read_text()


@pytest.mark.parametrize(
    "line",
    [
        "message = -1", "bandwidth = 0", 'round = "x"', "combining = inf", "other = 1", "port = 0", 'port = "x"',
        'plane = "workers"', "plane = 1",
    ],
)  # fmt: skip
def test_costs_that_can_not_be_are_refused(line, example2, tmp_path):
    path = tmp_path / "p.toml"
    ec.write_profile(example2, path)
    path.write_text(path.read_text() + f"\n[costs]\n{line}\n")
    with pytest.raises(ec.errors.ProfileError, match=f"costs.{line.split()[0]}"):
        ec.read_profile(path)
