"""Lightning's Trainer trains as it does alone, with gradients from a stream."""

from types import SimpleNamespace

import cloudpickle
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy

import echelon as ec
from echelon.errors import ArgumentError, EchelonError
from echelon.torch import parameters
from echelon.torch.lightning import EchelonGradients, _TrainingStep
from tests.torch.networks import digits

PIXELS, LABELS = map(torch.as_tensor, digits(samples=60))


@pytest.fixture(scope="module", autouse=True)
def one_thread_of_torch():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def stream():
    """One of them is late in every step: threads share torch's generator with the framework, which draws by it, too."""
    with ec.Stream("threads", workers=3, redundancy=1.5) as one:
        yield one


class Digits(LightningModule):
    """What people do in a training step: log, count in a metric, and ask how far training is."""

    def __init__(self, dropout=0.0, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(nn.Linear(64, 24), nn.Tanh(), nn.Dropout(dropout), nn.Linear(24, 10)).to(dtype)
        self.accuracy = MulticlassAccuracy(10)

    def training_step(self, batch, batch_idx):
        pixels, labels = batch["pixels"].to(self.layers[0].weight.dtype), batch["labels"]
        scores = self.layers(pixels)
        assert self.device == scores.device
        loss = nn.functional.cross_entropy(scores, labels) * (1 + 0.1 * self.global_step + 0.2 * self.current_epoch)
        loss = loss + batch_idx / self.trainer.num_training_batches
        self.accuracy(scores, labels)
        self.log("train_loss", loss, prog_bar=True)
        self.log_dict({"accuracy": self.accuracy, "norm": scores.norm()})
        self.logger.experiment.add_scalar("norm", scores.norm()) if self.logger else None
        return {"loss": loss, "scores": scores}

    def validation_step(self, batch, batch_idx):
        scores = self.layers(batch["pixels"].to(self.layers[0].weight.dtype))
        self.log("val_loss", nn.functional.cross_entropy(scores, batch["labels"]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


class Seen(Callback):
    """What the Trainer says of each step, and of validation."""

    def __init__(self):
        self.losses, self.validated = [], []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.losses.append(float(outputs["loss"]))
        logged = float(trainer.callback_metrics["train_loss"])
        assert logged == pytest.approx(self.losses[-1] * trainer.accumulate_grad_batches, rel=1e-6)

    def on_validation_epoch_end(self, trainer, pl_module):
        self.validated.append(float(trainer.callback_metrics["val_loss"]))


class Named(torch.utils.data.Dataset):
    def __len__(self):
        return len(LABELS)

    def __getitem__(self, i):
        return {"pixels": PIXELS[i], "labels": LABELS[i]}


def fitted(module, *callbacks, resume=None, **named):
    """A module that was trained, and what the Trainer said."""
    seen = Seen()
    options = {"max_epochs": 3, "logger": False, "enable_checkpointing": False, "num_sanity_val_steps": 1} | named
    trainer = Trainer(
        accelerator="cpu", devices=1, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[seen, *callbacks], log_every_n_steps=1, **options,
    )  # fmt: skip
    train, check = (DataLoader(Named(), batch_size=size) for size in (14, 30))
    trainer.fit(module, train, check, ckpt_path=resume)
    return module, seen


def flat(module):
    return torch.cat([weight.detach().reshape(-1) for weight in module.parameters()])


def check_alike(stream, make, precise, **named):
    """Train alone and with a stream; losses, validation and weights must be the same."""
    alone, wanted = fitted(make(), **named)
    coded, found = fitted(make(), EchelonGradients(stream), **named)
    assert len(found.losses) == 15
    assert found.losses == pytest.approx(wanted.losses, rel=precise)
    assert found.validated == pytest.approx(wanted.validated, rel=precise)
    assert (flat(alone) - flat(make())).norm() > 0.5
    torch.testing.assert_close(flat(coded), flat(alone), rtol=precise, atol=precise)
    assert coded.accuracy.update_count == 0  # it was the workers' copies that counted
    assert "training_step" not in vars(coded.trainer.strategy)


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5},
        {"accumulate_grad_batches": 4, "gradient_clip_val": 0.01, "gradient_clip_algorithm": "value"},
    ],
    ids=["as it is", "clipped", "clipped by value"],
)
def test_training_is_that_of_the_trainer_alone(stream, named):
    """Batches of 14 on three workers; the last of an epoch has 4."""
    check_alike(stream, Digits, 1e-6, **named)


def test_losses_in_bfloat16_are_those_of_the_trainer_alone_up_to_its_rounding(stream):
    def make():
        return Digits(dtype=torch.float32)

    _, exact = fitted(make())
    _, wanted = fitted(make(), precision="bf16-mixed")
    _, found = fitted(make(), EchelonGradients(stream), precision="bf16-mixed")
    assert found.losses == pytest.approx(wanted.losses, rel=2.0**-6)
    assert abs(found.losses[-1] - exact.losses[-1]) > 1e-5  # it was not float32


