"""What an evaluator answers when it is asked whether it can do something: yes, or no with the reason in words.

A plan under a law has one meaning: what the master does in virtual time. Everything that evaluates a plan in another
way has a function ``can(plan, laws, rules)``, and refuses what it can't do.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Can:
    """Whether something can be evaluated: true, unless there is a reason why not.

    >>> bool(Can()), bool(Can("it has a pool"))
    (True, False)
    """

    why_not: str = ""

    def __bool__(self) -> bool:
        return not self.why_not


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the rounds of a plan are run, besides what the plan says.

    purge: whether the rest of a round that is over is dropped; otherwise the round waits for all of it.
    lend: whether workers of recovered slots repeat what others still have to do.
    overlap: whether workers without a task begin the next job.
    port: whether messages wait for one another at the master's port.
    stay: whether rows stay with their workers, and are added up there when the round has enough.
    calls: whether work that is handed out later has the times of a lane that begins (`Delay.per_call`).
    """

    purge: bool = True
    lend: bool = False
    overlap: bool = False
    port: bool = False
    stay: bool = False
    calls: bool = False


PLAIN = Rules()
