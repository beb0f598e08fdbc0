import warnings

import numpy as np
import pytest
from scipy.optimize import linprog

from echelon.blocks import expected_runtime, optimise_lp
from echelon.delays import Gamma, Trace
from echelon.errors import ArgumentError
from tests.blocks.setting import LAW, literal_runtime


def whole_program(times, unit, message, storage):
    """The sample-average program with every row, dense: the least mean over these draws for one coordinate."""
    draws, workers = times.shape
    rows = []
    for s in range(draws):
        for n in range(workers):
            row = np.zeros(workers + draws)
            row[: n + 1] = unit * times[s, workers - 1 - n] * np.arange(1, n + 2) + message
            row[workers + s] = -1.0
            rows.append(row)
    cost = np.concatenate([np.zeros(workers), np.full(draws, 1 / draws)])
    total = np.concatenate([np.ones(workers), np.zeros(draws)])[None, :]
    bounds = [(0, None if n < storage else 0) for n in range(workers)] + [(0, None)] * draws
    return linprog(cost, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=total, b_eq=[1.0], bounds=bounds).fun


@pytest.mark.parametrize(("message", "storage"), [(0.0, 5), (0.0, 2), (0.4, 5), (0.4, 3)])
def test_adding_rows_ends_at_the_minimum_of_the_whole_program(message, storage):
    times = np.sort(np.random.default_rng(1).exponential(1.0, (40, 5)) + 0.1, axis=1)
    found = optimise_lp(5, 10, times=times, unit=2.0, message_time=message, storage=storage)
    assert found.expected == pytest.approx(10 * whole_program(times, 2.0, message, storage), rel=2e-4)
    assert (found.x[storage:] == 0).all()


def test_tiny_best_times_are_found_and_the_gap_is_told():
    """Twenty workers, 1000 draws: the best is 1e-6 of the mean time, and programs are solved in its units."""
    done = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = optimise_lp(
            20, 100, Gamma(shape=0.1, scale=1.0), draws=1000, progress=lambda *told: done.append(told)
        )  # fmt: skip
    assert found.converged
    assert found.gap <= 1e-4
    assert done == [(i + 1, 60) for i in range(len(done))]
    assert len(done) < 10


def test_a_search_that_is_stopped_says_so_and_by_how_much():
    times = np.sort(np.random.default_rng(1).exponential(1.0, (400, 8)) + 0.1, axis=1)
    with pytest.warns(RuntimeWarning, match=r"optimise_lp: stopped with a gap of .*, more than 0.0001"):
        stopped = optimise_lp(8, 10, times=times, rounds=1)
    assert not stopped.converged
    assert stopped.gap > 1e-4
    whole = optimise_lp(8, 10, times=times)
    assert whole.converged
    assert whole.gap <= 1e-4
    # the gap is a bound on what is left to gain, and so are both together
    assert stopped.expected * (1 - stopped.gap) <= whole.expected <= stopped.expected


def test_a_program_that_breaks_no_row_is_the_last(monkeypatch):
    """A solver that rounds badly: its answer stops changing, and solving it again would not help."""
    from echelon.blocks import linear_program

    solve, solved = linear_program._program, []

    def rounding(*arguments):
        solved.append(1)
        x, tau = solve(*arguments)
        return x, tau * 0.99

    monkeypatch.setattr(linear_program, "_program", rounding)
    times = np.sort(np.random.default_rng(1).exponential(1.0, (40, 5)) + 0.1, axis=1)
    with pytest.warns(RuntimeWarning, match="stopped with a gap"):
        found = optimise_lp(5, 10, times=times, rounds=1000)
    assert not found.converged
    assert found.gap == pytest.approx(0.01, rel=1e-6)
    assert len(solved) < 60


def test_slow_links_leave_less_to_gain_from_spreading_work():
    quick = optimise_lp(6, 100, LAW, draws=500)
    slow = optimise_lp(6, 100, LAW, draws=500, message_time=50.0)
    # every coordinate passes the link, whatever the partition; and no partition is quicker than without links
    assert slow.expected >= 100 * 50.0
    assert quick.expected < slow.expected <= quick.expected + 100 * 50.0 * 1.02


def test_a_record_is_as_good_as_a_law():
    record = Trace(times=[1.0, 2.0, 4.0, 1.5, 9.0])
    found = optimise_lp(4, 100, record)
    assert found.certificate is None
    draws = np.sort(np.random.default_rng(3).choice([1.0, 2.0, 4.0, 1.5, 9.0], (100_000, 4)), axis=1)
    again = literal_runtime(found.x, draws)
    assert abs(found.expected - again.mean()) <= 3.2905 * np.hypot(found.error, again.std() / np.sqrt(len(draws)))


def test_the_certificate_of_a_cap_is_against_partitions_that_keep_to_it():
    found = optimise_lp(8, 100, LAW, storage=3)
    assert found.certificate < 0.2
    rng = np.random.default_rng(7)
    for pull in (0.01, 0.1, 1.0):
        x = (1 - pull) * found.x
        x[:3] += pull * 100 * rng.dirichlet(np.ones(3))
        assert expected_runtime(x, LAW).mean >= found.expected * (1 - found.certificate)


def test_what_is_not_allowed_is_named():
    with pytest.raises(ArgumentError, match="storage: "):
        optimise_lp(4, 10, LAW, storage=5)
    with pytest.raises(ArgumentError, match="times: "):
        optimise_lp(4, 10, LAW, times=np.ones((2, 4)))
    with pytest.raises(ArgumentError, match="times: "):
        optimise_lp(4, 10)
    with pytest.raises(ArgumentError, match="times: "):
        optimise_lp(4, 10, times=np.ones((2, 3)))
    with pytest.raises(ArgumentError, match="message_time: "):
        optimise_lp(4, 10, LAW, message_time=-1.0)
    with pytest.raises(ArgumentError, match="law: "):
        optimise_lp(4, 10, [LAW] * 3)
