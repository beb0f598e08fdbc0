"""Memory of a GPU that a worker lends, without a GPU: what is given back when, and what is not."""

import pytest

from echelon.clusters import cuda


class Block:
    """Stands for memory of a device."""

    def __init__(self, nbytes, device):
        self.nbytes, self.device = nbytes, device


@pytest.fixture
def lent():
    return set()


@pytest.fixture
def lending(lent, monkeypatch):
    monkeypatch.setattr(cuda, "Block", Block)
    return cuda.Lending(lent.__contains__)


def test_a_block_is_used_again_for_as_many_bytes_on_the_same_device(lending):
    first = lending.take(64, 1000, 0)
    assert lending.take(64, 1000, 0) is first
    assert lending.take(4160, 1000, 0) is not first
    assert lending.take(64, 2000, 0) is not first
    assert len(lending) == 2


def test_a_message_of_another_job_keeps_its_block_when_a_job_is_forgotten(lending, lent):
    other = lending.take(64, 1000, 0)
    lending.take(4160, 1000, 0)
    lent.add(64)
    lending.forget()
    assert len(lending) == 1
    lending.tidy()  # the master still has it
    assert len(lending) == 1
    lent.clear()
    lending.tidy()
    assert len(lending) == 0
    assert lending.take(64, 1000, 0) is not other


def test_a_block_that_is_used_again_before_it_was_free_to_go_stays(lending, lent):
    block = lending.take(64, 1000, 0)
    lent.add(64)
    lending.forget()
    lent.clear()
    assert lending.take(64, 1000, 0) is block
    lending.tidy()
    assert len(lending) == 1
