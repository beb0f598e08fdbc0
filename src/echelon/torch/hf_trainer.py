"""Gradients for the Trainer of transformers, or of a library that builds on it: a line around `train`.

with EchelonGradients(trainer, workers=8, redundancy=1.25):
    trainer.train()
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from math import isclose, isfinite
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from echelon import checks
from echelon.closing import Closing
from echelon.errors import ArgumentError
from echelon.schemes import CodedPlan
from echelon.stream import Stream
from echelon.torch import structures
from echelon.torch.coded_gradient import CodedGradient
from echelon.torch.handed_in import HandedIn, check_cut

if find_spec("transformers") is None or find_spec("accelerate") is None:
    raise ModuleNotFoundError(
        "echelon.torch.hf_trainer needs transformers and accelerate; pip install 'echelon-compute[transformers]'",
        name="transformers",
    )

from transformers import Trainer

_PRECISIONS = {"no": None, "bf16": torch.bfloat16, "fp16": torch.float16}
_NEEDED = ("label_smoother", "compute_loss_func")
_PLAIN = (bool, int, float, str, Tensor, type(None))


class EchelonGradients(Closing):
    """Lets a Trainer take its gradients from the workers of a stream, until it is closed.

    Workers call the Trainer's own `compute_loss`, each on some chunks of the batch; the Trainer gets the loss of the
    whole batch, whose `backward` gives it the gradient of that. Optimiser, schedule, clipping, accumulation, `bf16` and
    `fp16`, label smoothing, evaluation, checkpoints and resuming are the Trainer's, as before. The Trainer must be one
    process; the workers compute in parallel.

    trainer: a `transformers.Trainer`, or of a class made from it.
    stream: where to compute; without, one is opened with all further options (cluster=, workers=, redundancy= …, see
        `Stream`), and closed with this.
    seed: for dropout's masks, with the number of the batch and the chunk, also after a checkpoint; by default the seed
        of the Trainer's arguments.
    device: where workers compute; by default "cuda:auto" where the model is on a GPU, and else "cpu".
    All else as in `CodedGradient`. The Trainer's `torch_compile` is not for workers; `compiled` is.

    Where the model divides a sum over tokens by the Trainer's `num_items_in_batch`, as language models do, it does so
    on workers, too: the gradient is that of plain training, however tokens are spread over chunks and accumulated
    batches. Where it does not, the loss is taken for a mean over the samples of a batch: the loss of a step is the mean
    over its chunks, weighted by their samples, as plain data parallelism has it. One sample of the first batch tells
    which it is.

    A batch must be tensors with samples along their first axis; numbers and None go to all. A `compute_loss` of your
    own runs on the workers, where the Trainer has `model`, `args` and those of its attributes that are numbers, texts
    or tensors, as they were when training began. What it writes is lost.

    >>> from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments
    >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=2))
    >>> data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(8)]
    >>> told = TrainingArguments(max_steps=3, use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True)
    >>> trainer = Trainer(model, told, train_dataset=data)
    >>> with EchelonGradients(trainer, cluster="threads", workers=2):
    ...     trainer.train().global_step
    {'train_runtime': ...}
    3
    """

    def __init__(
        self,
        trainer: Trainer,
        stream: Stream | None = None,
        *,
        chunks: int | None = None,
        seed: int | None = None,
        plan: CodedPlan | None = None,
        messages: str = "float32",
        device: str | None = None,
        compiled: bool | Mapping[str, Any] = False,
        tolerance: float | None = None,
        **options: Any,
    ) -> None:
        _check(trainer)
        if seed is not None:
            checks.whole("seed", seed, least=0)
        named = {
            "chunks": chunks, "seed": seed, "plan": plan, "messages": messages, "device": device,
            "compiled": compiled, "tolerance": tolerance,
        }  # fmt: skip
        self._trainer, self._gradients = trainer, HandedIn(stream, named, options)
        self._model: nn.Module | None = None
        self._by_items: dict[bool, CodedGradient] = {}  # whether the Trainer's number of items divides the loss
        self._told: bool | None = None
        self._at = self._batch = -1
        self._plain = trainer.compute_loss
        trainer.compute_loss = self._compute_loss

    def _compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        if return_outputs or not model.training or not torch.is_grad_enabled():
            return self._plain(model, inputs, return_outputs=return_outputs, num_items_in_batch=num_items_in_batch)
        check_cut(inputs)
        trainer = self._trainer
        if trainer.model is not self._model:
            self._gradients.close()
            self._model, self._by_items, self._told = trainer.model, {}, None
        items = num_items_in_batch
        if isinstance(items, Tensor):
            items = items.reshape(-1)[0]  # it is there once per GPU
        coded = self._coded(inputs, items)
        coded.step = self._number()
        scaler = getattr(trainer.accelerator, "scaler", None)
        return coded.loss({"inputs": inputs, "num_items_in_batch": items}, scaler=scaler)

    def _coded(self, inputs: Any, items: Any) -> CodedGradient:
        """Return what computes the gradient of such a batch."""
        trainer = self._trainer
        with _bare(trainer.model):
            if self._told is None and items is not None:
                self._told = _divided(_ComputeLoss(trainer), inputs, items)
            summed = items is not None and self._told is not False
            if summed not in self._by_items:
                self._by_items[summed] = self._gradients.of(
                    _ComputeLoss(trainer),
                    autocast=_PRECISIONS[trainer.accelerator.mixed_precision],
                    seed=trainer.args.seed,
                    reduction="sum" if summed else "mean",
                )
        return self._by_items[summed]

    def _number(self) -> int:
        """Return the number of a batch: the same after a checkpoint as without."""
        step = self._trainer.state.global_step
        self._batch = self._batch + 1 if step == self._at else 0
        self._at = step
        return int(step * self._trainer.args.gradient_accumulation_steps + self._batch)

    def close(self) -> None:
        """Let the Trainer compute its gradients itself again, and the workers forget the model."""
        if self._trainer.__dict__.get("compute_loss") == self._compute_loss:
            del self._trainer.compute_loss
        self._gradients.close()
        self._model, self._by_items = None, {}

    def _leave(self, *, well: bool) -> None:
        self.close()


class _ComputeLoss(nn.Module):
    """A model with the Trainer's way to its loss, as a model that returns its loss."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__()
        self.model, self.trainer = trainer.model, _stand_in(trainer)

    def forward(self, inputs: Mapping[str, Any], num_items_in_batch: Any = None) -> Any:
        """Return the loss of some samples."""
        self.trainer.model = self.model
        try:
            return self.trainer.compute_loss(self.model, dict(inputs), num_items_in_batch=num_items_in_batch)
        except AttributeError as error:
            raise ArgumentError(
                f"compute_loss: {error}; of the Trainer, workers have model, args, and its numbers, texts and tensors"
            ) from error


