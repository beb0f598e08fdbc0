"""The state machine that runs plans: queue, rounds, purge, loss. Drivers own the clock and the arithmetic."""

from echelon.master.actions import (
    Action,
    Assign,
    Deliver,
    Outcome,
    Purge,
    Recover,
    Replan,
    SetTimer,
    Starve,
    Stop,
    Update,
)
from echelon.master.events import (
    Alarm,
    Cancelled,
    Event,
    Failed,
    Joined,
    Lost,
    Planned,
    PlannedAhead,
    Received,
    Recovered,
    Refused,
    Submitted,
    Updated,
)
from echelon.master.machine import IllegalEvent, Master, Phase

__all__ = [
    "Action", "Alarm", "Assign", "Cancelled", "Deliver", "Event", "Failed", "IllegalEvent", "Joined", "Lost",
    "Master", "Outcome", "Phase", "Planned", "PlannedAhead", "Purge", "Received", "Recover", "Recovered",
    "Refused", "Replan", "SetTimer", "Starve", "Stop", "Submitted", "Update", "Updated",
]  # fmt: skip
