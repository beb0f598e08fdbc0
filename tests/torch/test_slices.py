"""Chunks that a device has not the memory for are passed in slices, where that is the same."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

import echelon as ec
from echelon.torch import CodedGradient, Evaluation, seeded
from tests.torch.networks import chunk_by_chunk, digits, near, parts_of

CROSS, WIDE = nn.CrossEntropyLoss(), digits(np.float64)


class Small(nn.Linear):
    """A layer for which the device has memory for so many samples at once."""

    def __init__(self, most, tried):
        super().__init__(64, 10, dtype=torch.float64)
        self.most, self.tried = most, tried

    def __deepcopy__(self, memo):
        one = Small(self.most, self.tried)
        one._parameters = {name: deepcopy(value, memo) for name, value in self._parameters.items()}
        return one

    def forward(self, inputs):
        self.tried.append(len(inputs))
        if len(inputs) > self.most:
            raise torch.cuda.OutOfMemoryError(f"{len(inputs)} samples")
        return super().forward(inputs)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("most", [17, 7, 2])
def test_what_does_not_fit_is_passed_in_slices(stream, most, reduction):
    """Some rows are two chunks of 15: chunk by chunk, then in slices, and from then on so at once."""
    tried, loss = [], nn.CrossEntropyLoss(reduction=reduction)
    torch.manual_seed(1)
    model = Small(most, tried)
    plain = nn.Linear(64, 10, dtype=torch.float64)
    plain.load_state_dict(model.state_dict())
    with CodedGradient(model, loss, WIDE, stream=stream, batch_size=60) as coded:
        for step in range(3):
            value = loss(
                plain(torch.as_tensor(WIDE[0])[coded.batch(step)]), torch.as_tensor(WIDE[1])[coded.batch(step)]
            )
            plain.zero_grad()
            value.backward()
            model.zero_grad()
            assert float(coded.backward()) == pytest.approx(float(value.detach()), rel=1e-10)
            near(model, plain, 1e-9)
    failed = [count for count in tried if count > most]
    assert failed or most > 15  # three rows of single chunks may do
    assert failed == sorted(set(failed), reverse=True)  # what failed is not tried again, nor anything larger


@pytest.mark.parametrize("most", [17, 1])
def test_an_evaluation_that_does_not_fit_is_passed_in_slices(plain_stream, most):
    torch.manual_seed(1)
    model, metric = Small(most, tried := []), lambda outputs, targets: (outputs.argmax(dim=1) == targets).sum()
    with Evaluation(model, CROSS, WIDE, stream=plain_stream, batch_size=90, metric=metric) as evaluation:
        found = evaluation.run()
        del tried[:]
        assert evaluation.run() == found
    assert max(tried) <= most  # what failed is not tried again
    plain = nn.Linear(64, 10, dtype=torch.float64)
    plain.load_state_dict(model.state_dict())
    outputs = plain(torch.as_tensor(WIDE[0])).detach()
    assert found.loss == pytest.approx(float(CROSS(outputs, torch.as_tensor(WIDE[1]))), rel=1e-10)
    assert found.metric == pytest.approx(float(metric(outputs, torch.as_tensor(WIDE[1]))) / len(outputs), rel=1e-10)


def test_an_evaluation_of_which_no_sample_fits_is_refused(plain_stream):
    with (
        Evaluation(Small(0, []), CROSS, WIDE, stream=plain_stream) as evaluation,
        pytest.raises(ec.JobFailed, match="batch_size: 1 samples do not fit into the memory of cpu; must be fewer"),
    ):
        evaluation.run()


def test_a_function_that_reads_chunks_is_passed_in_slices_too(plain_stream):
    model = Small(7, [])
    torch.manual_seed(1)

    def batches(step, chunk):
        return torch.as_tensor(WIDE[0])[chunk * 20 : chunk * 20 + 10 + chunk], torch.as_tensor(WIDE[1])[
            chunk * 20 : chunk * 20 + 10 + chunk
        ]

    plain = nn.Linear(64, 10, dtype=torch.float64)
    plain.load_state_dict(model.state_dict())
    parts = [np.arange(chunk * 20, chunk * 20 + 10 + chunk) for chunk in range(3)]
    with CodedGradient(model, CROSS, batches, stream=plain_stream) as coded:
        assert float(coded.backward()) == pytest.approx(chunk_by_chunk(plain, CROSS, WIDE, parts), rel=1e-10)
        near(model, plain, 1e-9)


def test_what_can_not_be_sliced_is_refused_and_says_why(stream):
    norm = nn.Sequential(Small(7, []), nn.BatchNorm1d(10, dtype=torch.float64))
    with CodedGradient(norm, CROSS, WIDE, stream=stream, batch_size=60) as coded:
        with pytest.raises(
            ec.JobFailed, match="do not fit into the memory of cpu, and can't be passed in slices, since"
        ):
            coded.backward()
        norm.eval()  # samples no longer depend on each other: slices are fine
        coded.backward()
        norm.train()  # and now they do: what was learnt of the memory must not slice them
        with pytest.raises(ec.JobFailed, match="can't be passed in slices"):
            coded.backward()
    dropping = nn.Sequential(nn.Dropout(0.3), Small(7, []))
    with (
        CodedGradient(dropping, CROSS, WIDE, stream=stream, batch_size=60) as coded,
        pytest.raises(ec.JobFailed, match="not allowed where the model draws and several workers compute a chunk"),
    ):
        coded.backward()


def test_dropout_in_slices_is_fine_where_each_chunk_is_of_one_worker(plain_stream):
    model = nn.Sequential(nn.Dropout(0.3), Small(7, []))
    torch.manual_seed(1)
    other = nn.Sequential(nn.Dropout(0.3), nn.Linear(64, 10, dtype=torch.float64))
    other.load_state_dict(model.state_dict())
    with CodedGradient(
        model, CROSS, WIDE, stream=plain_stream, batch_size=60, sizes=[1, 1, 1], seed=2
    ) as coded:  # fmt: skip
        value, total = coded.backward(), 0.0
        for chunk, part in enumerate(parts_of(coded, 0)):
            with seeded(2, 0, chunk):  # 20 samples: first it fails, then 10 are too many, then slices of 5
                for piece in np.split(part, 4):
                    one = CROSS(other(torch.as_tensor(WIDE[0])[piece]), torch.as_tensor(WIDE[1])[piece]) / 12
                    one.backward()
                    total += float(one.detach())
    assert float(value) == pytest.approx(total, rel=1e-10)
    near(model, other, 1e-9)
