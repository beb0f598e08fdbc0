"""Settings of torch that change numbers: workers compute by those of the program, at the time it asks."""

import pickle
from contextlib import contextmanager, suppress
from functools import partial

import pytest
import torch
from torch import nn

from echelon.torch import CodedGradient, Evaluation, LocalSGD
from echelon.torch.numerics import computing_by, numerics
from echelon.torch.seeding import Asking

PRECISIONS = ["highest", "high", "medium"]
DATA = torch.ones(12, 1), torch.zeros(12, 1)


class Telling(nn.Module):
    """Its outputs tell by which settings it was passed."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, inputs):
        told = 1 + PRECISIONS.index(torch.get_float32_matmul_precision())
        told += 10 * torch.are_deterministic_algorithms_enabled()
        told += 100 * (torch.zeros(1).dtype == torch.float64)
        told += 1000 * (not torch.backends.cuda.flash_sdp_enabled())
        return inputs * self.weight * told


def out(outputs, targets):
    return outputs.mean()


@contextmanager
def settings(precision="highest", deterministic=False, dtype=torch.float32, flash=True):
    torch.set_float32_matmul_precision(precision)
    torch.use_deterministic_algorithms(deterministic)
    torch.set_default_dtype(dtype)
    torch.backends.cuda.enable_flash_sdp(flash)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.use_deterministic_algorithms(False)
        torch.set_default_dtype(torch.float32)
        torch.backends.cuda.enable_flash_sdp(True)


CHANGED = [
    ({"precision": "high"}, 2),
    ({"precision": "medium", "deterministic": True}, 13),
    ({"dtype": torch.float64}, 101),
    ({"flash": False}, 1001),
    ({}, 1),
]


def test_gradients_are_computed_by_the_settings_of_the_time(processes):
    model = Telling()
    with CodedGradient(model, out, DATA, stream=processes) as coded:
        for changed, told in CHANGED:
            model.zero_grad()
            with settings(**changed):
                loss = coded.backward()
            assert float(loss) == pytest.approx(told)
            assert float(model.weight.grad) == pytest.approx(told)


def test_evaluations_are_computed_by_the_settings_of_the_time(processes):
    with Evaluation(Telling(), out, DATA, stream=processes) as evaluation:
        for changed, told in CHANGED:
            with settings(**changed):
                assert evaluation.run().loss == pytest.approx(told)


def test_local_steps_are_made_by_the_settings_of_the_time(processes):
    model = Telling()
    with LocalSGD(
        model, out, DATA, stream=processes, optimizer=partial(torch.optim.SGD, lr=0.0), steps=1, batch_size=4
    ) as local:
        for changed, told in CHANGED:
            with settings(**changed):
                assert local.round().loss == pytest.approx(told)


def test_threads_leave_the_settings_of_their_process_alone_and_other_processes_take_those_of_the_question():
    with settings("high"):
        asking = Asking()
    elsewhere = pickle.loads(pickle.dumps(asking))
    with settings("medium"):
        with asking.turn():
            assert torch.get_float32_matmul_precision() == "medium"
        with elsewhere.turn():
            assert torch.get_float32_matmul_precision() == "high"
        assert torch.get_float32_matmul_precision() == "medium"


class Ones(torch.utils.data.Dataset):
    """Its items are as wide as the default type is when they are read."""

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return torch.ones(1).element_size() * torch.ones(1, dtype=torch.float32), torch.zeros(1, dtype=torch.float32)


@pytest.mark.parametrize("loaders", [0, 1])
def test_items_are_read_by_the_settings_of_the_time_also_ahead(processes, loaders):
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    with CodedGradient(model, out, Ones(), stream=processes, loaders=loaders, batch_size=6) as coded:
        for dtype, told in ((torch.float32, 4), (torch.float64, 8), (torch.float64, 8), (torch.float32, 4)):
            with settings(dtype=dtype):
                assert float(coded.backward()) == pytest.approx(told)


def test_a_worker_is_afterwards_as_it_was_before():
    with settings("medium", deterministic=True):
        wanted = numerics()
    before = numerics()
    assert before != wanted
    with computing_by(wanted):
        assert numerics() == wanted
    assert numerics() == before
    with suppress(KeyError), computing_by(wanted):
        raise KeyError
    assert numerics() == before
    with computing_by(before):  # and what is computed there changes them
        torch.set_float32_matmul_precision("high")
    assert numerics() == before


def test_whether_products_of_half_precision_are_reduced_in_it_is_taken_over():
    products, before = torch.backends.cuda.matmul, numerics()
    split = hasattr(products, "allow_bf16_reduced_precision_reduction_split_k")
    attention = torch.backends.cuda if hasattr(torch.backends.cuda, "allow_fp16_bf16_reduction_math_sdp") else None
    try:
        products.allow_bf16_reduced_precision_reduction = (False, False) if split else False
        if attention:
            attention.allow_fp16_bf16_reduction_math_sdp(True)
        wanted = numerics()
    finally:
        products.allow_bf16_reduced_precision_reduction = (True, True) if split else True
        if attention:
            attention.allow_fp16_bf16_reduction_math_sdp(False)
    assert numerics() == before
    with computing_by(wanted):
        assert not products.allow_bf16_reduced_precision_reduction
        assert not split or not products.allow_bf16_reduced_precision_reduction_split_k
        assert attention is None or attention.fp16_bf16_reduction_math_sdp_allowed()
    assert numerics() == before


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="a torch from before these names")
def test_settings_of_a_whole_backend_come_before_those_of_its_products():
    """A worker that begins with another precision of cuDNN's must not end with it in products."""
    torch.set_float32_matmul_precision("highest")
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    kept = convolutions.fp32_precision, products.fp32_precision
    try:
        convolutions.fp32_precision, products.fp32_precision = "none", "tf32"
        wanted = numerics()
        products.fp32_precision, convolutions.fp32_precision = "none", "tf32"
        with computing_by(wanted):
            assert (convolutions.fp32_precision, products.fp32_precision) == ("none", "tf32")
    finally:
        convolutions.fp32_precision, products.fp32_precision = kept
        torch.set_float32_matmul_precision("highest")


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="a torch from before these names")
def test_precision_by_torchs_newer_names_is_taken_over_and_given_back():
    """torch refuses to tell the older ones where both were used."""
    torch.set_float32_matmul_precision("highest")  # sets the newer ones, too
    before = numerics()
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        mixed = numerics()
    finally:
        torch.set_float32_matmul_precision("highest")
    assert numerics() == before
    with computing_by(mixed):
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    assert numerics() == before
