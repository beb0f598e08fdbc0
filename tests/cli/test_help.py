"""Help: what each command is for is said in one place, its example runs, and asking for help loads next to nothing."""

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from echelon.cli import COMMANDS
from tests.conftest import ROOT


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_with_the_first_line_of_its_docstring_and_shows_its_example(name, run):
    line, example = COMMANDS[name]
    assert getattr(import_module(f"echelon.cli.{name}"), name).__doc__.splitlines()[0] == line
    code, out, _ = run(name, "--help")
    assert code == 0
    assert f"Example: {example}" in " ".join(out.split())


def test_every_command_has_its_module():
    modules = {path.stem for path in (ROOT / "src" / "echelon" / "cli").glob("*.py")}
    shared = {"__init__", "chains", "choices", "console", "demo_job", "options", "scheme_report", "what_if_report"}
    assert modules - set(COMMANDS) == shared


def test_the_examples_run_one_after_another(tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name, (_, example) in COMMANDS.items():
        if name not in ("reproduce", "watch"):  # `make reproduce` runs all of it, for minutes; the other ends by Ctrl-C
            program, *arguments = example.split()
            ended = subprocess.run(
                [Path(sys.executable).with_name(program), *arguments],
                cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
            )  # fmt: skip
            assert ended.returncode == 0, (example, ended.stderr)
    assert (tmp_path / "advice.png").read_bytes().startswith(b"\x89PNG")


def test_help_loads_no_numbers():
    lines = ["import sys", "sys.argv[1:] = ['--help']", "from echelon.cli import main", "try: main()"]
    code = "\n".join([*lines, "finally: print(*sys.modules)"])
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "torch", "ray", "matplotlib"} & set(ended.stdout.split())


def test_an_unknown_command_is_one_clear_error(run):
    code, _, err = run("plann")
    assert code == 2
    assert "No such command" in err
