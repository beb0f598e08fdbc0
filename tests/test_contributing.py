"""CONTRIBUTING.md, followed to the letter: its files and their one line each, in a copy of the package."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests.conftest import ROOT

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
GUIDE = ROOT / "docs" / "guide" / "scheme.md"
QUICK = "--seeds 2 --jobs 5 --json"


@dataclass(frozen=True)
class Case:
    """A thing to add.

    page: where its file and its line are shown, `file` and `line` among the Python listings of the page.
    registry: how its registry begins, in `folder`. tests: that it must pass, `least` of them.
    commands: that know it from its line on; all of them print JSON.
    """

    page: object
    file: int
    line: int
    folder: str
    registry: str
    tests: str
    least: int
    commands: tuple[str, ...]


CASES = {
    "weibull": Case(
        CONTRIBUTING, 0, 1, "delays", "DELAYS: dict[str, type[Delay]] = {\n", "tests/delays/test_conformance.py", 10,
        (f"simulate four.toml --law weibull:shape=0.7 {QUICK}", "plan four.toml --law weibull:shape=0.7 --json"),
    ),
    "single_parity": Case(
        CONTRIBUTING, 2, 3, "codes", "CODES: dict[str, Callable[..., Code]] = {\n",
        "tests/codes/test_conformance.py", 8,
        (
            f"simulate four.toml --code single_parity {QUICK}",
            "plan four.toml --code single_parity:parts=30 --json",
            "run examples/jobs/page_rank.py:job --cluster virtual --workers 3 --code single_parity --json",
        ),
    ),
    "buddies": Case(
        GUIDE, 0, 2, "schemes", "SCHEMES: dict[str, Callable[..., Plan]] = {\n", "tests/schemes/test_conformance.py", 8,
        (f"simulate four.toml --scheme buddies {QUICK}", "plan four.toml --scheme buddies --json"),
    ),
    "grace": Case(
        CONTRIBUTING, 4, 5, "endings", "ENDINGS: dict[str, type[Ending]] = {\n", "tests/endings", 15,
        (f"simulate four.toml --scheme diagonal_interleaved:x=2,y=3,delay=2,waiting=grace {QUICK}",),
    ),
    "pinned": Case(
        CONTRIBUTING, 6, 7, "clusters", "CLUSTERS: dict[str, Kind] = {\n",
        "tests/clusters/test_conformance.py tests/clusters/test_loaded.py", 40,
        ("run examples/jobs/page_rank.py:job --cluster pinned --workers 2 --json",),
    ),
}  # fmt: skip


@pytest.fixture(params=CASES)
def added(request, tmp_path):
    """Return the name of a thing, its case, and what runs Python in a copy of the package that has it."""
    name, case = request.param, CASES[request.param]
    listings = re.findall(r"```python\n(.*?)```", case.page.read_text(encoding="utf-8"), re.DOTALL)
    source, line = listings[case.file], listings[case.line]
    assert line.count("\n") == 1
    for part in ("src", "tests", "examples", "bench"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "src" / "echelon" / case.folder
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    registry = (folder / "__init__.py").read_text(encoding="utf-8")
    assert registry.count(case.registry) == 1
    (folder / "__init__.py").write_text(registry.replace(case.registry, case.registry + line), encoding="utf-8")
    example = (tmp_path / "examples" / "example2.toml").read_text(encoding="utf-8")
    (tmp_path / "four.toml").write_text(example.rpartition("[[worker]]")[0], encoding="utf-8")

    def python(*arguments):
        environment = {"PYTHONPATH": f"{tmp_path / 'src'}:{tmp_path}", "PATH": ""}
        run = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    return name, case, python


def test_what_the_pages_add_is_tested_and_known_to_the_commands_from_its_line_on(added):
    name, case, python = added
    shown = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *case.tests.split(), "-k", name, "-rA")
    assert len(re.findall(rf"^PASSED .*\[.*{name}.*\]", shown, re.MULTILINE)) >= case.least
    main = "from echelon.cli import main; main()"
    registry = case.registry.partition(":")[0].lower()
    assert name in json.loads(python("-c", main, "schemes", "--json"))[registry]
    for command in case.commands:
        said = json.loads(python("-c", main, *command.split()))
        assert said["jobs"] if command.startswith("run") else said["iteration_mean"] > 0
