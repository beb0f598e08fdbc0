"""Models, data and plain loops of torch that coded training is held against."""

import os
import random
import signal
from contextlib import nullcontext
from pathlib import Path
from threading import get_native_id
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset, IterableDataset, default_collate

from echelon.torch import seeded
from echelon.torch.items import drawing


def digits(dtype=np.float32, samples=300):
    """Real pictures of 8 x 8 pixels, from 0 to 1, and what they show."""
    from sklearn.datasets import load_digits  # not at the top: workers import this module, too

    pixels, labels = load_digits(return_X_y=True)
    return (pixels[:samples] / 16).astype(dtype), labels[:samples]


def perceptron(dtype=torch.float32, *more):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), *more, nn.Linear(32, 10)).to(dtype)


def convolutions(dtype=torch.float32):
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 6, 3), nn.GroupNorm(2, 6), nn.GELU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(54, 10),
    ).to(dtype)  # fmt: skip


def parts_of(coded, step):
    return [coded.batch(step, chunk) for chunk in range(coded.chunks)]


def near(model, other, precise):
    """Compare gradients, by the largest entry of all: the bias before a norm has none but rounding."""
    pairs = [(one.grad, two.grad) for one, two in zip(model.parameters(), other.parameters(), strict=True)]
    assert [one is None for one, _ in pairs] == [two is None for _, two in pairs]
    there = [(one.double(), two.double()) for one, two in pairs if two is not None]
    scale = max(float(two.abs().max()) for _, two in there)
    assert max(float((one - two).abs().max()) for one, two in there) <= precise * scale


class Tied(nn.Module):
    """An autoencoder whose decoder is its encoder turned round, with a buffer, and a layer that nobody asks."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.inner, self.outer = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
        self.outer.weight = self.inner.weight
        self.unused = nn.Linear(2, 2)
        self.register_buffer("scale", torch.full((64,), 0.5))
        self.register_buffer("order", torch.arange(64).flip(0))

    def forward(self, inputs):
        return self.outer(torch.tanh(self.inner(inputs[:, self.order]))) * self.scale


class Dropping(nn.Module):
    """Chance that no module shows."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.layer = nn.Linear(64, 10)

    def forward(self, inputs):
        return functional.dropout(self.layer(inputs), 0.3, self.training)


class Paired(nn.Module):
    """Outputs that are not a tensor."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.layer = nn.Linear(64, 10)

    def forward(self, inputs):
        return {"scores": self.layer(inputs)}


def scored(outputs, targets):
    return functional.cross_entropy(outputs["scores"], targets)


class Counting(nn.Linear):
    """A forward pass that writes."""

    def __init__(self):
        super().__init__(64, 10)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs):
        self.calls += 1
        return super().forward(inputs)


class Deadly(nn.CrossEntropyLoss):
    """A loss that kills the worker that computes it, once for every time that its file is there."""

    def __init__(self, path: Path):
        super().__init__()
        self.path = path

    def forward(self, outputs, targets):
        try:
            self.path.unlink()
        except FileNotFoundError:
            return super().forward(outputs, targets)
        os.kill(os.getpid(), signal.SIGKILL)


def threads_seen(outputs, targets):
    """A loss that says how many threads torch has."""
    return outputs.mean() * 0 + torch.get_num_threads()


def plain_gradient(model, loss, data, numbers):
    """Gradients and loss by one backward pass."""
    model.zero_grad()
    value = loss(model(torch.as_tensor(data[0])[numbers]), torch.as_tensor(data[1])[numbers])
    value.backward()
    return [None if weight.grad is None else weight.grad.clone() for weight in model.parameters()], value.detach()


def chunk_by_chunk(model, loss, data, parts, seed=None, step=0):
    """Gradients and loss of a mean over samples, chunk after chunk; collected statistics change by their mean."""
    inputs, targets = map(torch.as_tensor, data)
    before = [buffer.clone() for buffer in model.buffers()]
    changes = [torch.zeros_like(buffer, dtype=torch.float64) for buffer in before]
    whole, there = sum(map(len, parts)), sum(len(part) > 0 for part in parts)
    model.zero_grad()
    total = 0.0
    for chunk, part in enumerate(parts):
        if not len(part):
            continue
        with nullcontext() if seed is None else seeded(seed, step, chunk):
            value = loss(model(inputs[part]), targets[part]) * (len(part) / whole)
        value.backward()
        total += float(value.detach())
        for buffer, old, change in zip(model.buffers(), before, changes, strict=True):
            change += (buffer - old) / there
            buffer.copy_(old)
    for buffer, change in zip(model.buffers(), changes, strict=True):
        buffer += change.to(buffer.dtype)
    return total


def plain_training(model, loss, data, optimizer, coded, steps, seed=None):
    """Losses of a plain loop over the same mini-batches; with a seed, chunk by chunk with the same chance."""
    inputs, targets = map(torch.as_tensor, data)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        batch = coded.batch(step)
        for chunk in range(1 if seed is None else coded.chunks):
            numbers = batch if seed is None else coded.batch(step, chunk)
            if not len(numbers):
                continue
            with nullcontext() if seed is None else seeded(seed, step, chunk):
                part = loss(model(inputs[numbers]), targets[numbers]) * (len(numbers) / len(batch))
            part.backward()
            total += float(part.detach())
        optimizer.step()
        losses.append(total)
    return np.array(losses)


class Augmented(Dataset):
    """Made pictures, turned and blurred by chance from all three generators; it notes in a folder what it reads."""

    def __init__(self, samples=40, folder=None):
        self.samples, self.folder = samples, folder

    def __len__(self):
        return self.samples

    def __getitem__(self, number):
        if self.folder is not None:
            with (Path(self.folder) / f"{os.getpid()}-{get_native_id()}").open("a") as file:
                file.write(f"{number}\n")
        pixels = torch.linspace(-1, 1, 64, dtype=torch.float64).roll(3 * number)
        pixels = pixels.flip(0) if random.random() < 0.5 else pixels
        drawn = np.random.default_rng(np.random.randint(2**31)).normal(size=64)  # noqa: NPY002  as transforms do
        return pixels + 0.1 * torch.rand(64, dtype=torch.float64) + 0.1 * torch.from_numpy(drawn), number % 10

    def read(self):
        """What was read so far, by process and thread."""
        return {path.name: list(map(int, path.read_text().split())) for path in Path(self.folder).iterdir()}


class Failing(Augmented):
    """A dataset that can't read one of its items."""

    def __getitem__(self, number):
        if number == 7:
            raise OSError("item 7 can't be read")
        return super().__getitem__(number)


