"""Gradients of any model of torch, recovered from the workers that are quick enough."""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from echelon import checks
from echelon.arrays import IntArray, NumberArray
from echelon.closing import Closing
from echelon.clusters.cuda import NotShared
from echelon.errors import ArgumentError, JobFailed
from echelon.jobs import SumJob
from echelon.jobs.chunks import MOST_CHUNKS
from echelon.schemes import CodedPlan
from echelon.stream import Stream
from echelon.torch import parameters, samples
from echelon.torch.checking import check_statistics, check_trained
from echelon.torch.chunk_gradients import ChunkGradients
from echelon.torch.device_numbers import DeviceNumbers
from echelon.torch.devices import checked_device
from echelon.torch.losses import checked_loss
from echelon.torch.minibatches import Minibatches
from echelon.torch.passes import trained

log = logging.getLogger("echelon.torch")

_MESSAGES = {"float32": None, "bfloat16": "bfloat16"}


class CodedGradient(Closing):
    """The gradient of a mini-batch as one call, computed by the workers of a stream, even if some are late or die.

    model: any module, float32 or float64. loss: ``loss(outputs, targets)``, the mean or the sum over samples; it says
        which by an attribute `reduction`, as torch's own do, or else `reduction` does ("mean" by default).
    data: inputs and targets, arrays or tensors with samples along their first axis, or a map-style Dataset, which is
        stacked. It reaches the workers once: do not change it until `close`.
    batch_size: samples of a step; all of them by default. Epochs are shuffled by `seed`, see `batch`.
    chunks: how many a mini-batch is cut into, by default one per worker. With one row per worker, as many chunks as
        workers and redundancy r, each computes about 1 + workers * (1 - 1/r) chunks, in one pass forward and one back.
    plan: how the sum over chunks is protected instead of by the stream's redundancy; see `SumJob`.
    messages: "float32" sends gradients as they are (those of a float64 model in float64); "bfloat16" sends half the
        bytes of a float32 model's: gradient and loss are then off by about 2^-8, times what decoding amplifies.
    device: where workers compute: "cpu", "cuda", "cuda:1" and so on, or "cuda:auto", which deals the devices of their
        machine out to them. Where the model is on a GPU of the workers' machine, weights and gradients stay in its
        memory, and workers share one copy of the weights, which a forward pass must not change; elsewhere, or where
        memory can't be shared, they go through the host's, and the log says so.
    tolerance: relative error that decoding may bring in, see `SumJob`. With bfloat16 it is 1/16 by default, and codes
        over many chunks may amplify beyond that: gradients then wait for more rows, or fail and ask for more tolerance.

    `backward` adds to the gradients of the model's parameters what ``loss(model(inputs), targets).backward()`` would on
    the next mini-batch, up to rounding, and returns the loss. Parameters, buffers and switches (`train`, `eval`,
    `requires_grad_`) are those of the model at that time. A parameter that the loss does not depend on keeps its
    gradient, None as a rule. Several calls before a step of the optimiser add up, each with the next mini-batch.

    Dropout draws its masks from `seed`, the step and the chunk (see `seeded`), so that workers agree. Modules that mix
    the samples of a batch (BatchNorm) are refused while they train, and so is a forward pass that writes into buffers.

    >>> model, data = nn.Linear(3, 1), (torch.ones(8, 3), torch.zeros(8, 1))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with Stream("threads", workers=3, redundancy=1.5) as stream:
    ...     with CodedGradient(model, nn.MSELoss(), data, stream=stream, batch_size=4) as coded:
    ...         for _ in range(20):
    ...             optimizer.zero_grad()
    ...             value = coded.backward()
    ...             optimizer.step()
    >>> bool(value < 1e-3)
    True
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Tensor], Tensor],
        data: Any,
        *,
        stream: Stream,
        batch_size: int | None = None,
        chunks: int | None = None,
        seed: int = 0,
        reduction: str | None = None,
        plan: CodedPlan | None = None,
        messages: str = "float32",
        device: str = "cpu",
        tolerance: float | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise ArgumentError(f"model: {type(model).__name__} is not allowed; must be a torch.nn.Module")
        if not isinstance(stream, Stream):
            raise ArgumentError(f"stream: {type(stream).__name__} is not allowed; must be an echelon.Stream")
        self._model, self._walk = model, self._walked(model)
        inputs, targets = samples.arrays(data)
        mean = checked_loss(loss, reduction, targets)
        if batch_size is not None:
            checks.whole("batch_size", batch_size, least=1, most=len(inputs))
        if chunks is None:
            chunks = plan.parts if isinstance(plan, CodedPlan) else stream.workers
        checks.whole("chunks", chunks, least=1, most=MOST_CHUNKS)
        checks.whole("seed", seed, least=0)
        checks.one_of("messages", messages, _MESSAGES)
        if messages == "bfloat16" and next(model.parameters()).dtype != torch.float32:
            raise ArgumentError("messages: 'bfloat16' is not allowed; the model must be float32 for that")
        checked_device(device)
        self.step = 0
        self._shares = device != "cpu" and stream.one_host and next(model.parameters()).is_cuda
        self._numbers: DeviceNumbers | None = None
        self._batches = Minibatches(len(inputs), batch_size, chunks, seed)
        gradients = ChunkGradients(
            parameters.hull(model), loss, (inputs, targets), self._batches, mean=mean, seed=seed, device=device
        )
        self._kept = stream.keep(
            SumJob(
                partial=gradients.one,
                write=gradients.write,
                update=_found,
                state=None,
                chunks=range(chunks),
                plan=plan,
                messages=_MESSAGES[messages],
                iterations=1,
                name="gradient",
                tolerance=tolerance,
            )
        )

    @property
    def chunks(self) -> int:
        """How many chunks a mini-batch is cut into."""
        return self._batches.chunks

    def batch(self, step: int, chunk: int | None = None) -> IntArray:
        """Return the numbers of the samples that a step takes, or of those in one of its chunks.

        Attribute `step` is the number of the next; set it to resume a training.
        """
        checks.whole("step", step, least=0)
        if chunk is None:
            return self._batches.batch(step).copy()
        return self._batches.chunk(step, checks.whole("chunk", chunk, least=0, most=self.chunks - 1)).copy()

    def backward(self) -> Tensor:
        """Add the gradient of the next mini-batch to those of the model's parameters, and return its loss."""
        if not self._walk.same():
            self._check_again()
        checks.whole("step", self.step, least=0)
        try:
            found = self._found()
        except JobFailed as error:
            if not self._shares or not isinstance(error.__cause__, NotShared):
                raise
            self._host_only(error.__cause__)
            found = self._found()
        self.step += 1
        return self._fill(found)

    def _found(self) -> Any:
        """Return the gradient of the next mini-batch, as one vector."""
        handle = self._kept.submit(self._state())
        try:
            return handle.result()
        except BaseException:
            handle.cancel()  # an interrupted call no longer waits for it
            raise

    def _state(self) -> parameters.State:
        if self._shares:
            try:
                if self._numbers is None:
                    self._numbers = DeviceNumbers(self._walk.tensors)
                return parameters.state(self._walk, self.step, self._numbers)
            except NotShared as error:
                self._host_only(error)
        return parameters.state(self._walk, self.step)

    def _host_only(self, error: NotShared) -> None:
        log.warning("the GPU's memory can't be shared with workers, and all goes through the host's: %s", error)
        self._shares, self._numbers = False, None

    def _fill(self, found: NumberArray | Tensor) -> Tensor:
        weights = self._walk.trained
        flat = (found if isinstance(found, Tensor) else torch.from_numpy(found)).to(weights[0].device)
        sizes = [*(weight.numel() for weight in weights), 1 + len(weights)]
        *shares, rest = torch.functional.split(flat, sizes)
        used = rest[1:].tolist()
        for weight, share, parts in zip(weights, shares, used, strict=True):
            # where chunks differ in what they use, counts of chunks are not exact; an existing gradient counts
            if parts <= 0.5 and not share.any():
                continue
            piece = share.view(weight.shape)
            if weight.device != flat.device:
                piece = piece.to(weight.device)
            if weight.grad is None:
                weight.grad = piece
            else:
                weight.grad += piece
        return rest[0].clone()

    def _check_again(self) -> None:
        """Check a model that has changed since the last step."""
        walk = self._walked(self._model)
        if walk.shapes != self._walk.shapes:
            raise ArgumentError("model: its parameters or buffers have other names, types or shapes than at the start")
        if [tensor.device for tensor in walk.tensors] != [tensor.device for tensor in self._walk.tensors]:
            self._numbers = None
        self._walk = walk

    @staticmethod
    def _walked(model: nn.Module) -> parameters.Walk:
        check_trained(trained(model))
        check_trained(list(model.parameters()))
        check_statistics(model)
        return parameters.Walk(model)

    def close(self) -> None:
        """Let the workers forget model and data; the stream goes on."""
        self._kept.drop()
        self._numbers = None

    def _leave(self, *, well: bool) -> None:
        self.close()


def _found(state: Any, found: NumberArray) -> NumberArray:
    return found
