"""Rounds of local steps as a job: the outer step, on the master."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from echelon.arrays import NumberArray
from echelon.clusters import Cluster
from echelon.codes import Code, uncoded
from echelon.endings import Quorum
from echelon.jobs import Collected, IterativeJob
from echelon.plan import Plan
from echelon.schemes import quorum
from echelon.torch.local_shares import Shares
from echelon.torch.local_steps import LocalSteps, Start
from echelon.torch.seeding import Asking


class LocalRound(NamedTuple):
    """What a round of local steps was like.

    round: its number, from 0. loss: mean over the steps of the workers that came, before the outer step.
    left_out: places whose steps the round ended without. steps: what each place was to do.
    samples: how many the steps of those that came have used.
    """

    round: int
    loss: float
    left_out: tuple[int, ...]
    steps: tuple[int, ...]
    samples: int


class LocalState(NamedTuple):
    """Weights that all workers share, and what else the next round needs.

    weights: the trained parameters, as one vector. momentum: of the outer step. buffers: of the model.
    round: the number of the next one. last: what the one before was like.
    """

    weights: NumberArray
    momentum: NumberArray
    buffers: tuple[NumberArray, ...]
    round: int
    last: LocalRound | None = None


class Outer(NamedTuple):
    """Nesterov's momentum on what the workers moved.

    With the shared weights x, and the mean d of what the workers that came have moved, weighted by their samples,

        v <- momentum v + d,    x <- x + rate (d + momentum v).

    It is `torch.optim.SGD(lr=rate, momentum=momentum, nesterov=True)` with -d for a gradient. Rate 1 without momentum
    is the mean of the workers' weights.
    """

    rate: float
    momentum: float

    def step(self, state: LocalState, moved: NumberArray, last: LocalRound) -> LocalState:
        """Return the next state from the mean of what moved: parameters, then buffers."""
        count = len(state.weights)
        momentum = self.momentum * state.momentum + moved[:count]
        weights = state.weights + self.rate * (moved[:count] + self.momentum * momentum)
        buffers, at = [], count
        for before in state.buffers:
            mean = moved[at : at + before.size].reshape(before.shape)
            buffers.append((before + (mean if before.dtype.kind == "f" else np.rint(mean))).astype(before.dtype))
            at += before.size
        kind = state.weights.dtype
        return LocalState(weights.astype(kind), momentum.astype(kind), tuple(buffers), state.round + 1, last)


class LocalJob(IterativeJob):
    """Rounds of local steps, each followed by an outer step; from `LocalSGD`.

    Speeds that it has measured are not part of its state: a job that goes on from a journal measures again.
    """

    added = True
    ahead = False

    def __init__(
        self,
        work: LocalSteps,
        state: LocalState,
        outer: Outer,
        shares: Shares,
        ending: Quorum,
        *,
        batch_size: int,
        iterations: int,
        name: str | None,
    ) -> None:
        super().__init__(state=state, iterations=iterations, until=None, name=name, tolerance=None)
        self._work, self._outer, self._shares, self._ending = work, outer, shares, ending
        self._batch_size, self._steps = batch_size, shares.steps
        self.asking = Asking()  # for the round that is computed
        self.parts = len(self._steps)
        self.plan = self._planned()

    def _planned(self) -> Any:
        ending = self._ending
        return quorum(
            workers=self.parts, load=self._steps, share=ending.share, least=ending.least, grace=ending.grace,
            stretch=ending.stretch,
        )  # fmt: skip

    def code(self, redundancy: float, rng: Generator) -> Code:
        """Return the code of a place: none."""
        return uncoded(parts=1)

    def work(self, codes: Sequence[Code]) -> LocalSteps:
        """Return what travels to the workers."""
        return self._work

    def open(self, cluster: Cluster, state: Any) -> Plan | None:
        """Return a plan with as many steps per place as its speed asks for, where that has changed."""
        if self._steps != self._shares.steps:
            self._steps = self._shares.steps
            self.plan = self._planned()
        return self.plan

    def request(self, state: LocalState) -> Start:
        """Return what local steps begin with."""
        self.asking = Asking()
        return Start(state.weights, state.buffers, state.round, self._steps, self.asking)

    def recovered(self, collected: Collected) -> tuple[NumberArray, tuple[int, ...]]:
        """Return what moved, added up, and the places it is from."""
        total, places = collected.total(), tuple(sorted(collected.weights))
        took = {place: collected.messages[place, 0] for place in places}
        senders = [message.worker for message in took.values()]
        # one that did the work of another place as well tells nothing of that place
        alone = {place: each.seconds for place, each in took.items() if senders.count(each.worker) == 1}
        self._shares.observe(alone)
        return total, places

    def step(self, state: LocalState, recovered: tuple[NumberArray, tuple[int, ...]]) -> LocalState:
        """Return the state after the outer step."""
        total, places = recovered
        steps = sum(self._steps[place] for place in places)
        mean = total / steps
        left = tuple(place for place in range(self.parts) if place not in places)
        last = LocalRound(state.round, float(mean[-1]), left, self._steps, steps * self._batch_size)
        return self._outer.step(state, mean[:-1], last)
