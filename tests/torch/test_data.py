"""Data that workers read themselves, in all its forms: gradients of a plain loop over the same samples."""

import random
from copy import copy
from itertools import islice

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, default_collate

import echelon as ec
from echelon.errors import ArgumentError
from echelon.torch import CodedGradient
from echelon.torch.items import drawing
from tests.torch.networks import (
    Augmented,
    Endless,
    Failing,
    Reader,
    Sharded,
    Words,
    digits,
    padded,
    perceptron,
    read_by_chunk,
)

CROSS, WIDE = nn.CrossEntropyLoss(), digits(np.float64)
WIDE = tuple(map(torch.as_tensor, WIDE))


def passed(model, loss, batches):
    """The loss and the gradients of a mean over all samples of some batches, one after another."""
    model.zero_grad()
    whole = sum(len(batch[1]) if loss else len(batch["label"]) for batch in batches)
    total = 0.0
    for batch in batches:
        value = loss(model(batch[0]), batch[1]) if loss else model(**batch)["loss"]
        part = value * (len(batch[1] if loss else batch["label"]) / whole)
        part.backward()
        total += float(part.detach())
    return total, [weight.grad.clone() for weight in model.parameters()]


def same(model, coded, wanted, batch=None):
    """Take a step, and compare it with the loss and the gradients of a plain loop."""
    model.zero_grad()
    assert float(coded.backward(batch)) == pytest.approx(wanted[0], rel=1e-10)
    for weight, other in zip(model.parameters(), wanted[1], strict=True):
        torch.testing.assert_close(weight.grad, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cluster", ["stream", "processes"])
def test_items_are_drawn_by_seed_epoch_and_index_wherever_they_are_read(cluster, request, tmp_path):
    """Redundancy lets two workers read an item: what they combine only decodes to this if they drew the same."""
    stream, model, data = request.getfixturevalue(cluster), perceptron(torch.float64), Augmented(folder=tmp_path)
    plain = Augmented()
    with CodedGradient(model, CROSS, data, stream=stream, batch_size=15, seed=4) as coded:
        for step in range(4):  # into the second epoch
            same(model, coded, passed(model, CROSS, read_by_chunk(plain, coded, step, 4)))
    seen = data.read()
    assert len(seen) > 1
    assert sum(map(len, seen.values())) > 55  # more than once, by redundancy


def test_draws_change_with_the_epoch_and_the_seed_and_leave_the_generators_alone():
    found = []
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    for seed, epoch, number in ((1, 0, 5), (1, 1, 5), (2, 0, 5), (1, 0, 6), (1, 0, 5), (1, 10**6, 10**9)):
        with drawing(seed, epoch) as seeded:
            seeded(number)
            found.append((random.random(), float(np.random.rand()), float(torch.rand(()))))  # noqa: NPY002
    assert found[0] == found[4]
    assert len({one for draws in found for one in draws}) == 15
    assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # noqa: NPY002


def test_a_worker_reads_the_items_of_its_chunks_and_no_others(tmp_path):
    """A dataset that would not fit into memory: of a million items, a step reads 40."""
    data = Augmented(10**6, tmp_path)
    with (
        ec.Stream("threads", workers=4, redundancy=1.0, patience_s=60.0) as stream,
        CodedGradient(perceptron(torch.float64), CROSS, data, stream=stream, batch_size=40) as coded,
    ):
        coded.backward()
        wanted = [sorted(coded.batch(0, chunk).tolist()) for chunk in range(4)]
    assert sorted(map(sorted, data.read().values())) == sorted(wanted)


@pytest.mark.parametrize("form", ["dict", "object", "tuple", "number", "vector"])
def test_texts_are_padded_and_hidden_chunk_by_chunk_and_the_model_returns_its_loss(stream, form):
    model, plain = Reader(form), Reader()
    with CodedGradient(model, None, Words(), stream=stream, batch_size=12, collate=padded, seed=3) as coded:
        for step in range(4):
            chunks = read_by_chunk(Words(), coded, step, 3, padded)
            assert step or len({chunk["words"].shape[1] for chunk in chunks}) > 1  # of different lengths
            same(model, coded, passed(plain, None, chunks))


def test_collate_must_keep_items_apart(stream):
    def merged(items):
        return torch.stack([item[0] for item in items]).mean(0, keepdim=True), torch.zeros(1)

    with (
        CodedGradient(perceptron(torch.float64), CROSS, Augmented(), stream=stream, collate=merged) as coded,
        pytest.raises(ec.JobFailed, match=r"collate: it made 1 samples of \d+ items, which is not allowed"),
    ):
        coded.backward()


@pytest.mark.parametrize("cluster", ["stream", "processes"])
def test_an_item_that_can_not_be_read_fails_the_step_with_its_traceback(cluster, request):
    stream = request.getfixturevalue(cluster)
    with (
        CodedGradient(perceptron(torch.float64), CROSS, Failing(), stream=stream) as coded,
        pytest.raises(ec.JobFailed, match="item 7 can't be read") as caught,
    ):
        coded.backward()
    assert "in __getitem__" in caught.value.traceback


def test_a_list_of_items_is_a_dataset(stream):
    model, items = perceptron(torch.float64), [(WIDE[0][number], int(WIDE[1][number])) for number in range(30)]
    with CodedGradient(model, CROSS, items, stream=stream, batch_size=10) as coded:
        numbers = coded.batch(0)
        same(model, coded, passed(model, CROSS, [(WIDE[0][numbers], WIDE[1][numbers])]))
    named = [{"words": one["words"], "labels": one["labels"]} for one in map(_item, range(8))]
    model = Labelled()
    with CodedGradient(model, None, named, stream=stream, reduction="mean") as coded:
        assert (coded.steps_per_epoch, len(coded.batch(0))) == (1, 8)
        coded.backward()


def _item(number):
    return {name: one[number] for name, one in PADDED.items()}


def function_of_chunks(step, chunk):
    """Chunks of 0 to 6 samples, some in their own words for none; with noise that nobody seeded."""
    size = (step + 3 * chunk) % 7
    if not size:
        return None
    numbers = (torch.arange(size) + 50 * chunk + step) % 300
    return WIDE[0][numbers] + 0.1 * torch.rand(size, 64, dtype=torch.float64), WIDE[1][numbers]


@pytest.mark.parametrize("chunks", [4, 7])
def test_a_function_of_step_and_chunk_gives_a_mean_over_all_samples(stream, chunks):
    model = perceptron(torch.float64)
    with CodedGradient(model, CROSS, function_of_chunks, stream=stream, chunks=chunks, seed=6) as coded:
        for step in range(8):
            batches = []
            with drawing(6, step) as seeded:
                for chunk in range(chunks):
                    seeded(chunk)
                    batches.append(function_of_chunks(step, chunk))
            same(model, coded, passed(model, CROSS, [batch for batch in batches if batch is not None]))
        assert (coded.epoch, coded.steps_per_epoch) == (None, None)
        with pytest.raises(ArgumentError, match="data: its samples have no numbers"):
            coded.batch(0)


def test_a_step_without_samples_is_refused(stream):
    with (
        CodedGradient(perceptron(), CROSS, lambda step, chunk: None, stream=stream) as coded,
        pytest.raises(ArgumentError, match="data: no chunk of this step has samples"),
    ):
        coded.backward()


def test_a_function_may_read_a_file_that_is_mapped_into_memory(processes, tmp_path):
    path = tmp_path / "inputs.npy"
    np.save(path, WIDE[0].numpy())
    mapped = np.load(path, mmap_mode="r")

    def batches(step, chunk):
        rows = slice(30 * chunk + step, 30 * chunk + step + 9)
        return mapped[rows], np.asarray(WIDE[1])[rows]

    model = perceptron(torch.float64)
    with CodedGradient(model, CROSS, batches, stream=processes) as coded:
        for step in range(2):
            same(
                model, coded, passed(model, CROSS, [tuple(map(torch.tensor, batches(step, c))) for c in range(3)])
            )  # fmt: skip


def iterated(dataset, chunk, chunks, size, seed):
    """What the documented rule says that a chunk takes, step by step."""

    def items():
        mine, epoch = copy(dataset), 0
        while True:
            mine.set_epoch(epoch)
            yield from mine.shard(chunks, chunk) if hasattr(mine, "shard") else islice(mine, chunk, None, chunks)
            epoch += 1

    going, number = items(), 0
    while True:
        found = []
        with drawing(seed, chunk) as seeded:
            for _ in range(size):
                seeded(number)
                found.append(next(going))
                number += 1
        yield default_collate(found)


@pytest.mark.parametrize("cluster", ["stream", "processes"])
@pytest.mark.parametrize("dataset", [Endless(43), Sharded(43), Endless(5)], ids=["whole", "shards", "short"])
def test_data_without_an_index_is_shared_out_among_chunks(cluster, dataset, request):
    stream, model = request.getfixturevalue(cluster), perceptron(torch.float64)
    chunks = stream.workers
    with CodedGradient(model, CROSS, dataset, stream=stream, batch_size=3 * chunks, seed=2) as coded:
        plain = [iterated(dataset, chunk, chunks, 3, 2) for chunk in range(chunks)]
        wanted = [passed(model, CROSS, [next(one) for one in plain]) for _ in range(7)]  # over several epochs
        for step in range(7):
            same(model, coded, wanted[step])
        coded.step = 2  # back
        same(model, coded, wanted[2])


def test_a_worker_that_dies_and_its_successor_read_the_same_of_data_without_an_index(processes):
    model, dataset = perceptron(torch.float64), Sharded(100)
    with CodedGradient(model, CROSS, dataset, stream=processes, batch_size=12, seed=2) as coded:
        plain = [iterated(dataset, chunk, 3, 4, 2) for chunk in range(3)]
        for step in range(8):
            if step in (3, 5):
                processes._cluster.kill(max(processes._cluster.pids()))
            same(model, coded, passed(model, CROSS, [next(one) for one in plain]))


def test_data_without_items_for_a_chunk_is_refused(stream):
    with (
        CodedGradient(perceptron(torch.float64), CROSS, Endless(2), stream=stream, batch_size=4) as coded,
        pytest.raises(ec.JobFailed, match=r"data: chunk [23] of 4 has no items"),
    ):
        coded.backward()


@pytest.mark.parametrize("cluster", ["stream", "processes"])
def test_batches_are_handed_in_by_the_loop_itself(cluster, request):
    """A loader of torch over 50 samples: the last batch is ragged."""
    stream, model = request.getfixturevalue(cluster), perceptron(torch.float64)
    loader = DataLoader(TensorDataset(WIDE[0][:50], WIDE[1][:50]), batch_size=16, shuffle=True)
    with CodedGradient(model, CROSS, None, stream=stream) as coded:
        sizes = []
        for batch in loader:
            sizes.append(len(batch[0]))
            same(model, coded, passed(model, CROSS, [batch]), batch)
    assert sizes == [16, 16, 16, 2]


def test_batches_by_name_and_narrow_ones_are_handed_in_too(stream):
    model, plain = Reader("object"), Reader()
    batch = padded([Words()[number] for number in range(11)])
    with CodedGradient(model, None, None, stream=stream) as coded:
        same(model, coded, passed(plain, None, [batch]), batch)
    model = perceptron(torch.bfloat16)
    with CodedGradient(model, CROSS, None, stream=stream) as coded:
        value = coded.backward((WIDE[0][:20].bfloat16(), WIDE[1][:20]))
        wanted = CROSS(model(WIDE[0][:20].bfloat16()).float(), WIDE[1][:20])
    assert float(value) == pytest.approx(float(wanted.detach()), rel=0.01)


class Summing(nn.Linear):
    """A model of several inputs."""

    def __init__(self):
        super().__init__(64, 10, dtype=torch.float64)

    def forward(self, left, right, scale=1.0):
        return super().forward(left - scale * right)


@pytest.mark.parametrize("named", [False, True])
def test_models_take_several_inputs_by_position_or_by_name(stream, named):
    left, right, scale = WIDE[0], WIDE[0].flip(0), torch.rand(300, 1, dtype=torch.float64)
    torch.manual_seed(1)
    model = Summing()
    inputs = {"right": right, "left": left, "scale": scale} if named else (left, right, scale)
    with CodedGradient(model, CROSS, (inputs, WIDE[1]), stream=stream, batch_size=30) as coded:
        at = coded.batch(0)
        value = CROSS(model(left[at], right[at], scale[at]), WIDE[1][at])
        value.backward()
        same(model, coded, (float(value.detach()), [weight.grad.clone() for weight in model.parameters()]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"data": DataLoader(Augmented())}, "data: a DataLoader is not allowed; must be its dataset, or None"),
        ({"data": (one for one in range(3))}, "data: generator, which can be read once only, is not allowed"),
        ({"data": Augmented}, "data: <class .*Augmented'> is not allowed"),
        ({"data": "digits"}, "data: 'digits' is not allowed"),
        ({"data": 3}, "data: int is not allowed; must be inputs and targets"),
        ({"data": {"x": torch.ones(3, 2)}}, "data: a batch that is a dict is not allowed; must be inputs and targets"),
        ({"data": None, "batch_size": 3}, "batch_size: 3 is not allowed with such data"),
        ({"data": function_of_chunks, "batch_size": 3}, "batch_size: 3 is not allowed with such data"),
        ({"data": Endless(9)}, "batch_size: None is not allowed"),
        ({"data": Endless(9), "batch_size": 6}, "batch_size: 6 is not allowed; must be a multiple of 4"),
        ({"data": Augmented(), "batch_size": 41}, "batch_size: 41 is not allowed; must be at most 40"),
        ({"data": Augmented(), "collate": 3}, "collate: 3 is not allowed; must be a function"),
        ({"loaders": -1}, "loaders: -1 is not allowed"),
        ({"loaders": 1.5}, "loaders: 1.5 is not allowed"),
        ({"loaders": True}, "loaders: True is not allowed"),
        ({"loaders": 1}, "loaders: 1 is not allowed with such data, which is in memory"),
        ({"data": None, "loaders": 1}, "loaders: 1 is not allowed with such data"),
        ({"sizes": "fast"}, "sizes: 'fast' is not allowed; must be one of equal, speed"),
        ({"sizes": None}, "sizes: None is not allowed"),
        ({"sizes": 3}, "sizes: 3 is not allowed; must be 'equal', 'speed', or 4 numbers"),
        ({"sizes": [1, 2]}, "must be 'equal', 'speed', or 4 numbers"),
        ({"sizes": [1, 2, 3, 0]}, r"sizes\[3\]: 0 is not allowed"),
        ({"sizes": [1, 2, 3, "x"]}, r"sizes\[3\]: 'x' is not allowed"),
        ({"sizes": np.array([1, np.nan, 3, 4])}, r"sizes\[1\]: nan is not allowed"),
        ({"sizes": "speed", "chunks": 5}, "must have one chunk per worker"),
        ({"sizes": "speed", "batch_size": 3}, "batch_size: 3 is not allowed with 4 chunks"),
        ({"sizes": "speed", "data": None}, "sizes: 'speed' is not allowed with such data"),
        ({"autocast": "bfloat16"}, "autocast: 'bfloat16' is not allowed; must be torch.bfloat16"),
        ({"autocast": torch.float64}, "autocast: torch.float64 is not allowed"),
        ({"autocast": torch.ones(2)}, "autocast: tensor.* is not allowed"),
        ({"compiled": "yes"}, "compiled: 'yes' is not allowed; must be True, False or options"),
        ({"compiled": None}, "compiled: None is not allowed"),
        ({"compiled": {"bakend": "eager"}}, "compiled: bakend: not allowed; must be among fullgraph"),
    ],
)
def test_what_can_not_be_is_refused_by_its_name(stream, given, said):
    allowed = {"model": perceptron(), "loss": CROSS, "data": digits(), "stream": stream} | given
    model, loss, data = (allowed.pop(name) for name in ("model", "loss", "data"))
    with pytest.raises(ArgumentError, match=said):
        CodedGradient(model, loss, data, **allowed)


