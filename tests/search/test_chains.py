import pytest

from echelon.delays import Deterministic, Straggler
from echelon.errors import ArgumentError
from echelon.search.chains import optimise_chain

LAW = Straggler(base=Deterministic(time=1.0), probability=0.3, slowdown=5.0)


def searched(*waiting):
    return optimise_chain(3, LAW, delay=2, most_results=9, tolerances=[0.0], waiting=waiting)


def test_a_search_tries_the_waiting_rules_that_are_asked_for():
    due, fastest, both = searched("due"), searched("fastest"), searched("due", "fastest")
    assert (due.scheme.waiting, fastest.scheme.waiting) == ("due", "fastest")
    assert due.score.mean < fastest.score.mean
    assert (both.scheme, both.score.mean) == (due.scheme, due.score.mean)
    assert both.tried == due.tried + fastest.tried - 4  # the plain way and three polynomial codes have no rule


def test_a_waiting_rule_that_is_not_there_is_refused():
    with pytest.raises(ArgumentError, match="waiting: 'slowest' is not allowed; must be one of due, fastest"):
        searched("slowest")
