"""Pictures say what is seen, in one way everywhere."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from echelon import plots
from echelon.stream.record import RecordedRound
from echelon.stream.timeline import record_timeline
from tests.stream.test_timeline import a_record

NAMES = ["a", "b", "c"]


def rounds(*finished, count=10):
    """Return the timeline of rounds in which each worker sends its one row after so many seconds."""
    last = max(finished)
    messages = sorted(((p, 0, p, at, at, 1.0) for p, at in enumerate(finished)), key=lambda message: message[3])
    lanes = {p: [1.0] for p in range(len(finished))}
    seen = [RecordedRound(0, i, i * last, (i + 1) * last, [3], lanes, messages) for i in range(count)]
    return record_timeline(a_record(*seen, losses=[(last, 1)]))


@pytest.mark.parametrize(
    ("finished", "words"),
    [
        ((1.0, 1.0, 4.0), "all wait for c (50% of the workers' time)"),
        ((1.0, 3.9, 4.0), "workers wait for one another (26% of their time)"),
        ((3.9, 4.0, 4.0), "no worker waits for long (1% of the time)"),
    ],
)
def test_a_title_says_whom_workers_wait_for(finished, words):
    assert plots.said(rounds(*finished), NAMES) == words


def test_panels_have_one_axis_of_time_and_a_legend_of_what_is_seen():
    drawn = plots.timelines({"above": rounds(1.0, 1.0, 4.0), "below": rounds(1.0, 1.0, 1.0)}, NAMES)
    above, below = drawn.axes
    assert above.get_title(loc="left").startswith("above: all wait for c")
    assert above.get_xlim() == below.get_xlim()
    assert below.get_xlim()[1] >= 40.0
    assert [label.get_text() for label in above.get_yticklabels()] == ["c", "b", "a"]
    words = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert words == ["useful work", "a round ends", "a job arrives", "and is delivered", "a worker dies"]


def test_jobs_that_arrive_nearly_together_share_a_number():
    assert plots._numbers([0.0, 0.1, 0.2, 50.0], 100.0) == [(0.0, "1–3"), (50.0, "4")]


def machado(rgb, matrix):
    """Return a colour as somebody sees it who lacks a kind of cones (Machado, Oliveira and Fernandes 2009)."""
    return np.clip(np.array(matrix) @ np.array(rgb), 0, 1)


@pytest.mark.parametrize(
    "matrix",
    [
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ],
    ids=["protanopia", "deuteranopia"],
)
def test_kinds_of_work_can_be_told_apart_by_those_who_see_no_red_or_no_green(matrix):
    colours = [machado(to_rgb(colour), matrix) for colour in (*plots.JOBS, plots.BEHIND, "white")]
    for i, one in enumerate(colours):
        for other in colours[:i]:
            assert np.linalg.norm(one - other) > 0.2
    assert plots._style(plots.PURGED)["hatch"]
