"""Plans in virtual time: rounds, streams of jobs, timelines, the closed loop."""

from echelon.simulation.closed_loop import LoopResult, closed_loop
from echelon.simulation.faults import Faults, random_faults
from echelon.simulation.rounds import Rounds, RoundSampler
from echelon.simulation.stream import CONFIDENCE, Interval, StreamResult, simulate, simulate_law
from echelon.simulation.timeline import Timeline, timeline
from echelon.simulation.virtual import NeverEnds, VirtualCluster, VirtualResult

__all__ = [
    "CONFIDENCE",
    "Faults",
    "Interval",
    "LoopResult",
    "NeverEnds",
    "RoundSampler",
    "Rounds",
    "StreamResult",
    "Timeline",
    "VirtualCluster",
    "VirtualResult",
    "closed_loop",
    "random_faults",
    "simulate",
    "simulate_law",
    "timeline",
]