def _stand_in(trainer: Trainer) -> Any:
    """Return what workers have of a Trainer: no data, no optimiser, no processes."""
    found = object.__new__(type(trainer))
    kept = {name: value for name, value in vars(trainer).items() if isinstance(value, _PLAIN) or name in _NEEDED}
    told = {name: value for name, value in vars(trainer.args).items() if isinstance(value, _PLAIN)}
    accelerator = SimpleNamespace(num_processes=1, parallelism_config=None, unwrap_model=_itself)
    found.__dict__ |= kept | {"args": SimpleNamespace(**told | {"n_gpu": 1}), "accelerator": accelerator}
    return found


def _itself(model: nn.Module, **named: Any) -> nn.Module:
    return model


def _divided(step: _ComputeLoss, inputs: Any, items: Any) -> bool | None:
    """Return whether the loss is a sum divided by the number of items; None if no sample has any."""
    modes = [(module, module.training) for module in step.modules()]
    step.eval()
    try:
        for i in range(structures.count(inputs)):
            one = structures.taken(inputs, slice(i, i + 1))
            with torch.no_grad():
                whole, half = (float(step(one, items * 0 + count)) for count in (1, 2))
            if not whole or not isfinite(whole):
                continue
            if isclose(2 * half, whole, rel_tol=1e-3):
                return True
            if isclose(half, whole, rel_tol=1e-3):
                return False
            raise ArgumentError(
                "model: a loss that num_items_in_batch divides in part is not allowed; must be all or nothing of it"
            )
    finally:
        for module, training in modes:
            module.training = training
    return None


@contextmanager
def _bare(model: nn.Module) -> Iterator[None]:
    """Take from a model for a while what accelerate has put around its forward pass, which can't travel."""
    wrapped = ("forward", "_original_forward")
    around: dict[str, Any] = {name: model.__dict__.pop(name) for name in wrapped if name in model.__dict__}
    try:
        yield
    finally:
        model.__dict__ |= around


def _check(trainer: Any) -> None:
    """Refuse what would not be the same on workers."""
    checks.instance("trainer", trainer, Trainer)
    if "compute_loss" in vars(trainer):
        raise ArgumentError("trainer: its compute_loss has been replaced, which is not allowed; override it in a class")
    if trainer.args.world_size > 1 or trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        raise ArgumentError(
            "trainer: several processes, DeepSpeed and FSDP are not allowed; must be one process: workers compute in "
            "parallel"
        )
    checks.one_of("mixed_precision", trainer.accelerator.mixed_precision, _PRECISIONS)