class Words(Dataset):
    """Texts of 1 to 9 words."""

    def __len__(self):
        return 30

    def __getitem__(self, number):
        return {"words": torch.arange(number, number + 1 + number * 7 % 9) % 20, "label": number % 3}


def padded(items):
    """Texts as one tensor, in which some words are hidden by chance."""
    words = nn.utils.rnn.pad_sequence([item["words"] for item in items], batch_first=True, padding_value=20)
    hidden = torch.rand(words.shape) < 0.2
    return {
        "words": words.masked_fill(hidden & (words < 20), 21),
        "label": torch.tensor([one["label"] for one in items]),
    }


class Reader(nn.Module):
    """A classifier of texts, padding left out, that returns its loss in one of the forms in which models do."""

    def __init__(self, form="dict"):
        super().__init__()
        torch.manual_seed(6)
        self.words, self.head, self.form = nn.Embedding(22, 8, padding_idx=20), nn.Linear(8, 3), form
        self.double()

    def forward(self, words, label):
        there = (words < 20).sum(1, keepdim=True).clamp_min(1)
        scores = self.head(self.words(words).sum(1) / there)
        loss = functional.cross_entropy(scores, label)
        return {
            "dict": {"loss": loss, "logits": scores}, "object": SimpleNamespace(loss=loss, logits=scores),
            "tuple": (loss, scores), "number": loss, "vector": loss[None],
        }[self.form]  # fmt: skip


class Endless(IterableDataset):
    """Numbered items, each drawn by chance, in an order that changes by epoch; its iterator is the dataset itself."""

    def __init__(self, samples, start=0, stride=1):
        self.samples, self.start, self.stride, self.epoch = samples, start, stride, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        self.at = self.start
        return self

    def __next__(self):
        if self.at >= self.samples:
            raise StopIteration
        number, self.at = (self.at + 5 * self.epoch) % self.samples, self.at + self.stride
        return torch.full((64,), number / self.samples, dtype=torch.float64) + torch.rand(64), number % 10


class Sharded(Endless):
    """The same, which hands out shards."""

    def shard(self, count, index):
        one = Sharded(self.samples, index, count)
        one.epoch = self.epoch
        return one


class Block(nn.Module):
    """Two convolutions with BatchNorm, and a way round them."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.around = nn.Sequential()
        if stride > 1 or before != after:
            self.around = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, inputs):
        inner = self.norms[1](self.second(torch.relu(self.norms[0](self.first(inputs)))))
        return torch.relu(inner + self.around(inputs))


def resnet18(width=64, dtype=torch.float64):
    """ResNet-18 for small pictures: four stages of two blocks each."""
    torch.manual_seed(8)
    layers, before = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()], width
    for stage in range(4):
        for stride in (2 if stage else 1, 1):
            layers.append(Block(before, width << stage, stride))
            before = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10)).to(dtype)


class Pictures(Dataset):
    """Made pictures of 10 kinds, shifted and mirrored by chance, as loaders of pictures do it."""

    def __init__(self, samples=600, pixels=16):
        self.samples, self.pixels = samples, pixels

    def __len__(self):
        return self.samples

    def __getitem__(self, number):
        made = np.random.default_rng(number % 10).normal(size=(3, self.pixels, self.pixels))
        noise = np.random.default_rng(10 + number).normal(size=made.shape)
        picture = functional.pad(torch.from_numpy(made + 0.5 * noise), (2, 2, 2, 2))
        top, left = random.randrange(5), int(torch.randint(5, ()))
        picture = picture[:, top : top + self.pixels, left : left + self.pixels]
        return picture.flip(2) if np.random.rand() < 0.5 else picture, number % 10  # noqa: NPY002


def read_by_chunk(dataset, coded, step, seed, collate=default_collate):
    """The chunks of a step, read item by item as workers read them."""
    chunks = []
    with drawing(seed, step // coded.steps_per_epoch) as draw:
        for chunk in range(coded.chunks):
            items, numbers = [], coded.batch(step, chunk).tolist()
            for number in numbers:
                draw(number)
                items.append(dataset[number])
            draw(numbers[0])
            chunks.append(collate(items))
    return chunks


def one_after_another(model, loss, batches):
    """Gradients and loss of a mean over samples of batches of inputs and targets; statistics change by their mean."""
    inputs, targets = (torch.cat(some) for some in zip(*batches, strict=True))
    ends = np.cumsum([len(batch[1]) for batch in batches])
    parts = [np.arange(end - len(batch[1]), end) for batch, end in zip(batches, ends, strict=True)]
    return chunk_by_chunk(model, loss, (inputs, targets), parts)
