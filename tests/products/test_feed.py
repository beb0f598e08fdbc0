"""The queue of a chain: who waits for whom, without a single worker."""

from threading import Thread

import numpy as np
import pytest

from echelon.products.chain import Product
from echelon.products.factors import Factor
from echelon.products.feed import Feed
from echelon.products.future import ProductFuture
from tests.products.works import LIMIT_S


class Packed:
    value = np.ones((2, 2))


def product(number, feed=None):
    factor = Factor(Packed(), None, kept=False)
    return Product(number, factor, factor, 1.0, ProductFuture(feed))


@pytest.fixture
def feed():
    return Feed()


def waiting(feed, going):
    """Return a thread that waits as a chain does, and the list that takes the answer."""
    answers = []
    thread = Thread(target=lambda: answers.append(feed.wait(going)), daemon=True)
    thread.start()
    return thread, answers


def test_the_first_product_asks_for_a_chain_and_the_next_ones_do_not(feed):
    assert feed.put(product(0)) is True
    assert feed.put(product(1)) is False
    assert [feed.next_product().number for _ in range(2)] == [0, 1]
    assert feed.next_product() is None


def test_a_chain_with_nothing_to_do_ends_and_the_next_product_asks_for_another(feed):
    feed.put(product(0))
    feed.next_product()
    assert feed.wait(going=True) is True
    assert feed.wait(going=False) is False
    assert feed.put(product(1)) is True


def test_a_chain_goes_on_with_what_waits(feed):
    feed.put(product(0))
    feed.put(product(1))
    feed.next_product()
    assert feed.wait(going=False) is True


@pytest.mark.parametrize("going", [False, True])
def test_a_busy_caller_is_waited_for_until_it_has_a_product(feed, going):
    feed.busy(True)
    thread, answers = waiting(feed, going)
    assert answers == []
    feed.put(product(0))
    thread.join(LIMIT_S)
    assert answers == [True]


@pytest.mark.parametrize("going", [False, True])
def test_a_caller_that_gives_up_is_waited_for_no_longer(feed, going):
    feed.busy(True)
    thread, answers = waiting(feed, going)
    feed.busy(False)
    thread.join(LIMIT_S)
    assert answers == [going]


def test_a_caller_that_needs_what_only_further_rounds_give_is_not_waited_for(feed):
    needed = product(0, feed)
    feed.busy(True)
    feed.needs(needed.future)
    assert feed.wait(going=True) is True
    feed.received(needed)  # its results are there: now the caller can go on, and is waited for
    thread, answers = waiting(feed, going=True)
    feed.put(product(1))
    thread.join(LIMIT_S)
    assert answers == [True]


def test_the_end_is_waited_for_by_nobody(feed):
    feed.put(product(0))
    feed.busy(True)
    assert [left.number for left in feed.stop()] == [0]
    assert feed.wait(going=True) is False
    assert feed.put(product(1)) is True  # somebody must be told that no chain can begin


def test_after_a_failure_what_waits_asks_for_another_chain(feed):
    feed.put(product(0))
    feed.put(product(1))
    feed.next_product()
    assert feed.ended() is True
    feed.next_product()
    assert feed.ended() is False
    assert feed.put(product(2)) is True
