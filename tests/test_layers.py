"""The layers of docs/architecture.md: a module imports only from lines below its own."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "echelon"

# Top line first, as in docs/architecture.md; names that do not exist yet are the plan for them.
LAYERS = [
    {"cli"},
    {"papers"},
    {"page"},
    {"plots"},
    {"torch", "sklearn", "operators"},
    {"products"},
    {"stream", "files"},
    {"search"},
    {"prediction"},
    {"job_delay", "blocks"},
    {"jobs"},
    {"clusters", "simulation"},
    {"master"},
    {"schemes"},
    {"stragglers"},
    {"splits", "theory", "codes", "delays", "estimate"},
    {"plan", "profile_toml", "ports"},
    {"profile", "endings"},
    {"linalg", "seeds", "trees", "closing", "spec", "can", "cause"},
    {"checks"},
    {"arrays"},
    {"errors", "html", "reprs"},
]
HEIGHT = {name: -i for i, names in enumerate(LAYERS) for name in names}
MAY_NAME_TIME_AND_FILES = {
    "cli", "papers", "plots", "torch", "sklearn", "operators", "stream", "files", "clusters", "products", "page",
}  # fmt: skip
OUTSIDE_WORLD = {
    "time", "random", "os", "pathlib", "socket", "subprocess", "multiprocessing", "threading", "secrets",
    "tempfile", "shutil", "asyncio", "signal", "datetime",
}  # fmt: skip
ENGINES = {"ray", "mpi4py", "torch", "sklearn"}
AMONG_CLUSTERS = {"mpi4py": "mpi", "ray": "ray", "torch": "cuda"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Return the full names of all modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def unit(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_lines_below_its_own(path: Path):
    name = unit(path)
    if name == "__init__":
        return
    assert name in HEIGHT, f"{name} is on no line of the layers"
    for imported in imports(path):
        parts = imported.split(".")
        if parts[0] != "echelon":
            continue
        # the package itself holds everything, so it counts as the top; only the command line asks it for its version
        other = parts[1] if len(parts) > 1 else "cli"
        if other != name and other in HEIGHT:
            assert HEIGHT[other] < HEIGHT[name], f"{name} must not import {imported}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_time_chance_files_and_engines_are_named_only_where_allowed(path: Path):
    named = {imported.split(".")[0] for imported in imports(path)}
    if unit(path) not in MAY_NAME_TIME_AND_FILES:
        assert not named & OUTSIDE_WORLD
    # an engine has its own module, or files of its own among the clusters
    homes = {engine for engine, start in AMONG_CLUSTERS.items() if path.name.startswith(start)}
    assert not named & ENGINES - {unit(path)} - (homes if unit(path) == "clusters" else set())


def test_seeds_become_chance_in_one_place_only():
    makers = {"default_rng", "SeedSequence", "SFC64", "PCG64", "RandomState", "MT19937", "Philox"}
    for path in MODULES:
        if unit(path) == "papers" or path.name == "seeds.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not named & makers, path


def test_the_layers_are_those_of_the_documentation():
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = page.split("## Layers")[1].split("```")[1]
    lines = [line[:48].replace("[", "").replace("]", "").split() for line in block.strip().splitlines()]
    assert [set(line) for line in lines] == LAYERS


def test_import_pulls_in_no_plotting_command_line_or_engine_package():
    code = "import echelon, sys; print(' '.join(sys.modules))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    heavy = {"matplotlib", "typer", "rich", "simpy", "numba", "scipy.optimize", "scipy.stats", "scipy.signal"} | ENGINES
    assert not loaded & heavy


STREAM = """
import sys
from echelon import Stream
Stream
early = set(sys.modules)
from echelon import SumJob
job = SumJob(partial=lambda w, x: x * w, update=lambda w, total: total, state=1.0, chunks=[1.0, 2.0], iterations=2)
with Stream(CLUSTER, workers=1) as stream:
    assert stream.submit(job).result() == 9.0
print(*(name.split(".")[1] for name in early | set(sys.modules) if name.startswith("echelon.")))
"""
STUDY = {
    "search",
    "theory",
    "blocks",
    "papers",
    "simulation",
    "prediction",
    "job_delay",
    "plots",
    "page",
}


@pytest.mark.parametrize("cluster", ["threads", "processes", "virtual"])
def test_a_stream_that_runs_a_job_loads_nothing_of_the_study_half_and_no_page(cluster):
    code = STREAM.replace("CLUSTER", repr(cluster))
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert {"stream", "clusters", "master"} <= loaded
    assert not loaded & STUDY


def test_time_is_read_only_by_clusters_and_by_who_waits_or_measures():
    """The driver, the master and the evaluators read no clock: the cluster has one."""
    for path in MODULES:
        if "time" in {imported.split(".")[0] for imported in imports(path)}:
            assert unit(path) in MAY_NAME_TIME_AND_FILES
            assert path.name not in ("driver.py", "turning.py", "deliverer.py", "pacing.py", "journal.py", "record.py")
