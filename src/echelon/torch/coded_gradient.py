"""Gradients of any model of torch, recovered from the workers that are quick enough."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from echelon import checks
from echelon.arrays import IntArray, NumberArray
from echelon.closing import Closing
from echelon.endings import Policy
from echelon.errors import ArgumentError
from echelon.jobs import SumJob
from echelon.jobs.chunks import MOST_CHUNKS
from echelon.schemes import CodedPlan
from echelon.stream import Stream
from echelon.torch import structures
from echelon.torch.checking import checked_autocast, checked_compiled
from echelon.torch.chunk_gradients import ChunkGradients, How
from echelon.torch.differentiable import differentiable, hooked
from echelon.torch.filling import collected, fill
from echelon.torch.losses import Loss, Losses
from echelon.torch.minibatches import Cuts, apart
from echelon.torch.models import Models
from echelon.torch.parameters import Walk
from echelon.torch.rates import Rates
from echelon.torch.samples import handed_in, source
from echelon.torch.sizes import SizedJob, Sizes, checked_shares
from echelon.torch.sources import At
from echelon.torch.states import States

_MESSAGES = {"float32": None, "bfloat16": "bfloat16"}


class CodedGradient(Closing):
    """The gradient of a mini-batch as one call, computed by the workers of a stream, even if some are late or die.

    model: any module; all float64, or of float32, bfloat16 and float16, whose gradients travel as float32.
    loss: ``loss(outputs, targets)``, the mean or the sum over samples; it says which by an attribute `reduction`, as
        torch's own do, or else `reduction` does ("mean" by default). None where the model returns its loss: a number,
        the first of a tuple, or `loss` of a dict or an object. If some of its labels are -100, its mean is not over
        samples: say ``reduction="sum"``, and put into each batch what it divides by (`num_items_in_batch`, for models
        of transformers), or "mean", for the mean of chunks weighted by their samples.
    data: one of
        - inputs and targets, arrays or tensors with samples along their first axis, or dicts and tuples of them. They
          reach the workers once: do not change them until `close`.
        - a map-style Dataset, or a list of tuples or dicts, whose items workers read when they need them. Python's,
          NumPy's and torch's generators are seeded by (seed, epoch, index): two workers that read an item draw the same
          augmentation.
        - ``batches(step, chunk)``, a function that returns a chunk on the worker, None for none; it draws alike on all.
        - an IterableDataset: chunk c of C takes from its ``shard(C, c)`` if it has that, and else every C-th item.
        - None: `backward` is handed a batch in each call, and it travels to the workers with the weights.
        A batch is inputs and targets; with ``loss=None`` it is what the model takes, a dict by name.
    batch_size: samples of a step; all of them by default. Epochs are shuffled by `seed`, see `batch`.
    collate: makes a batch of a list of items, those of one chunk; torch's `default_collate` by default. It draws with
        the seed of the first of them.
    loaders: processes per worker that read its chunks of the next step meanwhile; 0 for none.
    chunks: how many a mini-batch is cut into, by default one per worker. With one row per worker, as many chunks as
        workers and redundancy r, each computes about 1 + workers * (1 - 1/r) chunks, in one pass forward and one back.
    sizes: "equal" chunks; "speed", where each worker has one chunk, as large as it is quick, and they are cut anew as
        speeds change; or the share of each worker. The sum over chunks then has no redundancy of its own.
    plan: how the sum over chunks is protected instead of by the stream's redundancy; see `SumJob`.
    ending: when steps end that may do without some chunks, a policy of `echelon.endings` such as ``Deadline("auto")``
        or ``Quorum(0.9)``; by default every gradient is exact. One that is not is scaled as if every chunk had the same
        weight: where whole chunks are missing, it is that of the mean loss over the samples that came. `residual` says
        how far the last one was from exact.
    messages: "float32" sends gradients as they are (those of a float64 model in float64); "bfloat16" sends half the
        bytes of float32: gradient and loss are then off by about 2^-8, times what decoding amplifies. That is for
        slow networks: rounded gradients leave the memory of a GPU, in which those of float32 may stay.
    device: where workers compute: "cpu", "cuda", "cuda:1" and so on, or "cuda:auto", which deals the devices of their
        machine out to them. Where the model is on a GPU of the workers' machine, weights and gradients stay in its
        memory, and workers share one copy of the weights, which a forward pass must not change; elsewhere, or where
        memory can't be shared, they go through the host's, and the log says so. A device that has not the memory for
        a pass makes several of it from then on.
    autocast: ``torch.bfloat16`` or ``torch.float16``, the type in which passes compute what torch's autocast lets them.
    compiled: whether workers compile the model once each (`torch.compile`); or a dict of its options.
    tolerance: relative error that decoding may bring in, see `SumJob`. With bfloat16 it is 1/16 by default, and codes
        over many chunks may amplify beyond that: gradients then wait for more rows, or fail and ask for more tolerance.

    `backward` adds to the gradients of the model's parameters what ``loss(model(inputs), targets).backward()`` would on
    the next mini-batch, up to rounding, and returns the loss. Parameters, buffers, switches (`train`, `eval`,
    `requires_grad_`), settings of modules (attributes that are numbers, texts, truth values or None), and torch's own
    for the process (precision of products, deterministic kernels, the default type) are those of that time. A
    parameter that the loss does not depend on keeps its gradient, None as a rule. Hooks of parameters are given the
    gradient of the whole batch. Several calls before a step of the optimiser add up, each with the next mini-batch.

    Dropout draws its masks from `seed`, the step and the chunk (see `seeded`), so that workers agree. BatchNorm
    normalises each chunk by itself, as plain data parallelism does it by replica, and its running statistics change by
    the mean over the chunks; in a batch so small that a chunk would have one sample, another one takes it. Any other
    forward pass that writes into buffers is refused.

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
        loss: Loss | None,
        data: Any,
        *,
        stream: Stream,
        batch_size: int | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        loaders: int = 0,
        chunks: int | None = None,
        sizes: str | Sequence[float] = "equal",
        seed: int = 0,
        reduction: str | None = None,
        plan: CodedPlan | None = None,
        ending: Policy | None = None,
        messages: str = "float32",
        device: str = "cpu",
        autocast: torch.dtype | None = None,
        compiled: bool | Mapping[str, Any] = False,
        tolerance: float | None = None,
    ) -> None:
        self._states = States(model, stream, device)
        if chunks is None:
            chunks = plan.parts if isinstance(plan, CodedPlan) else stream.workers
        checks.whole("chunks", chunks, least=1, most=MOST_CHUNKS)
        checks.whole("seed", seed, least=0)
        losses = Losses(loss, reduction)
        self._source = source(
            data, batch_size=batch_size, chunks=chunks, seed=seed, collate=collate, loaders=loaders, losses=losses
        )
        checks.one_of("messages", messages, _MESSAGES)
        if messages == "bfloat16" and self._states.dtype == torch.float64:
            raise ArgumentError("messages: 'bfloat16' is not allowed; the model must not be float64 for that")
        self._sizes = self._sized(sizes, chunks, plan, batch_size, stream.workers)
        if self._sizes is not None and ending is not None:
            raise ArgumentError(f"ending: not allowed with sizes={sizes!r}; chunks must be equal to be missed alike")
        self._losses = losses
        self._order = _Order(seed, chunks, batch_size)
        self.step = 0
        gradients = ChunkGradients(
            Models(self._states.hull(), checked_compiled(compiled)),
            losses,
            self._source,
            How(losses.mean, seed, device, checked_autocast(autocast), alone=self._sizes is not None),
        )
        options: dict[str, Any] = {
            "partial": gradients.one, "write": gradients.write, "update": _found, "state": None,
            "chunks": range(chunks), "messages": _MESSAGES[messages], "iterations": 1, "name": "gradient",
            "tolerance": tolerance, "ending": ending, "unbiased": ending is not None,
        }  # fmt: skip
        job = SumJob(plan=plan, **options) if self._sizes is None else SizedJob(self._sizes, **options)
        self._kept = stream.keep(job)
        self._rates: Rates | None = None
        self._unwatch: Callable[[], None] | None = None
        if isinstance(sizes, str) and sizes == "speed":
            self._rates = Rates(job, stream.workers, stream.speeds())
            self._unwatch = stream.watch(self._rates)

    def _sized(
        self, sizes: str | Sequence[float], chunks: int, plan: CodedPlan | None, batch_size: int | None, workers: int
    ) -> Sizes | None:
        shares = checked_shares(sizes, chunks)
        if isinstance(sizes, str) and sizes == "equal":
            return None
        batches = self._source.batches
        if plan is not None or chunks != workers:
            raise ArgumentError(
                f"sizes: {sizes!r} is not allowed with a plan or {chunks} chunks; must have one chunk per worker"
            )
        if batches is None:
            raise ArgumentError(
                f"sizes: {sizes!r} is not allowed with such data; must be arrays or a map-style Dataset"
            )
        return Sizes(batches.samples if batch_size is None else batch_size, chunks, shares, least=self._least)

    @property
    def _least(self) -> int:
        """How many samples a chunk must have, unless it has none: one can't be normalised over."""
        return 2 if self._states.walk.mixes else 1

    @property
    def residual(self) -> float:
        """How far the weights of the chunks in the last gradient were from those of the exact one; 0 if it was."""
        return self._states.residual

    @property
    def chunks(self) -> int:
        """How many chunks a mini-batch is cut into."""
        return self._order.chunks

    @property
    def steps_per_epoch(self) -> int | None:
        """How many steps take every sample once; None for data that has no number of samples."""
        return None if self._source.batches is None else self._source.batches.per_epoch

    @property
    def epoch(self) -> int | None:
        """How many epochs are complete; None for data that has no number of samples."""
        return None if self.steps_per_epoch is None else self.step // self.steps_per_epoch

    def batch(self, step: int, chunk: int | None = None) -> IntArray:
        """Return the numbers of the samples that a step takes, or of those in one of its chunks as they are cut now.

        Attribute `step` is the number of the next; set it to resume a training.
        """
        checks.whole("step", step, least=0)
        batches = self._source.batches
        if batches is None:
            raise ArgumentError("data: its samples have no numbers; only those of arrays and map-style Datasets have")
        if chunk is None:
            return batches.batch(step).copy()
        checks.whole("chunk", chunk, least=0, most=self.chunks - 1)
        return batches.chunk(step, chunk, self._cuts(len(batches.batch(step)))).copy()

    def _cuts(self, samples: int) -> Cuts | None:
        """Return where the chunks of a batch with so many samples begin and end; None where all are equal."""
        return apart(samples, self.chunks, None if self._sizes is None else self._sizes.cuts, self._least)

    def backward(self, batch: Any = None, *, scaler: torch.amp.GradScaler | None = None) -> Tensor:
        """Add the gradient of the next mini-batch to those of the model's parameters, and return its loss.

        batch: what the step takes, where the data is None. scaler: multiplies the gradients, and not the loss, as
        ``scaler.scale(loss).backward()`` does; its `step` and `update` then go on as usual.
        """
        found, divided, _ = self._next(batch, scaler)
        walk = self._states.walk
        if not hooked(walk.trained):
            return fill(walk, found, divided=divided)
        with torch.enable_grad():
            loss = differentiable(collected(walk, found, divided=divided), walk.trained)
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def loss(self, batch: Any = None, *, scaler: torch.amp.GradScaler | None = None) -> Tensor:
        """Return the loss of the next mini-batch, whose own `backward` adds its gradient, once.

        For loops that call `backward` themselves: if they divide the loss before, or scale it, they do so to the
        gradient. batch: as in `backward`. scaler: the one by which the loop scales the loss; workers scale theirs
        alike, so that nothing underflows in half precision.

        >>> model, batch = nn.Linear(3, 1), (torch.ones(8, 3), torch.zeros(8, 1))
        >>> with Stream("threads", workers=2) as stream:
        ...     with CodedGradient(model, nn.MSELoss(), None, stream=stream) as coded:
        ...         (coded.loss(batch) / 2).backward()
        >>> found = model.weight.grad.clone()
        >>> model.zero_grad()
        >>> (nn.MSELoss()(model(batch[0]), batch[1]) / 2).backward()
        >>> torch.allclose(model.weight.grad, found)
        True
        """
        found, divided, scale = self._next(batch, scaler)
        walk = self._states.walk
        return differentiable(collected(walk, found, divided=divided), walk.trained, scale)

    def _next(self, batch: Any, scaler: torch.amp.GradScaler | None) -> tuple[Any, bool, float]:
        """Return the total of the next mini-batch, whether it is yet to be divided, and the scale of its gradient."""
        self._states.look()
        checks.whole("step", self.step, least=0)
        at, scale = self._at(batch), _scale(scaler, self._states.walk)
        found = self._states.ask(self._kept, at, scale)
        self.step += 1
        return found, self._losses.mean and self._source.whole(at) is None, scale

    def state_dict(self) -> dict[str, Any]:
        """Return where the training is in its data: the step, what the order of samples follows from, and the cuts."""
        samples = None if self._source.batches is None else self._source.batches.samples
        cuts = None if self._sizes is None else list(self._sizes.cuts)
        return {
            "step": self.step, "epoch": self.epoch, "seed": self._order.seed, "chunks": self.chunks,
            "batch_size": self._order.batch_size, "samples": samples, "cuts": cuts,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a training was, with the same samples in the same order."""
        if not isinstance(state, Mapping) or not {"step", "cuts"} <= state.keys():
            raise ArgumentError("state: not allowed; must be what state_dict returned")
        mine = self.state_dict()
        for name in ("seed", "chunks", "batch_size", "samples"):
            if state.get(name) != mine[name]:
                raise ArgumentError(
                    f"{name}: {mine[name]} is not allowed; must be {state.get(name)}, as in the training that goes on"
                )
        self.step = checks.whole("step", state["step"], least=0)
        if self._sizes is not None and state["cuts"] is not None:
            self._sizes.resume(state["cuts"])

    def _at(self, batch: Any) -> At:
        """Return which samples the next step takes."""
        if (batch is None) == (self._source.given):
            needed = "needed, as the data is None" if batch is None else "not allowed; the data is not None"
            raise ArgumentError(f"batch: {needed}")
        if batch is not None:
            batch = handed_in(batch, self._losses)
            return At(self.step, self._cuts(structures.count(batch)), batch)
        if self._source.batches is None:
            return At(self.step)
        samples = len(self._source.batches.batch(self.step))
        if self._sizes is not None:
            self._sizes.begin(samples, None if self._rates is None else self._rates.speeds, least=self._least)
        return At(self.step, self._cuts(samples))

    def close(self) -> None:
        """Let the workers forget model and data; the stream goes on."""
        if self._unwatch is not None:
            self._unwatch()
        self._kept.drop()
        self._states.close()

    def _leave(self, *, well: bool) -> None:
        self.close()


@dataclass(frozen=True)
class _Order:
    """What the order of samples follows from."""

    seed: int
    chunks: int
    batch_size: int | None


def _scale(scaler: torch.amp.GradScaler | None, walk: Walk) -> float:
    """Return by how much losses are multiplied."""
    if scaler is None:
        return 1.0
    checks.instance("scaler", scaler, torch.amp.GradScaler)
    scaler.scale(torch.zeros((), device=walk.trained[0].device))  # it makes its own numbers when it is first used
    return float(scaler.get_scale())


def _found(state: Any, found: NumberArray) -> NumberArray:
    return found
