"""Codes on a recorded table: the times that plain computations give, by the evaluators and in virtual time."""

import numpy as np
import pytest

from bench import lambda_codes
from echelon.delays import RecordedTimes
from echelon.errors import ArgumentError
from echelon.papers.trace_codes import Recording
from echelon.papers.traces import recorded


@pytest.fixture(scope="module")
def cnn():
    return Recording(recorded("cnn"))


def drawn(workers, rounds=7, seed=3):
    """Return a table of some rounds at loads 0 and 1, and the same as numbers."""
    rng = np.random.default_rng(seed)
    idle = 0.5 + rng.exponential(1.0, (rounds, workers))
    return {0.0: idle, 1.0: idle + 2.0}, idle


def by_groups(times, copies):
    """Return the first of each group in each round, the last of these, over all rounds."""
    return float(times.reshape(len(times), copies, -1).min(axis=1).max(axis=1).sum())


def test_the_table_gives_what_was_computed_of_it_beforehand(cnn):
    found = cnn.figures()
    assert found.slope == pytest.approx(1.127, abs=1e-3)
    assert found.uncoded == pytest.approx(48.240, abs=1e-3)
    assert (found.cyclic.s, found.cyclic.seconds) == (35, pytest.approx(27.541, abs=1e-3))
    assert found.repetition["4"] == pytest.approx(22.643, abs=1e-3)
    assert found.repetition["8"] == pytest.approx(20.540, abs=1e-3)
    assert found.graph["8"] <= 20.8
    assert found.median == pytest.approx(19.68, abs=0.01)
    assert found.graph["8"] > found.median


@pytest.mark.parametrize("make", ["uncoded", "cyclic", "repetition 4", "repetition 8", "graph 8"])
def test_the_master_takes_as_long_in_virtual_time(cnn, make):
    name, _, copies = make.partition(" ")
    placed = cnn.cyclic(35) if name == "cyclic" else getattr(cnn, name)(*([int(copies)] if copies else []))
    stated = {"uncoded": 48.240, "cyclic": 27.541, "repetition 4": 22.643, "repetition 8": 20.540}
    took = cnn.in_virtual_time(placed)
    assert took == pytest.approx(cnn.seconds(placed), abs=5e-4)
    assert abs(took - stated[make]) <= 1e-3 if make in stated else took <= 20.8


@pytest.mark.parametrize("workers", [2, 7, 12, 30])
def test_any_number_of_workers_and_rounds_gives_what_sorting_gives(workers):
    tables, idle = drawn(workers)
    found = Recording(RecordedTimes(tables)).figures()
    share = found.slope / workers
    assert (found.rounds, found.slope) == (7, pytest.approx(2.0))
    assert found.uncoded == pytest.approx((idle + share).max(axis=1).sum())
    by_spare = [(np.sort(idle, axis=1)[:, workers - 1 - s] + share * (s + 1)).sum() for s in range(workers)]
    assert (found.cyclic.s, found.cyclic.seconds) == (np.argmin(by_spare), pytest.approx(min(by_spare)))
    assert found.median == pytest.approx(np.median(idle + share, axis=1).sum())
    assert set(found.repetition) == {str(c) for c in (2, 3, 4, 5, 6, 8, 10, 12, 16) if workers % c == 0}
    for copies, seconds in found.repetition.items():
        assert seconds == pytest.approx(by_groups(idle + int(copies) * share, int(copies)))


def test_a_graph_ends_with_the_first_rows_whose_span_has_the_sum():
    """Twelve workers, by ranks of the rows that came."""
    tables, idle = drawn(12)
    recording = Recording(RecordedTimes(tables))
    assert set(recording.figures().graph) == {"2", "3", "4"}
    placed = recording.graph(4, seed=2)
    matrix = placed.plan.codes[0].matrix
    total = 0.0
    for times in idle + recording.slope * 4 / 12:
        order = np.argsort(times)
        for count in range(1, 13):
            held = matrix[order[:count]]
            rank = np.linalg.matrix_rank(held)
            if np.linalg.matrix_rank(np.vstack([held, np.ones(6)])) == rank:
                break
        total += times[order[count - 1]]
    assert recording.seconds(placed) == pytest.approx(total)


def test_the_bench_tries_the_same_codes(cnn):
    tried = lambda_codes.tried()
    assert set(lambda_codes.VIRTUAL) < set(tried)
    assert cnn.seconds(tried["graph, 8 copies"]) == cnn.figures().graph["8"]


def test_an_installed_package_without_the_table_says_what_to_give(monkeypatch, tmp_path):
    from echelon.papers import traces

    monkeypatch.setattr(traces, "__file__", str(tmp_path / "a" / "b" / "c" / "traces.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=r"run in a checkout of the project, or give --table FILE\.npz"):
        traces.recorded("cnn")
