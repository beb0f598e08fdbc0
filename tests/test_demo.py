import json
import runpy
import sys

import pytest

from echelon.cli import main
from tests.conftest import ROOT


def test_the_demo_runs_live_and_leaves_its_picture(tmp_path, monkeypatch, capsys):
    """A short version: the model's equality with a single process is asserted inside."""
    folder = tmp_path / "d"
    monkeypatch.setattr(sys, "argv", ["demo.py", "--out", str(folder), "--jobs", "3", "--scale", "0.01"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    runpy.run_path(str(ROOT / "examples" / "demo.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "13 18 7 3 14" in out
    assert "Every model equals that of a single process to 1e-8" in out
    assert (folder / "timeline.png").stat().st_size > 10_000

    monkeypatch.setattr(sys, "argv", ["echelon", "report", str(folder / "theorem2.run"), "--json"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert len(json.loads(capsys.readouterr().out)["jobs"]) == 3
