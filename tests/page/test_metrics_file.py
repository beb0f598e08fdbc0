"""Metrics as a file: there from the beginning, whole at any time, and never to the harm of the stream."""

import logging
import os
import time

import numpy as np
import pytest

import echelon as ec
from echelon.errors import ArgumentError
from echelon.page.metrics_file import MetricsFile
from tests.page.parsed import families, totals
from tests.stream.jobs import sum_job, sum_result


def waited_for(what, seconds=30):
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def messages(caplog):
    return [text for text in map(logging.LogRecord.getMessage, caplog.records) if "metrics" in text]


def test_the_file_is_there_when_the_stream_is_open_and_holds_the_last_counts_when_it_is_closed(tmp_path):
    path = tmp_path / "echelon.prom"
    with ec.Stream("virtual", workers=2, redundancy=1.0, metrics=path) as stream:
        assert totals(path.read_text())["echelon_jobs_submitted_total"] == 0
        stream.submit(sum_job()).result()
    found = totals(path.read_text())
    assert (found["echelon_jobs_submitted_total"], found["echelon_round_seconds_count"]) == (1, 8)
    assert os.listdir(tmp_path) == ["echelon.prom"]


def test_workers_have_the_names_of_the_profile(tmp_path, example2):
    path = tmp_path / "echelon.prom"
    with ec.Stream("virtual", profile=example2, emulate=example2, metrics=str(path)) as stream:
        stream.submit(sum_job()).result()
    samples = families(path.read_text())["echelon_worker_up"].samples
    assert [(sample.labels["worker"], sample.value) for sample in samples] == [(name, 1) for name in example2.names]


def test_it_is_written_again_and_again_while_the_stream_goes_on(tmp_path):
    path = tmp_path / "echelon.prom"
    file = MetricsFile(path, every_s=0.01)
    file.worker_up(0.0, 0, 0)
    waited_for(lambda: totals(path.read_text()).get("echelon_worker_up") == 1)
    file.worker_down(1.0, 0, 0, "killed")
    waited_for(lambda: totals(path.read_text()).get("echelon_worker_losses_total") == 1)
    file.close()
    file.close()


def test_the_file_stays_where_it_is_when_the_program_changes_its_folder(tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    with ec.Stream("virtual", workers=1, metrics="echelon.prom") as stream:
        monkeypatch.chdir(folder)
        stream.submit(sum_job()).result()
    assert totals((tmp_path / "echelon.prom").read_text())["echelon_jobs_submitted_total"] == 1
    assert os.listdir(folder) == []


def test_a_disk_that_fails_is_told_once_and_the_file_comes_back_with_it(tmp_path, caplog):
    folder = tmp_path / "disk"
    folder.mkdir()
    file = MetricsFile(folder / "echelon.prom", every_s=0.01)
    for turn in range(2):
        folder.rename(tmp_path / f"gone {turn}")
        waited_for(lambda: messages(caplog))
        folder.mkdir()
        waited_for((folder / "echelon.prom").exists)
    file.close()
    (said,) = messages(caplog)
    assert said == f"metrics can't be written to {folder / 'echelon.prom'}: No such file or directory; the run goes on"


def test_a_stream_whose_metrics_cant_be_written_any_more_goes_on(tmp_path, caplog):
    folder = tmp_path / "disk"
    folder.mkdir()
    with ec.Stream("threads", workers=2, metrics=folder / "echelon.prom") as stream:
        folder.rename(tmp_path / "gone")
        np.testing.assert_allclose(stream.submit(sum_job()).result(), sum_result(), rtol=1e-9)
    assert len(messages(caplog)) == 1


@pytest.mark.parametrize("path", ["no/such/folder/echelon.prom", "/dev/full"])
def test_a_file_that_cant_be_written_is_refused_when_the_stream_opens(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=rf"metrics: '{path}' is not allowed; No "):
        ec.Stream("virtual", workers=1, metrics=path)


@pytest.mark.parametrize("other", ["journal", "record"])
def test_metrics_are_in_a_file_of_their_own(other, tmp_path):
    path = tmp_path / "one"
    with pytest.raises(ArgumentError, match=rf"metrics: .* must be another file than the {other}"):
        ec.Stream("virtual", workers=1, metrics=path, **{other: path})
    assert not path.exists()


@pytest.mark.parametrize("value", [9464, True, b"echelon.prom"])
def test_metrics_are_the_path_of_a_file(value):
    with pytest.raises(ArgumentError, match=r"metrics: .* must be the path of a file"):
        ec.Stream("virtual", workers=1, metrics=value)
