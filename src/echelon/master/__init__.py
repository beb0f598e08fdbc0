"""The state machine that runs plans: queue, rounds, endings, purge, loss.

`events` in, `actions` out (`machine`). The cluster has the clock, the driver the arithmetic.
"""

from echelon.master import actions, events
from echelon.master.machine import Master, Phase

__all__ = ["Master", "Phase", "actions", "events"]
