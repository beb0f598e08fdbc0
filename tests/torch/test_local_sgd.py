"""Local SGD beside a plain loop over the same mini-batches on one process, whoever is late, dies or is left out."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Crash, Faults
from echelon.endings import Quorum
from echelon.errors import ArgumentError
from echelon.stream.record_reader import read_record
from echelon.torch import LocalSGD, seeded
from tests.simulation.in_virtual_time import every_second, scripted

WORKERS, STEPS, BATCH, SEED = 4, 3, 8, 5
RATE, MOMENTUM = 0.7, 0.9  # of the outer step
LOSS = nn.CrossEntropyLoss()
MOMENTUM_SGD = partial(torch.optim.SGD, lr=0.05, momentum=0.9)
CLOSE = {"rtol": 1e-6, "atol": 1e-6}


def data(samples=100):
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((samples, 6)).astype(np.float32)
    return inputs, (inputs[:, 0] > inputs[:, 1]).astype(np.int64)


def network(*more):
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 5), *more, nn.Tanh(), nn.Linear(5, 2)).double()


DATA = data()[0].astype(np.float64), data()[1]


def local_sgd(model, stream, **options):
    given = {"optimizer": MOMENTUM_SGD, "steps": STEPS, "batch_size": BATCH, "seed": SEED} | options
    return LocalSGD(model, LOSS, DATA, stream=stream, **given)


def plain(model, batch, came, *, optimizer=MOMENTUM_SGD, steps=(STEPS,) * WORKERS, anew=(), momentum=0.0, first=0):
    """Train by local SGD in one loop, tensor by tensor, and return the mean losses.

    came: places that came, by round. anew: (round, place) where the inner optimiser begins anew.
    """
    inner, losses = {}, []
    velocity = {name: torch.zeros_like(weight) for name, weight in model.named_parameters()}
    for round, places in enumerate(came, first):
        moved = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in model.state_dict().items()}
        total = told = 0.0
        for place in places:
            mine, weight = deepcopy(model), steps[place] * BATCH
            stepping = optimizer(mine.parameters())
            if place in inner and (round, place) not in anew:
                stepping.load_state_dict(inner[place])
            with seeded(SEED, round, place):
                for step in range(steps[place]):
                    numbers = batch(round, place, step)
                    stepping.zero_grad()
                    loss = LOSS(mine(torch.tensor(DATA[0][numbers])), torch.tensor(DATA[1][numbers]))
                    loss.backward()
                    stepping.step()
                    told += float(loss.detach()) * BATCH
            inner[place] = deepcopy(stepping.state_dict())
            total += weight
            for name, tensor in mine.state_dict().items():
                moved[name] += weight * (tensor.double() - model.state_dict()[name].double())
        losses.append(told / total)
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                mean = moved[name] / total
                if name in velocity:
                    velocity[name] = momentum * velocity[name] + mean
                    tensor += RATE * (mean + momentum * velocity[name])
                else:
                    tensor.copy_(tensor + (mean if tensor.is_floating_point() else mean.round()))
    return losses


def same(model, other):
    for (name, tensor), wanted in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(tensor, wanted, **CLOSE, msg=name)


ALL = range(WORKERS)
MODELS = {
    "plain": lambda: network(),
    "dropout": lambda: network(nn.Dropout(0.3)),
    "batch norm": lambda: network(nn.BatchNorm1d(5)),
}


@pytest.mark.parametrize("cluster", ["virtual", "threads"])
@pytest.mark.parametrize("kind", MODELS)
def test_when_all_come_the_weights_are_those_of_a_plain_loop(cluster, kind):
    model = MODELS[kind]()
    other = deepcopy(model)
    with ec.Stream(cluster, workers=WORKERS, progress=False) as stream, local_sgd(model, stream, quorum=1.0) as local:
        told = local.run(4)
        losses = plain(other, local.batch, [ALL] * 4, momentum=MOMENTUM)
    same(model, other)
    np.testing.assert_allclose([one.loss for one in told], losses, rtol=1e-6)
    assert [one.round for one in told] == [0, 1, 2, 3]
    assert all(one.left_out == () and one.samples == WORKERS * STEPS * BATCH for one in told)


def test_when_a_scripted_set_is_left_out_the_weights_are_those_of_the_others():
    """Place 1 is late in rounds 2 and 3, place 3 in round 3 within the grace, and place 0 in round 4."""
    late = {(1, 2): 9.0, (1, 3): 9.0, (3, 3): 1.3, (0, 4): 3.0}
    came = [ALL, (0, 2, 3), (0, 2, 3), (1, 2, 3), ALL]
    paces = scripted(lambda place, round, i: late.get((place, round), 1.0), [0.0] * WORKERS)
    model = network()
    other = deepcopy(model)
    with ec.Stream(VirtualCluster(paces=paces), progress=False) as stream:
        local = local_sgd(model, stream, quorum=0.75, grace=1.0)
        told = local.run(5)
        losses = plain(other, local.batch, came, momentum=MOMENTUM)
    assert [one.left_out for one in told] == [(), (1,), (1,), (0,), ()]
    same(model, other)
    np.testing.assert_allclose([one.loss for one in told], losses, rtol=1e-6)


def test_workers_count_by_their_samples():
    steps, model = [1, 5, 2, 3], network()
    other = deepcopy(model)
    with ec.Stream("virtual", workers=WORKERS, progress=False) as stream:
        local = local_sgd(model, stream, steps=steps, quorum=1.0)
        told = local.run(3)
        plain(other, local.batch, [ALL] * 3, steps=steps, momentum=MOMENTUM)
    same(model, other)
    assert told[0].samples == sum(steps) * BATCH


def test_without_momentum_at_rate_1_the_weights_are_the_mean_of_the_workers_weights():
    model, found = network(), []
    with ec.Stream("virtual", workers=WORKERS, progress=False) as stream:
        local = local_sgd(model, stream, quorum=1.0, outer_lr=1.0, outer_momentum=0.0, steps=1,
                          optimizer=partial(torch.optim.SGD, lr=0.1))  # fmt: skip
        for place in ALL:
            mine = deepcopy(model)
            numbers = local.batch(0, place, 0)
            LOSS(mine(torch.tensor(DATA[0][numbers])), torch.tensor(DATA[1][numbers])).backward()
            found.append([weight.detach() - 0.1 * weight.grad for weight in mine.parameters()])
        local.round()
    for weight, *weights in zip(model.parameters(), *found, strict=True):
        torch.testing.assert_close(weight.detach(), torch.stack(weights).mean(dim=0), **CLOSE)


def dying(**crash):
    """Workers of a second per step; place 1 dies in the second round, which begins at 3 s."""
    incidents = (Crash(4.5, 1, notice=0.1, **crash),)
    return VirtualCluster(paces=every_second(WORKERS), faults=Faults(np.random.default_rng(1), incidents=incidents))


def test_a_worker_that_dies_is_left_out_and_its_successor_begins_with_a_new_inner_optimiser():
    model = network()
    other = deepcopy(model)
    with ec.Stream(dying(restart=0.5), progress=False) as stream:
        local = local_sgd(model, stream, quorum=0.75)
        told = local.run(4)
        plain(other, local.batch, [ALL, (0, 2, 3), ALL, ALL], anew={(2, 1)}, momentum=MOMENTUM)
    assert [one.left_out for one in told] == [(), (1,), (), ()]
    same(model, other)


def test_the_steps_of_a_worker_that_dies_are_taken_by_another_where_the_quorum_needs_them():
    model = network()
    other = deepcopy(model)
    with ec.Stream(dying(restart=9.0), progress=False) as stream:
        local = local_sgd(model, stream, quorum=1.0)
        told = local.run(3)
        # worker 0 takes the steps of place 1 in the second round, and again in the third, where it goes on
        plain(other, local.batch, [ALL] * 3, anew={(1, 1)}, momentum=MOMENTUM)
    assert [one.left_out for one in told] == [(), (), ()]
    same(model, other)


def test_a_job_goes_on_from_its_journal(tmp_path):
    journal, model = tmp_path / "journal", network()
    other, plain_sgd = deepcopy(model), partial(torch.optim.SGD, lr=0.05)  # which has no state of its own
    with ec.Stream("virtual", workers=WORKERS, journal=journal, progress=False) as stream:
        local = local_sgd(model, stream, quorum=1.0, optimizer=plain_sgd)
        stream.submit(local.job(6, name="local"))
        stream.sleep(2.5 * STEPS)
        stream.close(wait=False)
    with ec.Stream("virtual", workers=WORKERS, journal=journal, progress=False) as stream:
        (handle,) = stream.resumed
        assert handle.iteration == 2
        state = handle.result()
    assert state.round == 6
    plain(other, local.batch, [ALL] * 6, optimizer=plain_sgd, momentum=MOMENTUM)
    local.load(state)
    same(model, other)
    assert local.rounds == 6


def test_rounds_go_on_where_a_job_ended():
    model = network()
    other = deepcopy(model)
    with ec.Stream("virtual", workers=WORKERS, progress=False) as stream:
        local = local_sgd(model, stream, quorum=1.0, optimizer=partial(torch.optim.SGD, lr=0.05))
        local.load(stream.submit(local.job(2)).result())
        told = local.run(2)
        plain(other, local.batch, [ALL] * 4, optimizer=partial(torch.optim.SGD, lr=0.05), momentum=MOMENTUM)
    assert [one.round for one in told] == [2, 3]
    same(model, other)


def test_steps_follow_the_speeds_of_workers_so_that_all_are_done_at_once():
    """Place 0 takes three times as long for a step; it is left out until that is seen."""
    paces = scripted(lambda place, round, i: 3.0 if place == 0 else 1.0, [0.0] * WORKERS)
    with ec.Stream(VirtualCluster(paces=paces), progress=False) as stream:
        local = local_sgd(network(), stream, steps=10, split="speed", quorum=0.75, stretch=0.1)
        told = local.run(25)
        begun = stream.now()
        local.round()
        took = stream.now() - begun
    assert told[0].left_out == (0,)
    assert told[-1].left_out == ()
    assert told[-1].steps == (4, 12, 12, 12)
    assert took == pytest.approx(12.0)


def test_the_record_says_who_was_left_out(tmp_path):
    record = tmp_path / "run.jsonl"
    paces = scripted(lambda place, round, i: 5.0 if (place, round) == (2, 2) else 1.0, [0.0] * WORKERS)
    with ec.Stream(VirtualCluster(paces=paces), record=record, progress=False) as stream:
        local_sgd(network(), stream).run(3)
    rounds = read_record(record).rounds
    assert [seen.left_out for seen in rounds] == [[], [2], []]
    assert rounds[1].rows[2] == [(2, 0)]


class Gradients(nn.Module):
    """A model that draws from torch's generator, and counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2).double()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("switch", torch.ones((), dtype=torch.bool))

    def forward(self, inputs):
        if self.training:
            self.calls += 1
        return self.layer(inputs + 0.1 * torch.randn_like(inputs))


