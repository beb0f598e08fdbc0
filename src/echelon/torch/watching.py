"""Watching the ranks of a `DistributedDataParallel` model: who is slow, who waits, and what could be saved."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from echelon import checks
from echelon.arrays import FloatArray
from echelon.closing import Closing
from echelon.errors import ArgumentError
from echelon.profile import Costs, Profile
from echelon.search import Advice
from echelon.search import advise as find
from echelon.torch.scores import LAST, complete, waiting
from echelon.torch.stamp_exchange import Exchange
from echelon.torch.stamping import MISSING, Clock, Row, Step, clock_of
from echelon.torch.step_record import StepRecord
from echelon.torch.watch_report import Report, for_gradients, paces_of, profile_of, reported, usual_parts

Hook = Callable[[Any, Any], Any]


def watch(
    model: DistributedDataParallel,
    *,
    hook: Hook | None = None,
    state: Any = None,
    record: str | Path | None = None,
    every: int = 64,
    keep: int = 2000,
    clock: Clock | None = None,
) -> "Watcher":
    """Watch the ranks that train a model, from now on, and return who tells of them; see `Watcher`.

    Call it on every rank of the model's process group, before the first step or between the same two, with the same
    `every`. It registers a communication hook, of which a model can have one: the mean of the gradients as
    `DistributedDataParallel` computes it, or else `hook`, with `state`, in place of your own
    ``model.register_comm_hook(state, hook)``.

    record: file that steps are written to, by the first rank: the record of a run, which `echelon report`, `echelon
        trace` and `echelon advise` read. About 2 kB per step of four ranks, and a tenth of a millisecond.
    every: how often stamps are shared: after 2, 4, 8 ... steps and then after each `every`.
    keep: how many steps scores rest on, the latest; what was waited is added up over all.
    clock: that of the model's device by default, see `echelon.torch.stamping`.

    A model on one process, for the example:

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile() as file:
    ...     dist.init_process_group("gloo", init_method=f"file://{file.name}", rank=0, world_size=1)
    ...     model = DistributedDataParallel(torch.nn.Linear(3, 1))
    ...     with watch(model) as watcher:
    ...         for _ in range(5):
    ...             model(torch.ones(8, 3)).sum().backward()
    ...     watcher.gather()
    ...     report = watcher.report()
    ...     dist.destroy_process_group()
    >>> report.steps, report.ranks[0].score, report.ranks[0].kind in ("on time", "once", "at times")
    (4, 1.0, True)
    """
    checks.instance("model", model, DistributedDataParallel)
    if hook is not None and not callable(hook):
        raise ArgumentError(f"hook: {checks.shown(hook)} is not allowed; must be a communication hook")
    if hook is None and state is not None:
        raise ArgumentError("state: not allowed without a hook; it is what a hook of your own is given")
    checks.whole("every", every, least=2, most=10**6)
    checks.whole("keep", keep, least=1, most=10**7)
    if record is not None and not isinstance(record, str | Path):
        raise ArgumentError(f"record: {checks.shown(record)} is not allowed; must be the path of a file")
    if getattr(model, "_comm_hooks", None):
        raise ArgumentError(_TAKEN)
    watcher = Watcher(model, hook, state, record=record, every=every, keep=keep, clock=clock)
    try:
        model.register_comm_hook(watcher, lambda state, bucket: state.ready(bucket))
    except RuntimeError as error:  # one of those that are built in
        watcher.close()
        raise ArgumentError(_TAKEN) from error
    return watcher


_TAKEN = (
    "model: one that has a communication hook is not allowed; must be without: give yours as "
    "watch(model, hook=..., state=...) in place of model.register_comm_hook"
)


class Watcher(Closing):
    """What `watch` returns: it stamps when each rank is ready for the reduce of a step, and tells what follows.

    All ranks leave a reduce together and come to the next one when their own work is done. A rank's own time, from the
    end of one reduce until its last bucket is ready for the next, holds all that it does meanwhile: the optimiser,
    loading data, passes forward and back, several of them under `no_sync`. Only such durations, each on the clock of
    its rank, are compared. On a GPU they are measured by events in its queue.

    Stamps are shared by a small gather through the process group that is there, which is begun in the hook, by all
    ranks in the same step, and never waited for. So `report`, `profile` and `advise` work on any rank alone, and know
    of the steps until the latest gather; `gather`, on all ranks, shares the rest.

    `close` ends the stamping, on each rank when it likes; the model goes on being reduced as before. Marks take about
    20 microseconds a step on an idle core, beside what any hook in Python costs. Steps that some rank had no forward
    pass in (`model.join()`) don't count.
    """

    def __init__(
        self,
        model: DistributedDataParallel,
        hook: Hook | None,
        state: Any,
        *,
        record: str | Path | None,
        every: int,
        keep: int,
        clock: Clock | None,
    ) -> None:
        self._group, self._hook, self._state = model.process_group, hook, state
        device = next(parameter for parameter in model.parameters() if parameter.requires_grad).device
        self._clock = clock_of(device) if clock is None else clock
        self._exchange = Exchange(self._group, device)
        self._names = [int(rank) for rank in dist.get_process_group_ranks(self._group)]
        self._every, self._keep = every, keep
        self._step, self._before, self._steps = Step(), Step(), deque[tuple[Step, Step]]()
        self._open, self._count = False, -1  # the first step begins nobody knows when
        self._kept, self._seen = deque[FloatArray](), 0
        self._waited, self._awaited = np.zeros(len(self._names)), np.zeros(len(self._names))
        self._closed = self._silent = False
        self._record: StepRecord | None = None
        if record is not None and dist.get_rank(self._group) == 0:
            names = [f"rank {name}" for name in self._names]
            self._record = StepRecord(Path(record), names, usual_parts(len(names)))
        self._forward = model.register_forward_pre_hook(self._begun)

    def _begun(self, module: Any, inputs: Any) -> None:
        if self._step.begun is None and torch.is_grad_enabled():
            self._step.begun = self._clock.mark()

    def ready(self, bucket: Any) -> Any:
        """Stamp a bucket that is ready, reduce it, and return a future of it: the communication hook."""
        step, last, stamps = self._step, bucket.is_last(), not self._closed
        step.closed = self._closed
        if not self._open:
            self._open = True
            if stamps:
                step.first = self._clock.mark()
            self._share()
        if last:
            if stamps:
                step.last = self._clock.mark()
            if not self._silent:
                self._steps.append((self._before, step))
            self._before, self._step, self._open = step, Step(), False
            self._count += 1

        if self._hook is not None:
            future = self._hook(self._state, bucket)
        else:
            share = _share_of(bucket.buffer(), len(self._names))
            future = dist.all_reduce(share, group=self._group, async_op=True).get_future()
        # the queue of a device keeps the order of buckets; elsewhere any may be the last to come
        return future.then(_marker(step, self._clock if stamps and (last or not self._clock.lag) else None))

    def _share(self) -> None:
        """Begin a gather if it is time, before the first bucket of a step is reduced: nothing else is on its way."""
        count = self._count
        early = count in _FIRST and count < self._every
        if not self._silent and (early or (count > 0 and count % self._every == 0)):
            self._take(wait=True)
            if not self._silent:
                self._exchange.begin(self._rows(self._clock.lag))

    def _rows(self, lag: int) -> list[Row]:
        """Return the rows of the steps that were not shared yet, but for the latest."""
        rows = []
        while len(self._steps) > lag:
            before, step = self._steps.popleft()
            rows.append(step.row(before, self._clock))
        return rows or [MISSING]

    def _take(self, *, wait: bool) -> None:
        """Take in the stamps of a gather that has arrived."""
        stamps = self._exchange.end(wait=wait)
        if stamps is None:
            return
        self._silent = bool(np.isinf(stamps[-1]).all())  # no rank stamps any more, and none begins another gather
        stamps = stamps[complete(stamps)]
        if not len(stamps):
            return
        waited, awaited = waiting(stamps[:, :, LAST])
        self._waited += waited.sum(axis=0)
        self._awaited += awaited.sum(axis=0)
        self._seen += len(stamps)
        if self._record is not None:
            self._record.add(stamps)
        self._kept.append(stamps.astype(np.float32))
        while sum(map(len, self._kept)) - len(self._kept[0]) >= self._keep:
            self._kept.popleft()

    def gather(self) -> None:
        """Share what was not shared yet; call it on all ranks, between the same two steps. It waits for them."""
        self._take(wait=True)
        self._exchange.begin(self._rows(0))
        self._take(wait=True)

    @property
    def stamps(self) -> FloatArray:
        """What scores rest on, shape (steps, ranks, 4): see `echelon.torch.scores`."""
        self._take(wait=False)
        if not self._kept:
            raise ArgumentError(
                "no step is known of yet; stamps are shared after 2, 4, 8 ... steps, or by gather() on all ranks"
            )
        found: FloatArray = np.concatenate(self._kept)[-self._keep :].astype(np.float64)
        return found

    def report(self, *, advice: bool = True) -> Report:
        """Return what was seen of the ranks until the latest gather.

        advice: also ask `advise`, which takes seconds: leave it out between steps, where other ranks would wait.
        """
        checks.flag("advice", advice)
        stamps = self.stamps
        found = next(for_gradients(self.advise())) if advice else None
        return reported(stamps, self._waited, self._awaited, self._names, self._seen, found)

    def profile(self, *, parts: int | None = None, costs: Costs | None = None) -> Profile:
        """Return the ranks as workers of a profile.

        parts: that a rank's samples are cut into, by default 16, fewer from 17 ranks on.
        costs: of messages and rounds. By default a message costs what a reduce takes once all ranks are there.

        What a rank does before its forward pass becomes its link, which is there in each step whatever its share.
        """
        return profile_of(self.stamps, self._names, self._parts(parts), _costs(costs))

    def advise(self, *, parts: int | None = None, costs: Costs | None = None, **options: Any) -> Advice:
        """Return what `echelon.advise` says of a gradient on these ranks, with their times as stamped.

        A strategy's `plan()` fits ``CodedGradient(..., plan=plan)``; that of `report().advised` is the best for it.
        options: of `echelon.advise`.
        """
        stamps, parts = self.stamps, self._parts(parts)
        profile = profile_of(stamps, self._names, parts, _costs(costs))
        return find(profile, **{"laws": paces_of(stamps, parts)} | options)

    def _parts(self, parts: int | None) -> int:
        return usual_parts(len(self._names)) if parts is None else checks.whole("parts", parts, least=1, most=1000)

    def close(self) -> None:
        """Stop stamping, and close the record; what was seen can still be asked for."""
        if self._closed:
            return
        self._closed = True
        self._forward.remove()
        self._take(wait=False)
        if self._record is not None:
            self._record.close()

    def _leave(self, *, well: bool) -> None:
        self.close()


_FIRST = frozenset(2**k for k in range(1, 20))


def _costs(costs: Costs | None) -> Costs | None:
    return None if costs is None else checks.instance("costs", costs, Costs)


def _marker(step: Step, clock: Clock | None) -> Callable[[Any], Any]:
    """Return what is done when a bucket was reduced.

    A thread of the process group drops it. So it holds no watcher: the group itself could go with that, and can't be
    ended by a thread of its own.
    """

    def reduced(future: Any) -> Any:
        value = future.value()
        if clock is not None:
            step.reduced = clock.mark()
        return value[0] if isinstance(value, list) else value

    return reduced


def _share_of(gradients: Tensor, ranks: int) -> Tensor:
    """Return gradients over the number of ranks, in place, rounded as the model itself would do."""
    return gradients.div_(ranks) if gradients.is_sparse else gradients.mul_(1 / ranks)
