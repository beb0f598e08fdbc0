"""CONTRIBUTING.md, followed to the letter: its file and its one line, in a copy of the package."""

import re
import shutil
import subprocess
import sys

from tests.conftest import ROOT


def test_the_law_in_contributing_passes_the_conformance_suite(tmp_path):
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    law, line = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]
    assert line.count("\n") == 1
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    folder = tmp_path / "src" / "echelon" / "delays"
    (folder / "weibull.py").write_text(law, encoding="utf-8")
    registry = (folder / "__init__.py").read_text(encoding="utf-8")
    start = "DELAYS: dict[str, type[Delay]] = {\n"
    assert registry.count(start) == 1
    (folder / "__init__.py").write_text(registry.replace(start, start + line), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/delays/test_conformance.py"]
    run = subprocess.run(
        [*command, "-k", "weibull", "-rA"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path / 'src'}:{tmp_path}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("[weibull]") >= 10
