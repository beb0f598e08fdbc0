"""Training as one call: a loop around `CodedGradient`, with a stream of its own where none is given."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from os import PathLike
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from echelon import checks
from echelon.errors import ArgumentError
from echelon.stream import Stream
from echelon.stream.display import wanted
from echelon.torch.checkpoint import Checkpoint
from echelon.torch.coded_gradient import CodedGradient
from echelon.torch.evaluating import Evaluation, Metric
from echelon.torch.losses import Loss
from echelon.torch.trained import Trained, Validated
from echelon.torch.training_progress import TrainingProgress

_OF_GRADIENT = tuple(
    name
    for name, one in inspect.signature(CodedGradient).parameters.items()
    if one.kind is one.KEYWORD_ONLY and name != "stream"
)
_OF_EVALUATION = ("collate", "reduction", "device", "autocast")
_EVERY = 100  # steps from one checkpoint to the next, for data without epochs


def train(
    model: nn.Module,
    loss: Loss | None,
    data: Any,
    optimizer: torch.optim.Optimizer,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    stream: Stream | None = None,
    scheduler: LRScheduler | ReduceLROnPlateau | None = None,
    schedule: str = "step",
    clip: float | None = None,
    scaler: torch.amp.GradScaler | None = None,
    validate: Any = None,
    validate_every: int | None = None,
    metric: Metric | None = None,
    stop: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    every: int | None = None,
    callback: Callable[[int, float], object] | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Trained:
    """Train a model on a cluster, and return the loss of each step's mini-batch and of each validation.

    steps, epochs: how long; one of them. Epochs need data with a number of samples.
    optimizer: of the model's parameters; each step is its `zero_grad`, `CodedGradient.backward` and its `step`.
    stream: where to compute; without, one is opened and closed at the end.
    scheduler: of the optimiser's learning rate; told after every "step" or "epoch", as `schedule` says, or, if it
        follows a loss (`ReduceLROnPlateau`), after every validation.
    clip: the largest norm of a gradient; longer ones are made as short.
    scaler: of the losses, for ``autocast=torch.float16``; by default one is made then.
    validate: data as for `Evaluation`, on which the workers compute the loss, and the `metric`, every `validate_every`
        steps (an epoch by default).
    stop: end early, after this many validations in a row without a lower loss. In the end, early or not, the model has
        the weights that had the lowest.
    checkpoint: a file that is written every `every` steps (an epoch by default) and at the end, whole or not at all.
        If it is there, the training goes on from it: with the same weights as if it had not been interrupted.
    callback: called after every step with its number and its loss; the training ends if it returns True.
    progress: whether to show step, loss, time left and the slowest worker; by default on a terminal only, and not
        with a stream that is given, which may have a display of its own.
    options: those of `CodedGradient` (batch_size=, chunks=, sizes=, seed=, device=, …), and without a stream those of
        `Stream` (cluster=, workers=, redundancy=, …).

    >>> model = nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> data = torch.ones(8, 3), torch.zeros(8, 1)
    >>> found = train(model, nn.MSELoss(), data, optimizer, steps=20, cluster="threads", workers=2)
    >>> len(found.losses), found.losses[-1] < 1e-3, found.ended
    (20, True, 'steps')
    """
    _check(model, optimizer, steps, epochs, scheduler, callback)
    checks.one_of("schedule", schedule, ("step", "epoch"))
    plateau = scheduler if isinstance(scheduler, ReduceLROnPlateau) else None
    of_validation = {"stop": stop, "metric": metric, "validate_every": validate_every, "scheduler": plateau}
    _need("validate", validate, "data to validate on", of_validation)
    _need("scheduler", scheduler, "one to tell", {"schedule": None if schedule == "step" else schedule})
    if stop is not None:
        checks.whole("stop", stop, least=1)
    if clip is not None:
        checks.number("clip", clip, above=0)
    if data is None:
        raise ArgumentError("data: None is not allowed; it is for loops of your own, around CodedGradient")
    of_gradient = {name: options.pop(name) for name in _OF_GRADIENT if name in options}
    if stream is not None and options:
        raise ArgumentError(f"{', '.join(options)}: not allowed together with a stream; they are for a new one")
    shown = wanted(progress) and (stream is None or progress is not None)
    with ExitStack() as ends:
        if stream is None:
            stream = ends.enter_context(_opened(options, shown=shown))
        coded = ends.enter_context(CodedGradient(model, loss, data, stream=stream, **of_gradient))
        evaluation = None
        if validate is not None:
            same = {name: of_gradient[name] for name in _OF_EVALUATION if name in of_gradient}
            with _named("validate"):
                evaluation = ends.enter_context(Evaluation(model, loss, validate, stream=stream, metric=metric, **same))
        if scaler is None and of_gradient.get("autocast") == torch.float16:
            scaler = torch.amp.GradScaler(next(model.parameters()).device.type)
        loop = _Loop(model, optimizer, coded, scheduler, scaler, clip, schedule)
        total = _total(coded, steps, epochs, schedule)
        validate_every = _every("validate_every", validate_every, coded, needed=evaluation is not None)
        file = None
        if checkpoint is not None:
            file = Checkpoint(checkpoint, loop.kept(), _every("every", every, coded, needed=False) or _EVERY)
            loop.found = file.resume()
        told = ends.enter_context(TrainingProgress(stream, total, coded.steps_per_epoch)) if shown else None
        name = "steps" if epochs is None else "epochs"
        return loop.run(total, name, evaluation, validate_every, stop, file, callback, told)


class _Loop:
    """One training. found: what it found so far."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        coded: CodedGradient,
        scheduler: Any,
        scaler: torch.amp.GradScaler | None,
        clip: float | None,
        schedule: str,
    ) -> None:
        self._model, self._optimizer, self._coded = model, optimizer, coded
        self._scheduler, self._scaler, self._clip, self._schedule = scheduler, scaler, clip, schedule
        self.found = Trained()

    def kept(self) -> dict[str, Any]:
        """Return all that a checkpoint has to keep of."""
        every = {
            "model": self._model, "optimizer": self._optimizer, "coded": self._coded, "scheduler": self._scheduler,
            "scaler": self._scaler,
        }  # fmt: skip
        return {name: one for name, one in every.items() if one is not None}

    def run(
        self,
        total: int,
        name: str,
        evaluation: Evaluation | None,
        validate_every: int | None,
        stop: int | None,
        file: Checkpoint | None,
        callback: Callable[[int, float], object] | None,
        told: TrainingProgress | None,
    ) -> Trained:
        found = self.found
        if found.ended != "stop":
            found.ended = ""  # one that goes on may have been given more steps
        while not found.ended:
            step = len(found.losses)
            if step >= total:
                found.ended = name
                break
            found.losses.append(self._step())
            if told is not None:
                told.show(step + 1, found)
            if evaluation is not None and validate_every is not None and (step + 1) % validate_every == 0:
                self._validate(evaluation, keep_best=stop is not None)
                if stop is not None and found.since_best() >= stop:
                    found.ended = "stop"
            if callback is not None and callback(step, found.losses[-1]) is True:
                found.ended = "callback"
            if file is not None and not found.ended and step + 1 < total:
                file.may_write(found)
        if file is not None:
            file.write(found)
        if found.best is not None:
            self._model.load_state_dict(found.best)
        return found

    def _step(self) -> float:
        self._optimizer.zero_grad()
        loss = self._coded.backward(scaler=self._scaler)
        if self._clip is not None:
            if self._scaler is not None:
                self._scaler.unscale_(self._optimizer)
            nn.utils.clip_grad_norm_(self._model.parameters(), self._clip)
        if self._scaler is None:
            self._optimizer.step()
        else:
            self._scaler.step(self._optimizer)
            self._scaler.update()
        per_epoch = self._coded.steps_per_epoch
        due = self._schedule == "step" or (per_epoch is not None and self._coded.step % per_epoch == 0)
        if self._scheduler is not None and due and not isinstance(self._scheduler, ReduceLROnPlateau):
            self._scheduler.step()
        return float(loss)

    def _validate(self, evaluation: Evaluation, *, keep_best: bool) -> None:
        told, found = evaluation.run(), self.found
        found.validated.append(Validated(len(found.losses), told.loss, told.metric))
        if keep_best and found.since_best() == 0:
            found.best = deepcopy(self._model.state_dict())
        if isinstance(self._scheduler, ReduceLROnPlateau):
            self._scheduler.step(told.loss)


