"""Gradients for Lightning's Trainer: a callback, and the script stays as it is.

Trainer(callbacks=[EchelonGradients(workers=8, redundancy=1.25)]).fit(module, loader)
"""

import inspect
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from echelon import checks
from echelon.errors import ArgumentError
from echelon.schemes import CodedPlan
from echelon.stream import Stream
from echelon.torch.coded_gradient import CodedGradient
from echelon.torch.handed_in import HandedIn, check_cut

if find_spec("lightning") is None:
    raise ModuleNotFoundError(
        "echelon.torch.lightning needs Lightning; pip install 'echelon-compute[lightning]'", name="lightning"
    )

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import SingleDeviceStrategy
from torchmetrics import Metric

_PRECISIONS = {
    "32-true": None, "64-true": None, "bf16-true": None, "16-true": None, "bf16-mixed": torch.bfloat16,
    "16-mixed": torch.float16,
}  # fmt: skip
_TOLD = ("global_step", "current_epoch", "max_epochs", "max_steps", "num_training_batches", "accumulate_grad_batches")


class EchelonGradients(Callback):  # type: ignore[misc]
    """Lets `Trainer.fit` take its gradients from the workers of a stream.

    Workers call the module's own `training_step`, each on some chunks of the batch; the Trainer gets the loss of the
    whole batch, whose `backward` gives it the gradient of that. Optimiser, schedulers, clipping, accumulation,
    `precision="bf16-mixed"`, loggers, checkpoints and validation are the Trainer's, as before. The Trainer must be for
    one device (`Trainer(devices=1)`), as the workers compute in parallel, and optimise by itself.

    stream: where to compute; without, one is opened when training starts, with all further options (cluster=, workers=,
        redundancy= …, see `Stream`), and closed at its end.
    log: the name under which the loss is logged, and shown in the progress bar; None for not at all.
    device: where workers compute; by default "cuda:auto" where the module is on a GPU, and else "cpu".
    All else as in `CodedGradient`.

    The loss of a step is the mean of `training_step` over its chunks, weighted by their samples, as plain data
    parallelism has it: what plain training finds where a loss is a mean over samples. ``reduction="sum"`` adds up
    losses that are sums.

    A batch must be tensors with samples along their first axis, in dicts, lists and tuples; numbers and None go to all.
    `training_step` must return its loss. It may use `self.global_step`, `self.current_epoch`, `self.device`, and the
    numbers of epochs, steps and batches of `self.trainer`. What it writes stays on the worker and is lost: what it
    logs, metrics it updates, lists it appends to; there is `validation_step` for that. Dropout's masks follow from
    `seed`, the number of the batch, which is in checkpoints, and the chunk.

    >>> class Line(LightningModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = nn.Linear(3, 1)
    ...     def training_step(self, batch):
    ...         return nn.functional.mse_loss(self.layer(batch[0]), batch[1])
    ...     def configure_optimizers(self):
    ...         return torch.optim.SGD(self.parameters(), lr=0.1)
    >>> data = torch.utils.data.TensorDataset(torch.ones(8, 3), torch.zeros(8, 1))
    >>> trainer = Trainer(
    ...     max_epochs=20, callbacks=[EchelonGradients(cluster="threads", workers=2)], accelerator="cpu", barebones=True
    ... )
    >>> trainer.fit(Line(), torch.utils.data.DataLoader(data, batch_size=4))
    >>> bool(trainer.lightning_module.layer(torch.ones(3)).abs() < 1e-3)
    True
    """

    def __init__(
        self,
        stream: Stream | None = None,
        *,
        log: str | None = "train_loss",
        chunks: int | None = None,
        seed: int = 0,
        reduction: str = "mean",
        plan: CodedPlan | None = None,
        messages: str = "float32",
        device: str | None = None,
        tolerance: float | None = None,
        **options: Any,
    ) -> None:
        if log is not None:
            checks.instance("log", log, str)
        self._log, self._seed = log, checks.whole("seed", seed, least=0)
        self._reduction = checks.one_of("reduction", reduction, ("mean", "sum"))
        named = {
            "chunks": chunks, "seed": seed, "plan": plan, "messages": messages, "device": device,
            "tolerance": tolerance,
        }  # fmt: skip
        self._gradients = HandedIn(stream, named, options)
        self._coded: CodedGradient | None = None
        self._trainer: Trainer | None = None
        self._step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Make the workers' copy of the module, and take the place of its training step."""
        _check(trainer, pl_module)
        self._coded = self._gradients.of(
            _TrainingStep(pl_module),
            autocast=_PRECISIONS[trainer.precision_plugin.precision],
            seed=self._seed,
            reduction=self._reduction,
        )
        self._trainer = trainer
        trainer.strategy.training_step = self._training_step

    def _training_step(self, *arguments: Any) -> Tensor:
        assert self._trainer is not None
        assert self._coded is not None
        trainer = self._trainer
        check_cut(arguments)
        told = {name: getattr(trainer, name) for name in _TOLD}
        self._coded.step = self._step
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        loss = self._coded.loss({"arguments": arguments, "told": told}, scaler=scaler)
        self._step += 1
        if self._log is not None and not trainer.barebones:
            trainer.lightning_module.log(self._log, loss.detach(), prog_bar=True)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint has of this: the number of the next batch."""
        return {"step": self._step}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where a checkpoint was."""
        self._step = checks.whole("step", state_dict["step"], least=0)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Give the module its own training step back, and let the workers forget it."""
        self._end()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Do the same where training ends in an error."""
        self._end()

    def _end(self) -> None:
        if self._trainer is not None:
            del self._trainer.strategy.training_step
            self._trainer = self._coded = None
        self._gradients.close()


