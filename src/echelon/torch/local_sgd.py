"""Training by local steps, for slow networks: workers meet once in many steps, and nobody waits for the last ones."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from echelon import checks
from echelon.arrays import IntArray, NumberArray
from echelon.closing import Closing
from echelon.endings import Quorum
from echelon.errors import ArgumentError
from echelon.stream import Stream
from echelon.stream.kept import Kept
from echelon.torch import samples
from echelon.torch.local_job import LocalJob, LocalRound, LocalState, Outer
from echelon.torch.local_shares import Shares, SharesBySpeed
from echelon.torch.local_steps import Carried, LocalSteps, Optimizer, batches_of
from echelon.torch.uses import check_held

_SPLITS: dict[str, type[Shares]] = {"equal": Shares, "speed": SharesBySpeed}


class LocalSGD(Closing):
    """Rounds in which every worker takes local steps from shared weights; their mean, of those that came, is the next.

    Prefer it to `CodedGradient` where a message takes long beside a step, or workers are late at random: messages are
    as many as rounds, and a round ends with a quorum. Its weights are not those of the same steps one after another:
    the more steps per round, the less a sample is worth.

    model: any module, float32 or float64. Workers train copies of it on the CPU, with the switches (`train`,
        `requires_grad`) that it has now. After each round it has the new shared weights.
    loss: ``loss(outputs, targets)``, a number whose gradient is descended.
    data: inputs and targets, arrays or tensors with samples along their first axis. It reaches the workers once.
    optimizer: makes the inner optimiser from parameters, such as ``partial(torch.optim.SGD, lr=0.05)``. Its state stays
        with the worker from round to round, and is new where the worker is.
    steps: of each worker in a round, one number or one per worker; the mean of them, with ``split="speed"``.
    split: "equal", every worker takes its `steps` in every round; or "speed": steps are dealt out again after each
        round, in proportion to the measured speeds, so that workers that differ all the time are done at once.
    batch_size: samples of a step. A place takes them in an order of its own, drawn from (seed, round, place) from all
        data, each sample once before any comes again within the round; see `batch`.
    quorum, least: a round ends when this share of the workers is done, and at least so many. grace, stretch: and after
        so many seconds more, plus this share of the time that they took; at once when all are done. See
        `endings.Quorum`. Those that are late then drop what they do, and begin the next round with the others.
    outer_lr, outer_momentum: of the outer step (see `local_job.Outer`): with the weighted mean d of what the workers
        have moved, ``v = outer_momentum * v + d`` and ``x = x + outer_lr * (d + outer_momentum * v)``. A worker counts
        by its samples. The defaults are those of DiLoCo (Douillard et al., 2023).

    Buffers (statistics of BatchNorm) become the weighted means of the workers'; truth values and complex numbers stay.
    Chance in a forward pass, such as dropout, is drawn from (seed, round, place), too. A worker that is given the work
    of a lost one takes the steps of that place, with a new inner optimiser the first time. Worker threads take turns,
    since they share torch's generators; processes don't.

    >>> from functools import partial
    >>> model, data = nn.Linear(3, 1), (torch.ones(8, 3), torch.zeros(8, 1))
    >>> with Stream("virtual", workers=4, progress=False) as stream:
    ...     local = LocalSGD(model, nn.MSELoss(), data, stream=stream, optimizer=partial(torch.optim.SGD, lr=0.05),
    ...                      steps=5, batch_size=4)
    ...     told = local.run(20)
    >>> told[-1].loss < 1e-3, told[-1].samples
    (True, 80)
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Tensor], Tensor],
        data: Any,
        *,
        stream: Stream,
        optimizer: Optimizer,
        steps: int | Sequence[int] = 20,
        split: str = "equal",
        batch_size: int = 32,
        quorum: float = 0.75,
        least: int = 1,
        grace: float | Literal["auto"] = 0.0,
        stretch: float = 0.0,
        outer_lr: float = 0.7,
        outer_momentum: float = 0.9,
        seed: int = 0,
    ) -> None:
        checks.instance("model", model, nn.Module)
        self._stream = checks.instance("stream", stream, Stream)
        inputs, targets = _arrays(data)
        self._samples, self._seed = len(inputs), checks.whole("seed", seed, least=0)
        self._batch_size = checks.whole("batch_size", batch_size, least=1, most=self._samples)
        self._carried = Carried(model)
        self._model = model
        copy = _copied(model)
        _check_optimizer(checks.function("optimizer", optimizer), self._carried.of(copy)[0])
        self._outer = Outer(
            checks.number("outer_lr", outer_lr, above=0), checks.number("outer_momentum", outer_momentum, least=0)
        )
        self._ending = Quorum(checks.probability("quorum", quorum), least=least, grace=grace, stretch=stretch)
        self._ending.check(slots=stream.workers, lanes=stream.workers, sums=True)
        self._shares = _SPLITS[checks.one_of("split", split, _SPLITS)]
        self._steps = _steps(steps, stream.workers)
        check_held(loss)
        self._work = LocalSteps(
            copy, checks.function("loss", loss), (inputs, targets), optimizer, batch_size=batch_size, seed=seed
        )
        self._kept: Kept | None = None
        self._momentum: NumberArray | None = None
        self.rounds = 0
        self._job = self.job(1)

    def round(self) -> LocalRound:
        """Do a round, and put the new shared weights into the model; return what it was like."""
        if self._kept is None:
            self._kept = self._stream.keep(self._job)
        handle = self._kept.submit(self.state())
        try:
            state: LocalState = handle.result()
        except BaseException:
            handle.cancel()  # an interrupted call no longer waits for it
            raise
        finally:
            self._job.asking.end()
        self.load(state)
        assert state.last is not None
        return state.last

    def run(self, rounds: int) -> list[LocalRound]:
        """Do several rounds; return what each was like."""
        return [self.round() for _ in range(checks.whole("rounds", rounds, least=1))]

    def job(self, rounds: int, *, name: str | None = None) -> LocalJob:
        """Return a job of so many rounds from the model's weights as they are now, for `Stream.submit`.

        Its result is a state to `load`. On a stream with a journal it goes on from its last round after a crash.
        """
        checks.whole("rounds", rounds, least=1)
        return LocalJob(
            self._work, self.state(), self._outer, self._shares(self._steps), self._ending,
            batch_size=self._batch_size, iterations=rounds, name=name,
        )  # fmt: skip

    def state(self) -> LocalState:
        """Return the model's weights as they are now, with the outer momentum and the number of rounds so far."""
        weights, buffers = self._carried.read(self._model)
        momentum = 0 * weights if self._momentum is None else self._momentum
        return LocalState(weights, momentum, buffers, self.rounds)

    def load(self, state: LocalState) -> None:
        """Write a state into the model, such as the result of a job, and go on from it."""
        checks.instance("state", state, LocalState)
        if state.weights.shape != self._carried.read(self._model)[0].shape:
            raise ArgumentError(f"state: {state.weights.size} weights are not allowed; must be those of the model")
        self._carried.write(self._model, state.weights, state.buffers)
        self._momentum, self.rounds = state.momentum, state.round

    def batch(self, round: int, place: int, step: int) -> IntArray:
        """Return the samples of a local step, by their numbers."""
        checks.whole("place", place, least=0, most=self._stream.workers - 1)
        batches = batches_of(self._seed, round, place, self._samples, self._batch_size)
        for _ in range(checks.whole("step", step, least=0)):
            next(batches)
        return next(batches)

    def close(self) -> None:
        """Let the workers forget model and data; the stream goes on."""
        if self._kept is not None:
            self._kept.drop()

    def _leave(self, *, well: bool) -> None:
        self.close()


