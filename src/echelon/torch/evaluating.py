"""The loss of a model on data that it is not trained on, computed by the workers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from echelon import checks
from echelon.arrays import NumberArray
from echelon.closing import Closing
from echelon.errors import ArgumentError
from echelon.jobs import SumJob
from echelon.stream import Stream
from echelon.torch import structures
from echelon.torch.checking import checked_autocast
from echelon.torch.chunk_gradients import How
from echelon.torch.devices import resolved
from echelon.torch.losses import Loss, Losses
from echelon.torch.models import Models
from echelon.torch.parameters import Loaded, State
from echelon.torch.samples import source
from echelon.torch.sources import At, Source
from echelon.torch.states import States

Metric = Callable[[Any, Any], Any]


class Evaluated(NamedTuple):
    """What an evaluation found: means over samples. metric: None where none was asked for."""

    loss: float
    metric: float | None
    samples: int


class Evaluation(Closing):
    """The mean loss of a model over data, as it is when `run` is called, in `eval` mode.

    model, loss, data, collate, reduction, device, autocast: as for `CodedGradient`; data must have a number of samples.
    batch_size: samples that a worker passes at once; fewer from then on, where its device has not the memory for them.
    metric: ``metric(outputs, targets)``, a number per batch that is a sum over its samples, such as how many of them
        are right; the mean over all samples is told. With ``loss=None`` it is given the outputs and the batch.

    >>> model, data = nn.Linear(3, 1), (torch.zeros(8, 3), torch.zeros(8, 1))
    >>> with Stream("threads", workers=2) as stream:
    ...     with Evaluation(model, nn.MSELoss(), data, stream=stream, batch_size=3) as evaluation:
    ...         found = evaluation.run()
    >>> abs(found.loss - float(model.bias.detach()) ** 2) < 1e-6, found.samples
    (True, 8)
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss | None,
        data: Any,
        *,
        stream: Stream,
        batch_size: int = 256,
        metric: Metric | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        reduction: str | None = None,
        device: str = "cpu",
        autocast: torch.dtype | None = None,
    ) -> None:
        self._states = States(model, stream, device)
        if metric is not None and not callable(metric):
            raise ArgumentError(f"metric: {metric!r} is not allowed; must be a function of outputs and targets")
        checks.whole("batch_size", batch_size, least=1)
        losses = Losses(loss, reduction)
        held = source(data, batch_size=batch_size, chunks=1, seed=0, collate=collate, losses=losses, finite=True)
        assert held.batches is not None
        work = _ChunkLosses(
            Models(self._states.hull()), losses, held, How(losses.mean, 0, device, checked_autocast(autocast)), metric
        )
        self._metric = metric is not None
        self._kept = stream.keep(
            SumJob(
                partial=work.one,
                update=_found,
                state=None,
                chunks=range(held.batches.per_epoch),
                iterations=1,
                name="evaluation",
            )
        )

    def run(self) -> Evaluated:
        """Return what the model as it is now gives."""
        self._states.look()
        loss, metric, samples = self._states.ask(self._kept, At(0), evaluates=True).tolist()
        return Evaluated(loss / samples, metric / samples if self._metric else None, round(samples))

    def close(self) -> None:
        """Let the workers forget model and data; the stream goes on."""
        self._kept.drop()
        self._states.close()

    def _leave(self, *, well: bool) -> None:
        self.close()


class _ChunkLosses:
    """Losses and metrics of batches: what runs on the workers."""

    def __init__(self, models: Models, losses: Losses, data: Source, how: How, metric: Metric | None) -> None:
        self._models, self._losses, self._data, self._how, self._metric = models, losses, data, how, metric
        self._limit: int | None = None  # samples of a pass that the device has memory for, once it ran out of it

    def one(self, state: State, batch: int) -> NumberArray:
        """Return the loss, the metric and the number of samples, summed over a batch."""
        device = resolved(self._how.device)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        with state.asking.turn(), torch.no_grad():
            model = self._models.of(state, device)
            found = self._data.load(state.at._replace(step=batch), [0], device)
            assert found is not None, "one chunk can always be one batch"
            if not self._data.checked:
                self._losses.check(found.samples)
            (size,) = found.sizes
            loss, metric = self._sums(model, found.samples, size, device)
        return np.array([loss, metric, size])

    def _sums(self, model: Loaded, samples: Any, size: int, device: torch.device) -> tuple[float, float]:
        """Return the loss and the metric summed over samples, in as many passes as the device's memory asks for."""
        if self._limit is None or size <= self._limit or model.mixes:
            try:
                return self._passed(model, samples, size, device)
            except torch.cuda.OutOfMemoryError as error:
                if size < 2 or model.mixes:
                    raise ArgumentError(
                        f"batch_size: {size} samples do not fit into the memory of {device}; must be fewer"
                    ) from error
                self._limit = size // 2
            torch.cuda.empty_cache()
        structures.even("data", samples)
        first, second = (
            self._sums(model, structures.taken(samples, span), span.stop - span.start, device)
            for span in (slice(0, size // 2), slice(size // 2, size))
        )
        return first[0] + second[0], first[1] + second[1]

    def _passed(self, model: Loaded, samples: Any, size: int, device: torch.device) -> tuple[float, float]:
        inputs, targets = self._losses.parted(samples)
        with self._how.casting(device):
            outputs = model(inputs)
            loss = self._losses.of(outputs, targets, device)
        metric = 0.0 if self._metric is None else self._metric(outputs, inputs if self._losses.own else targets)
        return float(loss) * (size if self._how.mean else 1), _number(metric)


def _number(metric: Any) -> float:
    if isinstance(metric, Tensor) and metric.numel() != 1:
        raise ArgumentError(
            f"metric: a tensor of shape {tuple(metric.shape)} is not allowed; must be one number, a sum over samples"
        )
    return float(metric)


def _found(state: Any, found: NumberArray) -> NumberArray:
    return found
