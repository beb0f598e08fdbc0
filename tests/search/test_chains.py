import pytest

from echelon.delays import Deterministic, Straggler
from echelon.errors import ArgumentError
from echelon.search.chain_schemes import THIN, chain_schemes
from echelon.search.chains import optimise_chain

LAW = Straggler(base=Deterministic(time=1.0), probability=0.3, slowdown=5.0)


def searched(*waiting):
    return optimise_chain(3, LAW, delay=1, most_results=6, tolerances=[0.0], waiting=waiting)


def test_a_search_tries_the_waiting_rules_that_are_asked_for():
    due, fastest, both = searched("due"), searched("fastest"), searched("due", "fastest")
    assert (due.scheme.waiting, fastest.scheme.waiting) == ("due", "fastest")
    assert due.score.mean < fastest.score.mean
    assert (both.scheme, both.score.mean) == (due.scheme, due.score.mean)
    assert both.tried == due.tried + fastest.tried - 4  # the plain way and three polynomial codes have no rule


def test_a_waiting_rule_that_is_not_there_is_refused():
    with pytest.raises(ArgumentError, match="waiting: 'slowest' is not allowed; must be one of due, fastest"):
        searched("slowest")


@pytest.mark.parametrize(("workers", "delay"), [(1, 1), (2, 0), (3, 2), (6, 3)])
def test_the_thin_grid_of_the_advice_is_some_of_all_schemes_and_has_every_kind(workers, delay):
    asked = {"most": 3 * workers, "waits": [("due", 0.0), ("due", 0.25)]}
    thin = list(chain_schemes(workers, delay, **asked, grid=THIN))
    every = list(chain_schemes(workers, delay, **asked))
    assert set(thin) <= set(every)
    assert {kind for kind, _ in thin} == {kind for kind, _ in every}
    assert all(scheme.threshold <= 3 * workers for _, scheme in every)


def test_a_large_grid_is_thinned_to_some_hundreds():
    waits = [("due", 0.0), ("due", 0.25)]
    assert len(list(chain_schemes(20, 3, most=60, waits=waits, grid=THIN))) < 250
