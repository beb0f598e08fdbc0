import runpy
import sys

from tests.conftest import ROOT


def test_the_demo_leaves_its_pictures_and_prints_both_delays(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo.py", "--out", str(tmp_path / "d"), "--seeds", "2"])
    runpy.run_path(str(ROOT / "examples" / "demo.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "148.40" in out
    assert "49.53" in out
    assert (tmp_path / "d" / "timeline.png").stat().st_size > 10_000
    assert (tmp_path / "d" / "delay.png").stat().st_size > 10_000
