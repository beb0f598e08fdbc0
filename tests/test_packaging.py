"""What is published: the names, the floors, and which files are in the wheel and in the source archive."""

import re
import tarfile
import tomllib
import zipfile

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import echelon as ec
from echelon.page.one_file import ASSETS
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_distribution_is_not_called_echelon_which_is_taken():
    assert PROJECT["name"] == "echelon-compute"
    assert PROJECT["version"] == ec.__version__


def test_extras_have_floors_and_the_pins_are_in_the_constraints_alone():
    wanted = PROJECT["dependencies"] + [need for extra in PROJECT["optional-dependencies"].values() for need in extra]
    assert [need for need in wanted if not re.fullmatch(r"[\w-]+>=[\d.]+", need)] == []
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []
    pinned = {pin.partition("==")[0].lower() for pin in pins}
    assert {need.partition(">=")[0] for need in wanted} <= pinned


def test_the_pythons_and_the_addresses_are_told():
    told = {line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line}
    assert told == {"3.11", "3.12", "3.13"}
    assert {"Documentation", "Source", "Changelog", "Issues"} <= set(PROJECT["urls"])


def test_the_wheel_holds_the_package_its_mark_of_types_and_nothing_else(tmp_path):
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    held = [name for name in zipfile.ZipFile(built).namelist() if ".dist-info/" not in name]
    assert "echelon/py.typed" in held
    assert {"echelon/cli/demo.py", "echelon/cli/demo_job.py", "echelon/stream/stream.py"} <= set(held)
    page = {f"echelon/page/assets/{name}" for name in ("page.html", "page.css", *ASSETS)}
    assert {name for name in held if "/assets/" in name} == page
    others = set(held) - page
    assert [name for name in others if not re.fullmatch(r"echelon/(\w+/)*(\w+\.py|py\.typed)", name)] == []


def test_the_source_archive_holds_what_its_tests_need_and_no_caches(tmp_path):
    (built,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(built) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt", "src/echelon/py.typed"}
    assert wanted | {"tests/conftest.py", "bench/__main__.py", "docs/conf.py", "examples/digits.py"} <= held
    assert {f"src/echelon/page/assets/{name}" for name in ("page.html", "page.css", *ASSETS)} <= held
    assert [name for name in held if re.search(r"(^|/)(\.\w+|__pycache__|build|dist|demo)/|\.pyc$", name)] == []


@pytest.mark.parametrize("folder", ["src", "docs"])
def test_every_text_that_names_an_extra_names_one_that_can_be_installed(folder):
    named = [
        (path.name, *found)
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in {".py", ".md"}
        for found in re.findall(r"\b(echelon[\w-]*)\[(\w+)\]'", path.read_text(encoding="utf-8"))
    ]
    assert named
    for path, name, extra in named:
        assert name == PROJECT["name"], path
        assert extra in PROJECT["optional-dependencies"], path
