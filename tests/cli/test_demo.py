import json
import subprocess
import sys

from tests.conftest import ROOT


def test_the_demo_runs_live_and_leaves_its_picture(run, tmp_path):
    """A short version: the model's equality with a single process is asserted inside."""
    folder = tmp_path / "d"
    code, out, err = run("demo", "--out", folder, "--jobs", 3, "--scale", 0.01)
    assert (code, err) == (0, "")
    assert "13 18 7 3 14" in out
    assert "Every model equals that of a single process to 1e-8" in out
    assert (folder / "timeline.png").stat().st_size > 10_000
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 2_000_000
    assert '"split":"uniform"' in page
    assert len(json.loads(run("report", folder / "theorem2.run", "--json")[1])["jobs"]) == 3


def test_the_demo_needs_no_file_of_the_checkout_and_no_extra():
    """What it loads besides the package's own dependencies would be missing after a plain install."""
    lines = ["import sys", "import echelon.cli.demo, echelon.papers.stream_workers", "echelon.cli.demo.demo_job.job()"]
    code = "\n".join([*lines, "print(*sys.modules)"])
    loaded = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True).stdout
    assert not {"sklearn", "torch", "ray", "mpi4py", "pandas"} & set(loaded.split())
    for name in ("demo.py", "demo_job.py"):
        assert "examples" not in (ROOT / "src" / "echelon" / "cli" / name).read_text(encoding="utf-8")


def test_wrong_numbers_are_one_line_and_exit_code_2(run, tmp_path):
    for option, value in (("--jobs", 0), ("--scale", -1), ("--scale", "nan")):
        code, out, err = run("demo", "--out", tmp_path / "d", option, value)
        assert (code, out) == (2, "")
        assert err.startswith(f"echelon: {option[2:]}: ")
        assert err.count("\n") == 1