def _check(model: Any, optimizer: Any, steps: Any, epochs: Any, scheduler: Any, callback: Any) -> None:
    if (steps is None) == (epochs is None):
        raise ArgumentError("steps, epochs: one of them must say when the training ends, not both")
    for name, count in (("steps", steps), ("epochs", epochs)):
        if count is not None:
            checks.whole(name, count, least=1)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ArgumentError(f"optimizer: {type(optimizer).__name__} is not allowed; must be one of torch.optim")
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise ArgumentError(
            f"optimizer: {type(optimizer).__name__} is not allowed; must step without a closure, by one gradient"
        )
    held = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    if isinstance(model, nn.Module) and held.isdisjoint(map(id, model.parameters())):
        raise ArgumentError("optimizer: one without any parameter of the model is not allowed; must be made from them")
    if scheduler is not None and not isinstance(scheduler, LRScheduler | ReduceLROnPlateau):
        raise ArgumentError(
            f"scheduler: {type(scheduler).__name__} is not allowed; must be of torch.optim.lr_scheduler"
        )
    if callback is not None and not callable(callback):
        raise ArgumentError(f"callback: {callback!r} is not allowed; must be a function of step and loss")


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Say what is wrong with some data by the name that it has here."""
    try:
        yield
    except ArgumentError as error:
        if not str(error).startswith("data: "):
            raise
        raise ArgumentError(f"{name}: {str(error).removeprefix('data: ')}") from error


def _need(name: str, given: Any, what: str, told: dict[str, Any]) -> None:
    """Refuse arguments that say something of another one that is not given."""
    for one, value in told.items():
        if given is None and value is not None:
            raise ArgumentError(f"{one}: not allowed without {what}; give {name}=")


def _total(coded: CodedGradient, steps: int | None, epochs: int | None, schedule: str) -> int:
    per_epoch = coded.steps_per_epoch
    if per_epoch is None and (epochs is not None or schedule == "epoch"):
        name = "schedule: 'epoch' is" if epochs is None else "epochs:"
        raise ArgumentError(f"{name} not allowed with data that has no number of samples; count in steps")
    if steps is not None:
        return steps
    assert epochs is not None
    assert per_epoch is not None
    return epochs * per_epoch


def _every(name: str, every: int | None, coded: CodedGradient, *, needed: bool) -> int | None:
    if every is not None:
        return checks.whole(name, every, least=1)
    if needed and coded.steps_per_epoch is None:
        raise ArgumentError(f"{name}: missing; data without a number of samples has no epochs")
    return coded.steps_per_epoch


def _opened(options: dict[str, Any], *, shown: bool) -> Stream:
    allowed = inspect.signature(Stream).parameters
    unknown = [name for name in options if name not in allowed]
    if unknown:
        raise ArgumentError(f"{', '.join(unknown)}: not allowed; must be options of CodedGradient or of Stream")
    return Stream(**options, progress=False if shown else None)
