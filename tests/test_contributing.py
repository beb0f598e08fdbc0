"""CONTRIBUTING.md, followed to the letter: its files and their one line each, in a copy of the package."""

import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

CASES = {  # the example's place on the page, its file, the start of the registry, tests, and how many must run
    "weibull": (0, "delays", "DELAYS: dict[str, type[Delay]] = {\n", "tests/delays/test_conformance.py", 10),
    "pinned": (
        2,
        "clusters",
        "CLUSTERS: dict[str, Kind] = {\n",
        "tests/clusters/test_conformance.py tests/clusters/test_loaded.py",
        40,
    ),
    "grace": (4, "endings", "ENDINGS: dict[str, type[Ending]] = {\n", "tests/endings/test_conformance.py", 7),
}


@pytest.mark.parametrize("name", CASES)
def test_the_examples_of_the_page_pass_the_conformance_suite(name, tmp_path):
    at, package, start, tests, least = CASES[name]
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    source, line = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[at : at + 2]
    assert line.count("\n") == 1
    for part in ("src", "tests", "examples", "bench"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "src" / "echelon" / package
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    registry = (folder / "__init__.py").read_text(encoding="utf-8")
    assert registry.count(start) == 1
    (folder / "__init__.py").write_text(registry.replace(start, start + line), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests.split(), "-k", name, "-rA"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path / 'src'}:{tmp_path}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    passed = re.findall(rf"^PASSED .*\[.*{name}.*\]", run.stdout, re.MULTILINE)
    assert len(passed) >= least
