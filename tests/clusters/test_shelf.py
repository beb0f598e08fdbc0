"""What a worker has under its keys: made once, when it is needed, and given up once."""

import pytest

from echelon.clusters.shelf import Shelf, new_key
from tests.clusters import works


class Source:
    """Counts how often something is made from it, and how often it is given up."""

    def __init__(self, *values):
        self.values, self.made, self.dropped = list(values), 0, 0

    def make(self):
        self.made += 1
        value = self.values.pop(0)
        if isinstance(value, Exception):
            raise value
        return value

    def drop(self):
        self.dropped += 1


def shelved(*values, key=1):
    shelf, source = Shelf(), Source(*values)
    shelf.put(key, source.make, source.drop)
    return shelf, source


@pytest.mark.parametrize("value", [[1, 2], (3, 4), None, 0])
def test_whatever_it_is_it_is_made_once_and_not_before_it_is_asked_for(value):
    shelf, source = shelved(value)
    assert (source.made, source.dropped) == (0, 0)
    assert shelf.get(1) is value
    assert shelf.get(1) is value
    assert (source.made, source.dropped) == (1, 1)


def test_what_was_never_made_is_given_up_when_it_is_forgotten():
    shelf, source = shelved("unused")
    shelf.pop(1)
    shelf.pop(1)
    assert (source.made, source.dropped) == (0, 1)


def test_what_was_made_is_not_given_up_twice():
    shelf, source = shelved("used")
    shelf.get(1)
    shelf.pop(1)
    assert source.dropped == 1
    with pytest.raises(KeyError, match="1"):
        shelf.get(1)


def test_a_key_that_is_put_again_names_the_newer_thing():
    shelf, older = shelved("older")
    shelf.put(1, lambda: "newer")
    assert older.dropped == 1
    assert shelf.get(1) == "newer"
    shelf.put(1, lambda: "newest")
    assert shelf.get(1) == "newest"


def test_what_can_not_be_made_is_tried_again_and_still_given_up():
    shelf, source = shelved(RuntimeError("not now"), "made")
    with pytest.raises(RuntimeError, match="not now"):
        shelf.get(1)
    assert source.dropped == 0
    assert shelf.get(1) == "made"
    assert source.dropped == 1


def test_an_unknown_key_is_missed_by_name_and_forgotten_in_silence():
    shelf = Shelf()
    shelf.pop(9)
    with pytest.raises(KeyError, match="9"):
        shelf.get(9)


def test_a_state_finds_what_it_names_and_any_other_is_left_alone():
    shelf, _ = shelved("work")
    shelf.put(2, lambda: 5.0)
    state = works.Looked([2])
    work, found = shelf.bring(1, state)
    assert (work, found) == ("work", state)
    assert found.find(2) == 5.0
    assert shelf.bring(1, 3.0) == ("work", 3.0)


def test_no_key_is_given_twice():
    keys = [new_key() for _ in range(100)]
    assert len(set(keys)) == 100
    assert min(keys) >= 1
