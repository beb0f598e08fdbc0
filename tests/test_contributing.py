"""The law in CONTRIBUTING.md is a real one: it is taken from the page and held to the conformance suite."""

import re

import pytest

from echelon import delays
from tests.conftest import ROOT
from tests.delays import test_conformance as suite

CHECKS = [
    getattr(suite, name)
    for name in dir(suite)
    if name.startswith("test_") and name != "test_a_parameter_that_no_law_knows_is_refused"
]


@pytest.fixture(scope="module")
def weibull():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    source = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Weibull" in block)
    module: dict[str, object] = {"__name__": "echelon.delays.weibull"}
    exec(compile(source, "CONTRIBUTING.md", "exec"), module)
    return module["Weibull"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_example_passes_the_conformance_suite(weibull, check):
    check(weibull.fit(suite.MEAN, suite.STD))


def test_one_line_makes_it_known_everywhere(weibull, monkeypatch, example2):
    monkeypatch.setitem(delays.DELAYS, "weibull", weibull)
    laws = delays.task_laws(example2, "weibull")
    assert [law.mean for law in laws] == pytest.approx(example2.speeds.mean.tolist())
    with pytest.raises(ValueError, match=r"parameters: .* are not allowed for law weibull"):
        delays.fit("weibull", 1.0, 1.0, flavour=3)
