"""Every example computes what plain NumPy does, whichever workers compute it; a new file is picked up by itself."""

import importlib.util
import sys
from contextlib import nullcontext

import cloudpickle
import numpy as np
import pytest

import echelon as ec
from tests.conftest import ROOT

RELATIVE = 1e-9
ABSOLUTE = 1e-11  # for what ends near 0, such as residuals


def load(path):
    """Return an example as a module, whose functions travel to worker processes by value."""
    name = f"examples_jobs_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    return module


EXAMPLES = {path.stem: load(path) for path in sorted((ROOT / "examples" / "jobs").glob("*.py"))}
every_example = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)


def leaves(tree, at=""):
    """Return the arrays of dicts, lists and tuples, by where they are."""
    if isinstance(tree, dict):
        return {where: leaf for key in tree for where, leaf in leaves(tree[key], f"{at}[{key!r}]").items()}
    if isinstance(tree, list | tuple):
        return {where: leaf for i, item in enumerate(tree) for where, leaf in leaves(item, f"{at}[{i}]").items()}
    return {at: np.asarray(tree)}


def differences(found, wanted):
    """Return where two results differ, in shape or by more than the tolerances."""
    ours, theirs = leaves(found), leaves(wanted)
    assert ours.keys() == theirs.keys()
    return [
        at
        for at, leaf in theirs.items()
        if ours[at].shape != leaf.shape or not np.allclose(ours[at], leaf, rtol=RELATIVE, atol=ABSOLUTE)
    ]


@pytest.fixture(scope="module")
def threads():
    with ec.Stream("threads", workers=3, redundancy=1.3) as stream:
        yield stream


def test_there_are_at_least_eight_examples():
    assert len(EXAMPLES) >= 8


@every_example
def test_threads_give_the_result_and_the_iterations_of_plain_numpy(example, threads):
    delivery = threads.submit(example.job()).delivery(timeout=60)
    assert delivery.error is None
    wanted, iterations = example.plain()
    assert differences(delivery.result, wanted) == []
    assert delivery.iterations == iterations
    assert delivery.error_estimate.relative_to_terms < RELATIVE


@every_example
def test_another_seed_gives_another_result(example, threads):
    other = threads.submit(example.job(seed=2)).result(timeout=60)
    assert differences(other, example.plain(seed=2)[0]) == []
    assert differences(other, example.plain(seed=1)[0]) != []


def test_a_stream_of_all_examples_on_processes_is_delivered_in_order_of_submission():
    with ec.Stream("processes", workers=2) as stream:
        handles = [stream.submit(example.job()) for example in EXAMPLES.values()]
        deliveries = list(stream.deliveries())
    assert [delivery.number for delivery in deliveries] == [handle.number for handle in handles]
    for example, delivery in zip(EXAMPLES.values(), deliveries, strict=True):
        assert delivery.error is None
        wanted, iterations = example.plain()
        assert differences(delivery.result, wanted) == [], delivery.name
        assert delivery.iterations == iterations, delivery.name


@every_example
def test_an_example_prints_how_its_job_went(example, threads, monkeypatch, capsys):
    monkeypatch.setattr(ec, "Stream", lambda workers: nullcontext(threads))  # new processes would take a second each
    example.main()
    went, difference = capsys.readouterr().out.splitlines()
    assert "delay" in went
    assert f"{example.plain()[1]} iterations, error" in went
    said, _, number = difference.partition(": ")
    assert said == "largest difference from plain NumPy"
    assert float(number) < 1e-8
