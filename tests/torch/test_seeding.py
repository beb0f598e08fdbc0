"""Chance that belongs to a step and a chunk, and code beside it whose draws stay its own."""

import pickle
from copy import deepcopy
from threading import Event, Thread

import pytest
import torch
from torch import nn

import echelon as ec
from echelon.torch import CodedGradient, LocalSGD, seeded
from echelon.torch.seeding import Asking, TooLate
from tests.torch.networks import Dropping, digits

CROSS = nn.CrossEntropyLoss()
DATA = digits()


def noted():
    """A list of the passes that were made, and the loss that keeps it."""
    computed = []

    def loss(outputs, targets):
        computed.append(len(targets))
        return CROSS(outputs, targets)

    return computed, loss


def test_after_an_error_generators_are_as_they_were_before():
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="invalid"), seeded(1, step=5, chunk=0):
        torch.rand(3).view(2)
    assert (torch.get_rng_state() == before).all()


def test_late_threads_leave_the_generators_alone():
    """What nobody waits for any more is not computed between steps, where the training's own code draws."""
    computed, loss = noted()
    for _ in range(5):
        with ec.Stream("threads", workers=3, redundancy=1.5) as stream:
            coded = CodedGradient(Dropping(), loss, DATA, stream=stream, batch_size=60)
            coded.backward()
            state, before = torch.get_rng_state(), len(computed)
        # all threads have ended
        assert (torch.get_rng_state() == state).all()
        assert len(computed) == before


def test_masks_change_with_seed_step_and_chunk():
    def drawn(*at):
        with seeded(*at):
            return torch.rand(4).tolist()

    assert drawn(1, 2, 3) == drawn(1, 2, 3)
    assert len({tuple(drawn(*at)) for at in ((1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4))}) == 4


def test_late_threads_of_local_steps_leave_the_generators_alone():
    computed, loss = noted()
    for _ in range(5):
        with ec.Stream("threads", workers=3) as stream:
            local = LocalSGD(
                Dropping(), loss, DATA, stream=stream, optimizer=torch.optim.SGD, steps=3, batch_size=4, quorum=0.3
            )
            local.round()
            state, before = torch.get_rng_state(), len(computed)
        # all threads have ended
        assert (torch.get_rng_state() == state).all()
        assert len(computed) == before


def test_nobody_computes_for_a_question_that_is_over_and_its_end_waits_for_who_does():
    asking, inside, on, ended = Asking(), Event(), Event(), Event()

    def compute():
        with asking.turn():
            inside.set()
            on.wait(60)
            assert not ended.is_set()

    def end():
        asking.end()
        ended.set()

    threads = [Thread(target=compute), Thread(target=end)]
    threads[0].start()
    assert inside.wait(60)
    Asking().end()  # another question does not wait for this one
    threads[1].start()
    on.set()
    for thread in threads:
        thread.join(60)
    assert ended.is_set()
    with pytest.raises(TooLate), asking.turn():
        pass
    assert deepcopy(asking) is asking
    with pickle.loads(pickle.dumps(asking)).turn():  # another process has generators of its own
        pass