@pytest.mark.parametrize(
    ("data", "batch", "said"),
    [
        (None, None, "batch: needed, as the data is None"),
        (WIDE, WIDE, "batch: not allowed; the data is not None"),
        (None, 3, "data: a batch that is a int is not allowed"),
        (None, (1, 2), "batch: tensors of no samples are not allowed"),
        (None, {"x": WIDE[0]}, "data: a batch that is a dict is not allowed"),
        (None, (WIDE[0][:4], WIDE[1][:3]), r"batch: tensors of \[3, 4\] samples are not allowed"),
        (None, (WIDE[0][:0], WIDE[1][:0]), "batch: no samples"),
        (None, (WIDE[0][:2], torch.tensor([-100, 1])), "not allowed with targets that it ignores"),
    ],
)
def test_a_batch_that_can_not_be_is_refused_before_it_travels(stream, data, batch, said):
    with CodedGradient(perceptron(torch.float64), CROSS, data, stream=stream) as coded:
        with pytest.raises(ArgumentError, match=said):
            coded.backward(batch)
        assert coded.step == 0


PADDED = {"words": torch.ones(8, 3), "labels": torch.tensor([[-100, 1, 2]] * 4 + [[1, 2, 3]] * 4)}


class Labelled(nn.Linear):
    """A language model of sorts: the mean over labels that are not -100, or their sum over a number that it is told."""

    def __init__(self):
        super().__init__(3, 3, dtype=torch.float64)

    def forward(self, words, labels, num_items_in_batch=None):
        outputs = super().forward(words.double())
        wanted = (labels != -100).double()
        total = (wanted * (outputs - labels).square()).sum()
        return {"loss": total / (wanted.sum() if num_items_in_batch is None else num_items_in_batch)}