@pytest.mark.filterwarnings("ignore:Checkpoint directory")
def test_a_training_goes_on_from_a_checkpoint_with_the_same_dropout(stream, tmp_path):
    def fit(resume=None):
        keep = ModelCheckpoint(tmp_path, every_n_epochs=1, save_top_k=-1, filename="{epoch}", monitor="train_loss")
        return fitted(Digits(0.4), EchelonGradients(stream), keep, resume=resume, enable_checkpointing=True)

    whole, seen = fit()
    again, rest = fit(str(tmp_path / "epoch=1.ckpt"))
    assert rest.losses == pytest.approx(seen.losses[10:], rel=1e-9)
    torch.testing.assert_close(flat(again), flat(whole), rtol=1e-7, atol=1e-9)


class Normed(LightningModule):
    """Returns a bare loss, of a batch by position; has no number of the batch; logs nothing."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.layers = nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))

    def training_step(self, batch):
        return nn.functional.cross_entropy(self.layers(batch[0]), batch[1], reduction="sum")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.001)


def fit_plainly(module, *callbacks, batch_size=20, data=(PIXELS, LABELS), **named):
    options = {"accelerator": "cpu", "devices": 1, "max_epochs": 1, "barebones": True} | named
    trainer = Trainer(callbacks=list(callbacks), **options)
    trainer.fit(module, DataLoader(TensorDataset(*data), batch_size=batch_size))
    return module


def test_sums_are_added_up_and_statistics_collected(stream):
    """With one chunk, batch norm is that of the Trainer alone, and so are its statistics."""
    alone = fit_plainly(Normed())
    coded = fit_plainly(Normed(), EchelonGradients(workers=1, cluster="threads", chunks=1, reduction="sum"))
    for one, other in zip(coded.state_dict().values(), alone.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_a_hull_travels_without_the_trainer(stream):
    """As it does to processes; what is unpickled knows of the trainer what it is told."""
    module, _ = fitted(Digits())
    hull = cloudpickle.loads(cloudpickle.dumps(parameters.hull(_TrainingStep(module))))
    assert hull.module._trainer is None
    hull.module.layers = nn.Sequential(nn.Linear(64, 10), nn.Tanh()).double()
    told = {"global_step": 5, "current_epoch": 2, "num_training_batches": 4}
    batch = {"pixels": PIXELS, "labels": LABELS}
    one, other = (hull((batch, 0), told | {"global_step": step})["loss"] for step in (0, 5))
    assert (other / one).item() == pytest.approx(1.9 / 1.4)
    assert hull.module.trainer.is_global_zero is False
    with pytest.raises(AttributeError, match=r"trainer\.datamodule is not known on the workers"):
        assert hull.module.trainer.datamodule


class Broken(Normed):
    def training_step(self, batch):
        raise KeyError("gone")


class Lost(Normed):
    def training_step(self, batch):
        return None


@pytest.mark.parametrize(("kind", "said"), [(Broken, "gone"), (Lost, "returns NoneType")])
def test_an_error_of_a_step_ends_training_and_leaves_all_as_it_was(kind, said):
    module = kind()
    with pytest.raises(EchelonError) as caught:
        fit_plainly(module, EchelonGradients(cluster="threads", workers=2))
    assert said in f"{caught.value} {caught.value.__cause__!r}"
    assert "training_step" not in vars(module.trainer.strategy)


class Manual(Normed):
    automatic_optimization = False


class Iterating(Normed):
    def training_step(self, dataloader_iter):
        return None


@pytest.mark.parametrize(
    ("module", "named", "said"),
    [
        (Manual, {}, "automatic_optimization: False"),
        (Iterating, {}, "dataloader_iter"),
        (Normed, {"precision": "transformer-engine"}, "precision: 'transformer-engine'"),
        (Normed, {"strategy": DDPStrategy()}, "strategy: DDPStrategy"),
    ],
)
def test_what_can_not_be_the_same_is_refused(stream, module, named, said):
    """Asked as the Trainer asks, which could not run some of it here."""
    plugin = SimpleNamespace(precision=named.get("precision", "32-true"))
    trainer = SimpleNamespace(strategy=named.get("strategy", SingleDeviceStrategy()), precision_plugin=plugin)
    with pytest.raises(ArgumentError, match=said):
        EchelonGradients(stream).on_train_start(trainer, module())


def test_batches_that_can_not_be_cut_are_refused(stream):
    def fit(batch):
        Trainer(accelerator="cpu", max_epochs=1, barebones=True, callbacks=[EchelonGradients(stream)]).fit(
            Normed(), DataLoader([batch], batch_size=None)
        )

    with pytest.raises(ArgumentError, match="a tensor of 9 samples beside one of 60"):
        fit((PIXELS, LABELS, torch.ones(9)))
    with pytest.raises(ArgumentError, match="batch: str is not allowed"):
        fit((PIXELS, LABELS, ["a"] * 60))


def test_arguments_are_looked_at(stream):
    for named, said in (
        ({"stream": 3}, "stream: 3"),
        ({"stream": stream, "workers": 3}, "workers: not allowed together with a stream"),
        ({"seed": -1}, "seed: -1"),
        ({"reduction": "max"}, "reduction: 'max'"),
        ({"log": 3}, "log: 3"),
    ):
        with pytest.raises(ArgumentError, match=said):
            EchelonGradients(**named)
    with pytest.raises(ArgumentError, match="messages: 'narrow'"):
        fit_plainly(Normed(), EchelonGradients(stream, messages="narrow"))
