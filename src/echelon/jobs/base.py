"""What a job is to the stream, whatever it computes: a code, work for the workers, and steps on the master.

Rounds of an iterative job are all alike; a `RoundJob` plans each from what came of those before. To the driver both are
the same: `open` a round, `request` what its parts are computed from, `advance` with what came.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from numpy.random import Generator

from echelon import checks
from echelon.clusters import Cluster, Work
from echelon.codes import Code
from echelon.endings import Policy
from echelon.errors import ArgumentError
from echelon.jobs.collected import Collected
from echelon.jobs.own_code import OwnCode, checked_choice
from echelon.plan import Plan
from echelon.schemes import CodedPlan

VERIFY = ("spare", "vote")  # how results may be checked


class IterativeJob(ABC):
    """An iterative computation that is submitted to a stream.

    iterations: how many; at most, where `until` is given as well.
    until: called with the state after each step; ends the job when it says True.
    name: what it is called in deliveries and progress.
    tolerance: error of a recovered iteration that is accepted, relative to its terms; a noisier one waits for another
        row. By default half of the digits of the numbers used.

    A subclass sets `parts`: they and the redundancy determine its code, unless it has one of its own (`own_code`), or
    brings a `plan` with codes; `lend` then says whether workers of slots that are recovered may help those that lag. A
    job whose code recovers many values, and not one sum, is `stacked`; one that wants what each slot gives, and not
    their sum, is `by_slot`. One whose results are only ever added up, by slot or all together, is `added`.
    `move_cost` is the cost, in parts, of a part that is new to a worker. `ahead` says whether idle workers may do its
    first round before its turn, `restarts` whether it can be run again and again from any state. `noise_limit` is the
    largest amplification of noise that its decoder accepts (None: its code's own); the tolerance decides below that.
    `message_bytes` is the size of a message, where it is known before one comes. `encodes` says whether its data may be
    encoded for more redundancy while it runs, at no more work per row. `copies` says whether each call of its
    functions on a worker gets copies of what it is given, instead of data that it can't change. `workers` is how many
    it is for, where it can't take any number of them; `codes` are those of its slots, over and over again, where it has
    more than one without a plan. `verify` says how results are checked before each step, one of `VERIFY`; None: as the
    stream does. `regroup` is the number of groups of its plan that each worker holds data of, to change groups between
    rounds (`schemes.Regrouping`); None: they stay. `ending` is the policy by which its rounds end, None for exact ones;
    one whose sums are `unbiased` has those that are not exact multiplied by what is missing.
    """

    parts: int
    plan: CodedPlan | None = None
    own_code: OwnCode | None = None
    lend = False
    stacked = False
    by_slot = added = False
    ahead = True
    restarts = True
    move_cost = 0.0
    noise_limit: float | None = 1e12
    message_bytes = 0.0
    encodes = copies = False
    workers: int | None = None
    codes: tuple[Code, ...] | None = None
    verify: str | None = None
    regroup: int | None = None
    ending: Policy | None = None
    unbiased = False

    def __init__(
        self, *, state: Any, iterations: int | None, until: Any, name: str | None, tolerance: float | None
    ) -> None:
        if iterations is None and until is None:
            raise ArgumentError("iterations, until: missing; one of them must say when the job ends")
        if until is not None and not callable(until):
            raise ArgumentError(f"until: {until!r} is not allowed; must be a function of the state")
        if name is not None and not isinstance(name, str):
            raise ArgumentError(f"name: {name!r} is not allowed; must be a text")
        self.iterations = None if iterations is None else checks.whole("iterations", iterations, least=1)
        self.until = until
        self.name = name
        self.tolerance = None if tolerance is None else checks.number("tolerance", tolerance, above=0)
        self.state = state

    @abstractmethod
    def code(self, redundancy: float, rng: Generator) -> Code:
        """Return the code that protects an iteration, with about `redundancy` rows per needed one."""

    def plain_code(self) -> Code | None:
        """Return a code whose rows are the parts; None where the job can't go on with another code than its own."""
        return None

    @property
    def code_key(self) -> Hashable:
        """Equal for jobs that share a code at the same redundancy: all that `code` depends on."""
        return type(self), self.parts, self.own_code

    def encoding_s(self, spare: int) -> float:
        """Return about how many seconds it takes to encode the data for this many more rows."""
        return 0.0

    def use_code(self, code: OwnCode) -> None:
        """Protect iterations by the caller's own code; its rows are still shared out by the workers' speeds."""
        if self.plan is not None or self.by_slot:
            raise ArgumentError("code: not allowed together with a plan, which has codes")
        self.own_code = checked_choice(code)

    @abstractmethod
    def work(self, codes: Sequence[Code]) -> Work:
        """Return what travels to the workers, for slots with these codes."""

    @abstractmethod
    def request(self, state: Any) -> Any:
        """Return what the parts of an iteration are computed from."""

    @abstractmethod
    def step(self, state: Any, recovered: Any) -> Any:
        """Return the next state from what was recovered: the sum, all values along a first axis, or a list by slot."""

    def terms(self, request: Any) -> float:
        """Return how large the terms are that a row of length 1 adds up, where that may be more than its sum shows."""
        return 0.0

    def open(self, cluster: Cluster, state: Any) -> Plan | None:
        """Return the plan of the next round, with one lane per place, and load what it needs; None: any will do."""
        return None

    def ended(self, state: Any) -> None:  # noqa: B027 - most jobs hold nothing
        """Give back what a run of the job that ended, well or not, still holds."""

    def held(self, state: Any, slot: int) -> Sequence[int]:
        """Return the rows of a slot that came in rounds before."""
        return ()

    def chunk_of(self, part: int) -> int | None:
        """Return the number of the chunk that a part is computed from, to name it in errors; None without chunks."""
        return None

    def recovered(self, collected: Collected) -> Any:
        """Return what `step` is given."""
        if self.by_slot:
            return collected.by_slot()
        return collected.stacked() if self.stacked else collected.total()

    def advance(
        self, state: Any, iteration: int, collected: Collected, decide: Callable[[bool], None]
    ) -> tuple[Any, bool | None]:
        """Return the state after a round, the job's iteration-th, and whether that was the last one.

        None: not known yet; `decide` is called later, from any thread.
        """
        after = self.step(state, self.recovered(collected))
        if after is None and state is not None:
            raise ArgumentError("update: returned None; must return the next state")
        return after, self.finished(after, iteration)

    def finished(self, state: Any, iteration: int) -> bool:
        """Return whether the job has ended after this many iterations."""
        if self.iterations is not None and iteration >= self.iterations:
            return True
        return self.until is not None and bool(self.until(state))


class RoundJob(IterativeJob):
    """A job that plans each of its rounds itself, from what came of those before. All of its slots have one code, or
    those of `codes` in turn."""

    by_slot = True
    ahead = restarts = False
    noise_limit = None

    def __init__(self, *, name: str | None, tolerance: float | None) -> None:
        super().__init__(state=None, iterations=None, until=self._never, name=name, tolerance=tolerance)

    @staticmethod
    def _never(state: Any) -> bool:
        return False

    @abstractmethod
    def open(self, cluster: Cluster, state: Any) -> Plan:
        """Return the plan of the next round, with one lane per place, and load what it needs."""

    @abstractmethod
    def close(self, state: Any, collected: Collected, decide: Callable[[bool], None]) -> bool | None:
        """Use what came of a round; return whether it was the last, or None where `decide` is called later."""

    def advance(
        self, state: Any, iteration: int, collected: Collected, decide: Callable[[bool], None]
    ) -> tuple[Any, bool | None]:
        """Close the round."""
        return state, self.close(state, collected, decide)

    def step(self, state: Any, recovered: Any) -> Any:
        """Never called: `close` takes what came."""
        raise AssertionError("a job of rounds takes no steps")


def checked_verify(verify: str | None) -> str | None:
    """Return a way to check results, or refuse anything else."""
    return None if verify is None else checks.one_of("verify", verify, VERIFY)


def checked_function(name: str, value: Any) -> Any:
    """Return a function, or refuse anything else."""
    if not callable(value):
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be a function")
    return value