@pytest.mark.parametrize("form", ["arrays", "function", "handed in"])
def test_a_mean_over_tokens_that_are_not_hidden_is_no_mean_over_samples_and_refused(stream, form):
    data = {"arrays": PADDED, "function": lambda step, chunk: PADDED, "handed in": None}[form]
    with pytest.raises((ArgumentError, ec.JobFailed), match="loss: None is not allowed with targets that it ignores"):  # noqa: SIM117
        with CodedGradient(Labelled(), None, data, stream=stream) as coded:
            coded.backward(PADDED if data is None else None)


def test_hidden_tokens_count_by_the_number_of_items_or_chunk_by_chunk(stream):
    model, items = Labelled(), int((PADDED["labels"] != -100).sum())
    wanted = model(**PADDED)["loss"]
    wanted.backward()
    gradients = [weight.grad.clone() for weight in model.parameters()]
    with CodedGradient(model, None, None, stream=stream, reduction="sum") as coded:
        same(model, coded, (float(wanted.detach()), gradients), PADDED | {"num_items_in_batch": items})
    with CodedGradient(model, None, PADDED, stream=stream, reduction="mean") as coded:
        chunks = [{name: one[coded.batch(0, chunk)] for name, one in PADDED.items()} for chunk in range(4)]
        mean = sum(float(model(**chunk)["loss"].detach()) for chunk in chunks) / 4
        assert float(coded.backward()) == pytest.approx(mean, rel=1e-10)
        assert mean != pytest.approx(float(wanted.detach()), rel=1e-3)


@pytest.mark.parametrize("scaler", [3, "x", 65536.0, [], torch.optim.SGD])
def test_a_scaler_is_one_of_torch(stream, scaler):
    with (
        CodedGradient(perceptron(), CROSS, digits(), stream=stream) as coded,
        pytest.raises(ArgumentError, match=r"scaler: .* is not allowed"),
    ):
        coded.backward(scaler=scaler)