def _arrays(data: Any) -> tuple[NumberArray, NumberArray]:
    if isinstance(data, TensorDataset):
        data = data.tensors
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise ArgumentError(f"data: {type(data).__name__} is not allowed; must be inputs and targets")
    inputs, targets = samples.arrays(data)
    return inputs, targets


def _copied(model: nn.Module) -> nn.Module:
    try:
        return deepcopy(model).cpu()
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"model: it can't be copied for the workers: {error}") from error


def _check_optimizer(optimizer: Optimizer, weights: list[nn.Parameter]) -> None:
    made = optimizer(weights)
    if not isinstance(made, torch.optim.Optimizer):
        raise ArgumentError(
            f"optimizer: {type(made).__name__} is not allowed; must be a function that makes one of torch.optim from "
            "parameters, such as partial(torch.optim.SGD, lr=0.05)"
        )


def _steps(steps: int | Sequence[int], workers: int) -> list[int]:
    if isinstance(steps, int):
        return [checks.whole("steps", steps, least=1, most=10**5)] * workers
    listed = [
        checks.whole(f"steps[{i}]", some, least=1, most=10**5) for i, some in enumerate(checks.items("steps", steps))
    ]
    if len(listed) != workers:
        raise ArgumentError(f"steps: {len(listed)} numbers are not allowed; must be one per worker, {workers} of them")
    return listed
