"""The queue of a chain: who waits for whom, without a single worker."""

import numpy as np
import pytest

from echelon.products.chain import Product
from echelon.products.factors import Factor
from echelon.products.feed import Feed
from echelon.products.future import ProductFuture


class Packed:
    value = np.ones((2, 2))


def product(number, feed=None):
    factor = Factor(Packed(), None, kept=False)
    return Product(number, factor, factor, 1.0, ProductFuture(feed, lambda until, timeout_s: timeout_s))


@pytest.fixture
def feed():
    return Feed()


class Asked:
    """What a chain was told that asked whether it ends and got no answer at once."""

    def __init__(self, feed, going):
        self.told = []
        self.at_once = feed.ends(going, self.told.append)


def ends(feed, *, going):
    """Return whether a chain ends that must get its answer at once."""
    asked = Asked(feed, going)
    assert asked.told == []
    assert asked.at_once is not None
    return asked.at_once


def test_the_first_product_asks_for_a_chain_and_the_next_ones_do_not(feed):
    assert feed.put(product(0)) is True
    assert feed.put(product(1)) is False
    assert [feed.next_product().number for _ in range(2)] == [0, 1]
    assert feed.next_product() is None


def test_a_chain_with_nothing_to_do_ends_and_the_next_product_asks_for_another(feed):
    feed.put(product(0))
    feed.next_product()
    assert ends(feed, going=True) is False
    assert ends(feed, going=False) is True
    assert feed.put(product(1)) is True


def test_a_chain_goes_on_with_what_waits(feed):
    feed.put(product(0))
    feed.put(product(1))
    feed.next_product()
    assert ends(feed, going=False) is False


@pytest.mark.parametrize("going", [False, True])
def test_a_busy_caller_is_waited_for_until_it_has_a_product(feed, going):
    feed.busy(True)
    asked = Asked(feed, going)
    assert (asked.at_once, asked.told) == (None, [])
    feed.put(product(0))
    assert asked.told == [False]
    feed.busy(False)
    assert asked.told == [False], "it is told once"


@pytest.mark.parametrize("going", [False, True])
def test_a_caller_that_gives_up_is_waited_for_no_longer(feed, going):
    feed.busy(True)
    asked = Asked(feed, going)
    feed.busy(False)
    assert (asked.at_once, asked.told) == (None, [not going])


def test_a_caller_that_needs_what_only_further_rounds_give_is_not_waited_for(feed):
    needed = product(0, feed)
    feed.busy(True)
    feed.needs(needed.future)
    assert ends(feed, going=True) is False
    feed.received(needed)  # its results are there: now the caller can go on, and is waited for
    asked = Asked(feed, going=True)
    assert asked.at_once is None
    feed.put(product(1))
    assert asked.told == [False]


def test_a_caller_that_comes_to_need_what_only_further_rounds_give_is_waited_for_no_longer(feed):
    needed = product(0, feed)
    feed.busy(True)
    asked = Asked(feed, going=True)
    feed.needs(needed.future)
    assert (asked.at_once, asked.told) == (None, [False])


def test_a_chain_that_ended_while_a_caller_was_busy_is_followed_by_another(feed):
    feed.busy(True)
    asked = Asked(feed, going=False)
    feed.busy(False)
    assert asked.told == [True]
    assert feed.put(product(0)) is True


def test_a_chain_that_waits_is_told_of_the_end(feed):
    feed.busy(True)
    asked = Asked(feed, going=True)
    assert feed.stop() == []
    assert asked.told == [True]


def test_the_end_is_waited_for_by_nobody(feed):
    feed.put(product(0))
    feed.busy(True)
    assert [left.number for left in feed.stop()] == [0]
    assert ends(feed, going=True) is True
    assert feed.put(product(1)) is True  # somebody must be told that no chain can begin


def test_after_a_failure_what_waits_asks_for_another_chain(feed):
    feed.put(product(0))
    feed.put(product(1))
    feed.next_product()
    assert feed.ended() is True
    feed.next_product()
    assert feed.ended() is False
    assert feed.put(product(2)) is True


def test_a_chain_that_failed_while_it_waited_is_not_taken_to_go_on():
    """What it waited to hear is void: the next product asks for another chain."""
    feed = Feed()
    feed.put(product(0))
    feed.next_product()
    feed.busy(True)
    assert feed.ends(True, pytest.fail) is None
    assert not feed.ended()
    feed.busy(False)
    assert feed.put(product(1))
