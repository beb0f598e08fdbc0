"""Plans in virtual time: rounds, streams of jobs, timelines, the closed loop."""

from echelon.simulation.closed_loop import LoopResult, closed_loop
from echelon.simulation.rounds import Rounds, RoundSampler
from echelon.simulation.stream import CONFIDENCE, Interval, StreamResult, simulate, simulate_law
from echelon.simulation.timeline import Timeline, timeline

__all__ = [
    "CONFIDENCE",
    "Interval",
    "LoopResult",
    "RoundSampler",
    "Rounds",
    "StreamResult",
    "Timeline",
    "closed_loop",
    "simulate",
    "simulate_law",
    "timeline",
]
