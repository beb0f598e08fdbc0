"""Gradients from a cluster are those of torch, whatever the model, its switches, its chance and its chunks."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, TensorDataset

import echelon as ec
from echelon.endings import Deadline, Quorum
from echelon.errors import ArgumentError
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.schemes import multi_message
from echelon.torch import CodedGradient
from tests.torch.networks import (
    Counting,
    Dropping,
    Paired,
    Tied,
    chunk_by_chunk,
    convolutions,
    digits,
    perceptron,
    plain_gradient,
    plain_training,
    scored,
)

CROSS = nn.CrossEntropyLoss()
DATA, WIDE = digits(), digits(np.float64)


@pytest.fixture(scope="module")
def stream():
    with ec.Stream("threads", workers=4, redundancy=1.4) as one:
        yield one


def apart(found, wanted):
    """The largest error of any gradient, relative to its largest entry."""
    return max(
        float((one - other).abs().max() / other.abs().max().clamp_min(1e-30))
        for one, other in zip(found, wanted, strict=True)
    )


def gradients(model):
    return [weight.grad for weight in model.parameters()]


@pytest.mark.parametrize("make", [perceptron, convolutions])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("batch_size", "chunks"), [(None, None), (50, 4), (17, 7), (3, 5)])
def test_a_gradient_is_that_of_torch_on_the_same_batch(stream, make, dtype, reduction, batch_size, chunks):
    """Chunks of unequal size, more of them than rows a worker, and more of them than samples."""
    model, loss = make(dtype), nn.CrossEntropyLoss(reduction=reduction)
    data = DATA if dtype == torch.float32 else WIDE
    with CodedGradient(model, loss, data, stream=stream, batch_size=batch_size, chunks=chunks) as coded:
        for step in range(3):
            wanted, value = plain_gradient(model, loss, data, coded.batch(step))
            model.zero_grad()
            found = coded.backward()
            assert (found.shape, found.dtype) == ((), dtype)
            assert all(grad.dtype == dtype for grad in gradients(model))
            precise = 1e-4 if dtype == torch.float32 else 1e-11
            assert float(found) == pytest.approx(float(value), rel=precise)
            assert apart(gradients(model), wanted) < precise


def test_an_epoch_takes_every_sample_once_and_the_next_in_another_order(stream):
    with CodedGradient(perceptron(), CROSS, DATA, stream=stream, batch_size=70, seed=5) as coded:
        epochs = [[coded.batch(5 * epoch + step) for step in range(5)] for epoch in range(2)]
        parts = [coded.batch(3, chunk) for chunk in range(coded.chunks)]
    assert [len(batch) for batch in epochs[0]] == [70, 70, 70, 70, 20]
    first, second = map(np.concatenate, epochs)
    assert np.sort(first).tolist() == np.sort(second).tolist() == list(range(300))
    assert (first != second).any()
    assert np.concatenate(parts).tolist() == epochs[0][3].tolist()
    assert {len(part) for part in parts} == {17, 18}


def test_batches_depend_on_the_seed_and_on_nothing_else(stream):
    batches = []
    for seed, chunks in ((1, 2), (1, 9), (2, 2)):
        with CodedGradient(
            perceptron(), CROSS, DATA, stream=stream, batch_size=30, seed=seed, chunks=chunks
        ) as coded:  # fmt: skip
            batches.append(coded.batch(12).tolist())
    assert batches[0] == batches[1] != batches[2]


def test_gradients_add_up_over_calls_and_each_call_takes_the_next_batch(stream):
    model = perceptron(torch.float64)
    with CodedGradient(model, CROSS, WIDE, stream=stream, batch_size=40) as coded:
        wanted = [plain_gradient(model, CROSS, WIDE, coded.batch(step))[0] for step in range(3)]
        model.zero_grad()
        for _ in range(3):
            coded.backward()
        assert coded.step == 3
        assert apart(gradients(model), [sum(parts) for parts in zip(*wanted, strict=True)]) < 1e-11
        coded.step = 1
        model.zero_grad()
        coded.backward()
        assert apart(gradients(model), wanted[1]) < 1e-11


def test_tied_weights_have_one_gradient_and_unused_ones_none(stream):
    model, data = Tied(), (DATA[0], DATA[0])
    with CodedGradient(model, nn.MSELoss(), data, stream=stream, batch_size=32) as coded:
        for scale in (0.5, 2.0):  # a buffer that changes
            model.scale.fill_(scale)
            wanted, value = plain_gradient(model, nn.MSELoss(), data, coded.batch(coded.step))
            model.zero_grad()
            assert float(coded.backward()) == pytest.approx(float(value), rel=1e-5)
            assert model.unused.weight.grad is None
            assert apart(gradients(model)[:1], wanted[:1]) < 1e-4
            assert model.outer.weight.grad is model.inner.weight.grad


def test_hooks_of_parameters_are_called_with_the_whole_gradient(stream):
    model, seen = perceptron(torch.float64), []
    model[0].weight.register_hook(lambda gradient: gradient.clamp(-1e-3, 1e-3))
    model[0].bias.register_post_accumulate_grad_hook(lambda one: seen.append(one.grad.clone()))
    with CodedGradient(model, CROSS, WIDE, stream=stream, batch_size=60) as coded:
        wanted, value = plain_gradient(model, CROSS, WIDE, coded.batch(0))
        model.zero_grad()
        with torch.no_grad():
            assert float(coded.backward()) == pytest.approx(float(value), rel=1e-10)
    for one, expected in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(one.grad, expected, rtol=1e-9, atol=1e-12)
    assert float(model[0].weight.grad.abs().max()) == 1e-3
    torch.testing.assert_close(*seen, rtol=1e-9, atol=1e-12)


def test_a_gradient_of_zero_is_not_none(stream):
    model = nn.Sequential(nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 10))
    nn.init.constant_(model[0].bias, -100.0)  # nothing gets through
    with CodedGradient(model, CROSS, DATA, stream=stream) as coded:
        coded.backward()
    assert (model[0].weight.grad == 0).all()


def test_frozen_parameters_are_used_and_left_alone_and_may_be_frozen_later(stream):
    model = perceptron(torch.float64)
    with CodedGradient(model, CROSS, WIDE, stream=stream, batch_size=32) as coded:
        for frozen, part in ((False, None), (True, 0), (True, 2)):
            model.requires_grad_(True)
            if part is not None:
                model[part].requires_grad_(not frozen)
            wanted, _ = plain_gradient(model, CROSS, WIDE, coded.batch(coded.step))
            model.zero_grad()
            coded.backward()
            found = gradients(model)
            assert [grad is None for grad in found] == [grad is None for grad in wanted]
            there = [(one, other) for one, other in zip(found, wanted, strict=True) if other is not None]
            assert apart(*zip(*there, strict=True)) < 1e-11


@pytest.mark.parametrize("workers", [4, 2], ids=["a row each", "rows that share chunks"])
@pytest.mark.parametrize("make", [lambda: perceptron(torch.float32, nn.Dropout(0.4)), Dropping])
def test_dropout_has_the_masks_of_step_and_chunk_and_goes_when_the_model_evaluates(workers, make):
    model = make()
    other = deepcopy(model)
    state = torch.get_rng_state()
    with (
        ec.Stream("threads", workers=workers, redundancy=1.4) as stream,
        CodedGradient(model, CROSS, DATA, stream=stream, batch_size=60, chunks=4, seed=9) as coded,
    ):
        optimizers = [torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9) for one in (model, other)]
        found = []
        for _ in range(6):
            optimizers[0].zero_grad()
            found.append(float(coded.backward()))
            optimizers[0].step()
        wanted = plain_training(other, CROSS, DATA, optimizers[1], coded, 6, seed=9)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        model.eval()
        _, value = plain_gradient(model, CROSS, DATA, coded.batch(6))
        assert float(coded.backward()) == pytest.approx(float(value), rel=1e-5)
    assert (torch.get_rng_state() == state).all()  # threads of this process drew from it, and put it back


def test_outputs_that_are_no_tensor_are_passed_chunk_by_chunk(stream):
    model = Paired()
    with CodedGradient(model, scored, DATA, stream=stream, batch_size=32) as coded:
        wanted, value = plain_gradient(model, scored, DATA, coded.batch(0))
        model.zero_grad()
        assert float(coded.backward()) == pytest.approx(float(value), rel=1e-5)
        assert apart(gradients(model), wanted) < 1e-4


def test_rows_of_several_chunks_are_one_pass():
    passes = []

    class Noting(nn.Linear):
        def forward(self, inputs):
            passes.append(len(inputs))
            return super().forward(inputs)

    with (
        # nothing is given out twice, however late a thread is
        ec.Stream("threads", workers=4, redundancy=1.4, patience_s=60.0) as stream,
        CodedGradient(Noting(64, 10), CROSS, DATA, stream=stream, batch_size=40) as coded,
    ):
        coded.backward()
    assert set(passes) == {20}  # two chunks of ten


def test_datasets_of_pairs_are_read_like_arrays(stream):
    inputs, targets = map(torch.as_tensor, DATA)
    pair = ConcatDataset([TensorDataset(inputs[:120], targets[:120]), TensorDataset(inputs[120:], targets[120:])])
    model = perceptron()
    losses = []
    for data in (DATA, TensorDataset(inputs, targets), pair, [inputs, targets]):
        with CodedGradient(model, CROSS, data, stream=stream) as coded:
            losses.append(float(coded.backward()))
    assert losses == pytest.approx([losses[0]] * 4, rel=1e-5)


def test_a_plan_of_another_scheme_may_protect_the_sum(stream):
    model = perceptron(torch.float64)
    plan = multi_message(workers=4, load=3, order=2)
    with CodedGradient(model, CROSS, WIDE, stream=stream, batch_size=40, plan=plan) as coded:
        assert coded.chunks == plan.parts
        wanted, _ = plain_gradient(model, CROSS, WIDE, coded.batch(0))
        model.zero_grad()
        coded.backward()
    assert apart(gradients(model), wanted) < 1e-10


def test_messages_of_half_the_bytes_are_off_by_what_their_precision_says(stream):
    model = convolutions()
    with CodedGradient(model, CROSS, DATA, stream=stream, batch_size=60, messages="bfloat16") as coded:
        wanted, value = plain_gradient(model, CROSS, DATA, coded.batch(0))
        model.zero_grad()
        assert float(coded.backward()) == pytest.approx(float(value), rel=2**-4)
    error = apart(gradients(model), wanted)
    assert 1e-5 < error < 2**-4  # the default tolerance of a decoded message


def normalising(norm, dtype=torch.float64):
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 2, 3, bias=False), norm(2), nn.Flatten(), nn.Linear(72, 10)
    ).to(dtype)  # fmt: skip


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm2d,
        partial(nn.BatchNorm2d, momentum=None),
        partial(nn.BatchNorm2d, track_running_stats=False),
        partial(nn.InstanceNorm2d, track_running_stats=True),
        nn.InstanceNorm2d,
    ],
    ids=["batches", "without momentum", "not tracked", "instances, tracked", "instances"],
)
def test_chunks_are_normalised_by_themselves_and_statistics_change_by_their_mean(stream, norm):
    model = normalising(norm)
    other = deepcopy(model)
    with CodedGradient(model, CROSS, WIDE, stream=stream, batch_size=50) as coded:
        for step in range(3):
            model.zero_grad()
            value = float(coded.backward())
            parts = [coded.batch(step, chunk) for chunk in range(coded.chunks)]
            assert value == pytest.approx(chunk_by_chunk(other, CROSS, WIDE, parts), rel=1e-11)
            assert apart(gradients(model), gradients(other)) < 1e-10
            for mine, wanted in zip(model.buffers(), other.buffers(), strict=True):
                assert mine.dtype == wanted.dtype
                assert torch.allclose(mine, wanted, rtol=1e-10)
        model.eval()
        before = [buffer.clone() for buffer in model.buffers()]
        parts = [coded.batch(3, chunk) for chunk in range(coded.chunks)]
        chunk_by_chunk(model, CROSS, WIDE, parts)
        wanted = [grad.clone() for grad in gradients(model)]
        model.zero_grad()
        coded.backward()
        assert apart(gradients(model), wanted) < 1e-10
        assert all(torch.equal(one, buffer) for one, buffer in zip(before, model.buffers(), strict=True))


def test_normalising_over_all_workers_is_refused(stream):
    with pytest.raises(ArgumentError, match="SyncBatchNorm is not allowed, it waits for all workers"):
        CodedGradient(perceptron(torch.float32, nn.SyncBatchNorm(32)), CROSS, DATA, stream=stream)


def test_a_forward_pass_that_writes_into_buffers_is_refused(stream):
    with (
        CodedGradient(Counting(), CROSS, DATA, stream=stream) as coded,
        pytest.raises(ec.JobFailed, match="its forward pass writes into buffers"),
    ):
        coded.backward()


def test_an_error_on_a_worker_is_raised_with_its_traceback_and_the_step_can_be_had_again(stream):
    model = nn.Linear(3, 10)
    with CodedGradient(model, CROSS, DATA, stream=stream) as coded:
        with pytest.raises(ec.JobFailed, match=r"(?s)Traceback.*mat1 and mat2 shapes cannot be multiplied"):
            coded.backward()
        assert coded.step == 0
        assert model.weight.grad is None


def test_after_closing_no_gradient_is_to_be_had_and_the_stream_goes_on(stream):
    coded = CodedGradient(perceptron(), CROSS, DATA, stream=stream)
    coded.close()
    coded.close()
    with pytest.raises(ec.errors.ClusterError, match="dropped"):
        coded.backward()


def test_a_model_that_has_become_another_is_refused(stream):
    model = perceptron()
    with CodedGradient(model, CROSS, DATA, stream=stream) as coded:
        model.append(nn.Linear(10, 10))
        with pytest.raises(ArgumentError, match="model: its parameters or buffers have other names"):
            coded.backward()


def ignoring(targets=DATA[1]):
    return DATA[0], np.where(targets == 3, -100, targets)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": perceptron}, "model: function is not allowed; must be a torch.nn.Module"),
        ({"model": nn.ReLU()}, "model: it has no parameters to train"),
        ({"model": nn.Sequential(nn.Linear(64, 9), nn.Linear(9, 10).double())}, "must be all float64, or of float32"),
        ({"model": nn.LazyLinear(10)}, "parameters without a shape"),
        ({"loss": 3}, "loss: 3 is not allowed"),
        ({"loss": nn.MSELoss(reduction="none")}, "loss: reduction='none' is not allowed"),
        ({"loss": nn.AdaptiveLogSoftmaxWithLoss(64, 10, [5])}, "has parameters"),
        ({"loss": nn.CrossEntropyLoss(weight=torch.ones(10))}, "class weights is not allowed; its mean"),
        ({"loss": nn.NLLLoss(weight=torch.ones(10))}, "class weights is not allowed; its mean"),
        ({"data": ignoring()}, "not allowed with targets that it ignores"),
        ({"loss": scored, "reduction": "none"}, "reduction: 'none' is not allowed"),
        ({"reduction": "sum"}, "reduction: 'sum' is not allowed; must be 'mean', as the loss itself says"),
        ({"data": DATA[0]}, "data: ndarray is not allowed; must be inputs and targets"),
        ({"data": (DATA[0], DATA[1][:7])}, r"data: arrays of \[7, 300\] samples are not allowed"),
        ({"data": (DATA[0][:0], DATA[1][:0])}, "data: no samples"),
        ({"data": TensorDataset(torch.ones(0, 2), torch.ones(0))}, "data: no samples"),
        ({"data": (["a"], [1])}, "data: inputs: .*must be an array of numbers"),
        ({"data": (3.0, [1])}, "data: inputs: .*must be an array of numbers"),
        ({"batch_size": 301}, "batch_size: 301 is not allowed; must be at most 300"),
        ({"batch_size": 0}, "batch_size: 0 is not allowed"),
        ({"chunks": 0}, "chunks: 0 is not allowed"),
        ({"seed": -1}, "seed: -1 is not allowed"),
        ({"messages": "int8"}, "messages: 'int8' is not allowed; must be one of float32, bfloat16"),
        ({"model": perceptron(torch.float64), "messages": "bfloat16"}, "messages: 'bfloat16' is not allowed"),
        ({"device": "tpu"}, "device: 'tpu' is not allowed; must be 'cpu', 'cuda'"),
        ({"stream": "threads"}, "stream: str is not allowed; must be an echelon.Stream"),
        ({"plan": multi_message(workers=3, load=2, order=1)}, "plan: 3 lanes; must be 4"),
    ],
)
def test_what_can_not_be_trained_is_refused(stream, given, said):
    allowed = {"model": perceptron(), "loss": CROSS, "data": DATA, "stream": stream} | given
    model, loss, data = (allowed.pop(name) for name in ("model", "loss", "data"))
    with pytest.raises(ArgumentError, match=said):
        CodedGradient(model, loss, data, **allowed)


def test_without_a_device_cuda_is_refused(stream, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ArgumentError, match="device: 'cuda' is not allowed; must be 'cpu'"):
        CodedGradient(perceptron(), CROSS, DATA, stream=stream, device="cuda")


def test_classes_with_weights_and_ignored_targets_are_fine_in_a_sum(stream):
    model = perceptron(torch.float64)
    loss = nn.CrossEntropyLoss(weight=torch.linspace(0.5, 2, 10, dtype=torch.float64), reduction="sum")
    data = WIDE[0], ignoring()[1]
    with CodedGradient(model, loss, data, stream=stream) as coded:
        _, value = plain_gradient(model, loss, data, coded.batch(0))
        assert float(coded.backward()) == pytest.approx(float(value), rel=1e-11)


def slow(place, workers=4):
    """Return virtual workers of which one takes ten times as long as the others."""
    job = Workload(critical=workers, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0))
    return Profile(job, [Worker(f"w{p}", mean=1.0 + 9 * (p == place), std=0.0) for p in range(workers)])


@pytest.mark.parametrize("place", [0, 3])
def test_a_gradient_without_a_late_chunk_is_that_of_the_samples_that_came(place):
    model, loss = perceptron(torch.float64), nn.CrossEntropyLoss()
    with ec.Stream("virtual", emulate=slow(place), redundancy=1.0, split="uniform", adapt=False) as stream:
        coded = CodedGradient(model, loss, WIDE, stream=stream, batch_size=80, ending=Quorum(0.75))
        for step in range(3):
            model.zero_grad()
            value = coded.backward()
            came = np.concatenate([coded.batch(step, chunk) for chunk in range(4) if chunk != place])
            assert coded.residual == pytest.approx((1 / 3) ** 0.5)  # three weights of 4/3, and one of 0
            found = gradients(model)
            wanted, expected = plain_gradient(deepcopy(model), loss, WIDE, came)
            assert apart(found, wanted) < 1e-9
            assert float(value) == pytest.approx(float(expected))


def test_gradients_are_exact_by_default_and_sizes_do_not_go_with_an_ending(stream):
    model = perceptron(torch.float32)
    with CodedGradient(model, CROSS, DATA, stream=stream) as coded:
        coded.backward()
        assert coded.residual == 0.0
    with pytest.raises(ArgumentError, match="ending: not allowed with sizes='speed'"):
        CodedGradient(model, CROSS, DATA, stream=stream, sizes="speed", ending=Deadline(1.0))
