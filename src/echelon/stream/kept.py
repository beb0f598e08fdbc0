"""Jobs whose data stays with the workers: run again and again, from whatever state comes next."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from echelon.closing import Closing
from echelon.clusters import new_key
from echelon.codes import Code
from echelon.errors import ClusterError
from echelon.jobs import IterativeJob
from echelon.plan import Plan
from echelon.schemes import CodedPlan, Regrouping
from echelon.stream.coding import Coded
from echelon.stream.handle import Handle
from echelon.stream.task_times import TaskTimes


@dataclass(slots=True, eq=False, weakref_slot=True)
class Store:
    """A job's work at the workers: its key, whether it is loaded, how many jobs use it, and the plans made for it.

    plan: the plan of the job, if not a split by the workers' speeds.
    kept: whether it stays there when no job needs it. rounds: how often it was used. times: how long its tasks take.
    coded: the code and decoder that its data was encoded for again, after it was `plain` at first.
    regrouping: who takes which lane of the plan in the next round, where that changes.
    """

    plan: CodedPlan | None = None
    kept: bool = False
    key: int = field(default_factory=new_key)
    loaded: bool = False
    users: int = 0
    plans: dict[tuple[int, ...], Plan] = field(default_factory=dict)  # by counts
    times: TaskTimes = field(default_factory=TaskTimes)
    rounds: int = 0
    coded: Coded | None = None
    plain: Code | None = None
    regrouping: Regrouping | None = None

    @property
    def next_plan(self) -> CodedPlan | None:
        """The plan of the next round, if the job has one."""
        return self.plan if self.regrouping is None else self.regrouping.plan

    def renew(self, coded: Coded, plain: Code) -> None:
        """Note that the data is to be loaded again, encoded."""
        self.coded, self.plain, self.key, self.loaded = coded, plain, new_key(), False
        self.plans.clear()


class Kept(Closing):
    """A job that is kept at the workers; from `Stream.keep`.

    What it computes for one caller after another waits its turn with all other jobs of the stream. Results go to the
    caller, and are not among the stream's `deliveries`.
    """

    def __init__(
        self,
        job: IterativeJob,
        plan: Callable[[IterativeJob], CodedPlan | None],
        submit: Callable[[IterativeJob, Any, Store], Handle],
        drop: Callable[[Store], None],
    ) -> None:
        self.job = job
        self._plan, self._submit, self._drop = plan, submit, drop
        self._renewing = Lock()
        self._store = Store(plan(job), kept=True)
        self._dropped = False

    def submit(self, state: Any) -> Handle:
        """Put the job at the end of the queue, to run from this state.

        It is not copied: leave it alone until the job has ended. A job whose `update` works in place changes it; where
        jobs overlap, none that waits may then have a state that shares memory with another's.
        """
        with self._renewing:
            if self._dropped:
                raise ClusterError("this job was dropped: the workers have forgotten its data; keep it again")
            plan = self._plan(self.job)
            if plan is not self._store.plan:  # another code: its work is sent again
                self._drop(self._store)
                self._store = Store(plan, kept=True)
            return self._submit(self.job, state, self._store)

    def run(self, state: Any) -> Any:
        """Return the job's last state when it begins with this one, after waiting for it."""
        return self.submit(state).result()

    def drop(self) -> None:
        """Let the workers forget the data, as soon as nothing that was submitted needs it."""
        with self._renewing:
            if not self._dropped:
                self._dropped = True
                self._drop(self._store)

    def _leave(self, *, well: bool) -> None:
        self.drop()
