"""What people see of a running stream."""

import logging
import sys
from io import StringIO

import numpy as np
from rich.console import Console

import echelon as ec
from echelon.stream.display import Display
from tests.stream.jobs import sum_job, sum_result


def test_the_display_shows_jobs_rounds_and_every_worker(capsys):
    with ec.Stream(cluster="threads", workers=2, redundancy=1.3, progress=True) as stream:
        np.testing.assert_allclose(stream.submit(sum_job(iterations=50)).result(), sum_result(iterations=50))
        (display,) = (told for told in stream._told._all if isinstance(told, Display))
        file = StringIO()
        Console(file=file, width=120).print(display._render())
        display.worker_down(0.0, 0, 1, "killed")
    text = file.getvalue()
    assert "0 jobs in the stream" in text
    assert "any 9 of 12 rows" in text
    assert "ms per round" in text
    assert "expected" in text
    for column in ("worker", "state", "rows", "results", "ms per part", "losses"):
        assert column in text
    assert text.count("idle") == 2


def test_log_lines_tell_it_where_there_is_no_terminal(caplog):
    with caplog.at_level(logging.INFO, logger="echelon"):
        with ec.Stream(cluster="threads", workers=1) as stream:
            stream.submit(sum_job(name="quiet")).result()
        assert stream._told._all == []
    assert any("quiet done after" in record.message for record in caplog.records)
    assert any("worker 0 (place 0) is ready" in record.message for record in caplog.records)


def test_without_linux_threads_are_used_and_it_is_said(monkeypatch, caplog):
    monkeypatch.setattr(sys, "platform", "darwin")
    with ec.Stream(workers=1) as stream:
        np.testing.assert_allclose(stream.submit(sum_job()).result(), sum_result())
    assert "processes.ProcessCluster needs Linux; threads.ThreadCluster is used instead" in caplog.text