class _TrainingStep(nn.Module):
    """The training step of a module, as a model that returns its loss."""

    def __init__(self, module: LightningModule) -> None:
        super().__init__()
        self.module = module

    def forward(self, arguments: tuple[Any, ...], told: Mapping[str, Any]) -> Any:
        """Call the step as if a trainer did."""
        device = next(self.parameters()).device
        trainer = _AwayTrainer(told)
        for module in self.modules():
            if isinstance(module, LightningModule):
                module.trainer, module._device = trainer, device
                module.log = module.log_dict = _nothing
            elif isinstance(module, Metric):
                module.reset()  # what it held of earlier chunks; nobody asks for that here
                module.to(device)
        return self.module.training_step(*arguments)


class _Nothing:
    """What swallows all that is done with it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: Any, **named: Any) -> "_Nothing":
        return self


_nothing = _Nothing()


class _AwayTrainer:
    """What a worker knows of the trainer."""

    training, is_global_zero, global_rank, local_rank, world_size = True, False, 0, 0, 1
    logger, loggers = _nothing, ()

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.__dict__ |= told

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"trainer.{name} is not known on the workers, where training_step runs")


def _check(trainer: Trainer, module: Any) -> None:
    """Refuse what would not be the same on workers."""
    if not isinstance(module, LightningModule):
        raise ArgumentError(
            f"module: {type(module).__name__} of {type(trainer).__module__} is not allowed; must be of "
            "lightning.pytorch, and not of pytorch_lightning"
        )
    if not module.automatic_optimization:
        raise ArgumentError("automatic_optimization: False is not allowed; such a training_step passes back by itself")
    if getattr(module, "_compiler_ctx", None) is not None:
        raise ArgumentError("module: it is compiled, which is not allowed; must be the module itself")
    if not isinstance(trainer.strategy, SingleDeviceStrategy):
        raise ArgumentError(
            f"strategy: {type(trainer.strategy).__name__} is not allowed; must be for one device (Trainer(devices=1)), "
            "as the workers compute in parallel"
        )
    if "dataloader_iter" in inspect.signature(module.training_step).parameters:
        raise ArgumentError("training_step: dataloader_iter is not allowed; must be the batch")
    checks.one_of("precision", trainer.precision_plugin.precision, _PRECISIONS)
