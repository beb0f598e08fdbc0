"""What the documentation says is what the code does: its commands are run, its profiles read, its names compared."""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path

import pytest
from docutils.utils.math.latex2mathml import tex2mathml

import echelon as ec
from echelon import profile_toml
from echelon.cli import COMMANDS, _loaded
from echelon.delays import DELAYS, task_laws
from echelon.profile_toml import _WORKER_KEYS, _WORKLOAD_KEYS
from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGE = (DOCS / "profile.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>[^>]+) -->\n+)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
SHELLS = {"console", "sh", "bash"}


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    why: str | None  # it is not run

    @property
    def file(self) -> str | None:
        """The name of the file that a listing is to be saved as, from its first line."""
        found = re.match(r"# ([\w-]+\.(?:py|toml|sh))\n", self.text)
        return found[1] if found else None

    def commands(self) -> Iterator[tuple[str, str]]:
        for entry in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, output = entry.partition("\n")
            yield command, output


def blocks(page: Path) -> list[Block]:
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(block["kind"], block["text"], block["why"]) for block in found]


def runs(page: Path) -> bool:
    return any(block.kind == "console" and block.why is None for block in blocks(page))


@pytest.mark.parametrize("page", [page for page in PAGES if runs(page)], ids=lambda page: str(page.relative_to(DOCS)))
def test_commands_print_what_the_page_shows(page, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for block in blocks(page):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        if block.kind != "console" or block.why is not None:
            continue
        for command, shown in block.commands():
            run = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=120,
            )
            assert run.returncode == 0, f"{command}\n{run.stdout}"
            alike = doctest.OutputChecker().check_output(
                shown, run.stdout, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            )
            assert alike, f"{command}\nshown:\n{shown}\nprinted:\n{run.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_commands_that_no_test_runs_say_why(page):
    for block in blocks(page):
        if block.kind in SHELLS and block.file is None:
            assert block.kind == "console" or block.why is not None, block.text


@pytest.mark.parametrize("page", FRONT + PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_pages_and_files_lead_somewhere(page):
    prose = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", FRONT + PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_a_page_names_exist_with_their_options(page):
    text = page.read_text(encoding="utf-8").partition("<!-- bench: begin -->")[0]
    for command, rest in re.findall(r"(?<![\w.])echelon (\w+)((?: +[^\s`#|;)]+)*)", text):
        options = set(re.findall(r" (--[\w-]+)", rest))
        if command in COMMANDS:
            known = {option for parameter in _loaded(command).params for option in parameter.opts}
            assert options <= known, f"echelon {command}: {options - known}"
        else:
            assert not options, f"echelon {command}{rest}"  # it was a sentence


def test_the_readme_is_read_in_one_sitting():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_readme_makes_an_environment_before_it_uses_the_command():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.index("/bin/activate") < re.search(r"^(?:mpiexec .*)?echelon ", text, re.MULTILINE).start()


def test_every_logger_is_on_the_page_of_the_live_runtime():
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    names = {name for source in sources for name in re.findall(r'getLogger\("([\w.]+)"\)', source)}
    assert names
    assert names <= set(re.findall(r"^\| `([\w.]+)` \|", (DOCS / "live.md").read_text(encoding="utf-8"), re.MULTILINE))


def test_the_reference_lists_every_public_name_and_no_other():
    page = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`ec\.(\w+) <", page)) == set(ec.__all__)


def test_every_package_has_a_page_in_the_reference():
    packages = {path.parent.name for path in (ROOT / "src" / "echelon").glob("*/__init__.py")}
    pages = {page.stem for page in (DOCS / "reference").glob("*.md")}
    assert pages - {"index", "planning"} == packages - {"cli", "papers"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_formulas_can_be_written_as_mathml(page):
    prose = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for block, inline in re.findall(r"\$\$(.+?)\$\$|\$([^$]+)\$", prose, re.DOTALL):
        assert "<math" in tex2mathml(block or inline, as_block=bool(block))


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def keys(text: str) -> set[str]:
    return {key for row in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)}


def test_every_key_is_listed_and_no_other():
    assert keys(section("`[workload]`")) == set(_WORKLOAD_KEYS)
    assert keys(section("`[[worker]]`")) == set(_WORKER_KEYS)


def test_every_law_is_listed_with_its_parameters():
    text = section("Laws")
    example = re.findall(r'^    "(\w+)": _law', (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert keys(text) == set(DELAYS) - set(example)  # whoever follows that page adds a file and a line, and no row
    for name in keys(text):
        family = DELAYS[name]
        row = re.search(rf"^\| `{name}` \|.*$", text, re.MULTILINE).group()
        for parameter, kind in signature(family.fit).parameters.items():
            inherited = name == "fritchman" or (name == "gilbert_elliott" and parameter == "states")
            if kind.kind is Parameter.KEYWORD_ONLY and not inherited:
                assert f"`{parameter} = " in row


def test_the_pool_on_the_page_can_be_read():
    profile = profile_toml.parse(re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL).group(1))
    assert [law.mean for law in task_laws(profile)] == pytest.approx(profile.speeds.mean.tolist())


def test_every_test_that_the_page_on_survival_names_exists():
    page = (DOCS / "survives.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (?!what happens|---)(.+) \|$", page, re.MULTILINE)
    assert len(lines) > 30
    for line in lines:
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`$", line), line
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", page):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), f"{path}::{name}"


def test_what_others_loops_look_like_is_python_at_least():
    listings = [block.text for block in blocks(DOCS / "guide" / "coming_from.md") if block.kind == "python"]
    assert len(listings) == 2
    for text in listings:
        compile(text, "coming_from.md", "exec")