def test_whole_numbers_in_buffers_are_means_and_truth_values_stay():
    torch.manual_seed(1)
    model = Gradients()
    other = deepcopy(model)
    with ec.Stream("virtual", workers=WORKERS, progress=False) as stream:
        local = local_sgd(model, stream, quorum=1.0)
        local.run(2)
        plain(other, local.batch, [ALL] * 2, momentum=MOMENTUM)
    same(model, other)
    assert int(model.calls) == 2 * STEPS
    assert bool(model.switch)


def test_processes_train_like_a_plain_loop_and_go_on_when_one_is_killed():
    model = network()
    other = deepcopy(model)
    # no steps are given to another worker for being late: it would go on from its own memory
    with ec.Stream("processes", workers=3, progress=False, patience_s=100.0) as stream:
        local = local_sgd(model, stream, quorum=1.0)
        local.run(2)
        plain(other, local.batch, [range(3)] * 2, momentum=MOMENTUM)
        same(model, other)
        cluster = stream._cluster
        cluster.kill(max(cluster.pids()))
        told = local.run(3)
    assert [one.round for one in told] == [2, 3, 4]
    assert all(one.left_out == () for one in told)


def test_late_workers_drop_their_steps_between_two_of_them():
    """Work that is not finished leaves the memory of its worker as it was."""
    with ec.Stream("virtual", workers=WORKERS, progress=False) as stream:
        job = local_sgd(network(), stream).job(1)
    work, start, memory = job.work(()), job.request(job.state), {}
    assert work.go_on(start, 1, memory, lambda: True) is not None
    before = deepcopy(memory[1])
    asked = iter([True, False])
    assert work.go_on(start, 1, memory, lambda: next(asked)) is None
    kept = memory[1]["state"]
    for number, state in before["state"].items():
        torch.testing.assert_close(kept[number]["momentum_buffer"], state["momentum_buffer"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "steps: 0 is not allowed"),
        ({"steps": [1, 2]}, "steps: 2 numbers are not allowed; must be one per worker, 4"),
        ({"split": "fair"}, "split: 'fair' is not allowed; must be one of equal, speed"),
        ({"batch_size": 101}, "batch_size: 101 is not allowed"),
        ({"quorum": 1.5}, "quorum: 1.5 is not allowed"),
        ({"least": 5}, "least: 5 is not allowed; must be at most 4"),
        ({"grace": -1.0}, "grace: -1.0 is not allowed"),
        ({"outer_lr": 0.0}, "outer_lr: 0.0 is not allowed"),
        ({"optimizer": lambda weights: weights}, "optimizer: list is not allowed"),
        ({"optimizer": "SGD"}, "optimizer: 'SGD' is not allowed"),
        ({"seed": -1}, "seed: -1 is not allowed"),
    ],
)
def test_arguments_that_can_t_be_meant_are_refused(options, said):
    with ec.Stream("virtual", workers=WORKERS, progress=False) as stream, pytest.raises(ArgumentError, match=said):
        local_sgd(network(), stream, **options)


