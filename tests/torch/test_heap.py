"""What a worker's process does with memory it frees."""

import ctypes
from types import SimpleNamespace

from echelon.torch.heap import keep_freed_memory


def test_both_thresholds_are_set_the_one_of_maps_first(monkeypatch):
    calls = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda *given: calls.append(given)))
    keep_freed_memory()
    assert calls == [(-3, 2**25), (-1, 2**30)]


def test_a_c_library_that_has_no_such_thresholds_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    keep_freed_memory()