def test_a_loss_that_uses_weights_is_refused():
    model = network()
    with (
        ec.Stream("virtual", workers=WORKERS, progress=False) as stream,
        pytest.raises(ArgumentError, match="loss: it uses 'model', which is trained and changes, and is not allowed"),
    ):
        LocalSGD(
            model, lambda out, to: LOSS(out, to) + model[0].weight.norm(), DATA, stream=stream, optimizer=MOMENTUM_SGD
        )


def test_a_model_that_changed_its_shape_is_refused():
    model = network()
    with ec.Stream("virtual", workers=WORKERS, progress=False) as stream:
        local = local_sgd(model, stream)
        model[0] = nn.Linear(6, 5).float()
        with pytest.raises(ArgumentError, match="other names, types or shapes"):
            local.round()


def test_results_checked_by_two_workers_are_refused():
    with (
        ec.Stream("virtual", workers=WORKERS, verify="vote", progress=False) as stream,
        pytest.raises(ArgumentError, match="verify"),
    ):
        stream.submit(local_sgd(network(), stream).job(1))


def test_the_quorum_is_in_the_plan():
    with ec.Stream("virtual", workers=WORKERS, progress=False) as stream:
        job = local_sgd(network(), stream, quorum=0.5, least=3, grace=0.5, stretch=0.25).job(1)
    assert job.plan.ending == Quorum(share=0.5, least=3, grace=0.5, stretch=0.25)
    assert job.plan.ending.needed(WORKERS) == 3
