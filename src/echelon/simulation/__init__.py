"""Plans in virtual time: rounds, streams of jobs, timelines, the closed loop."""

from echelon.simulation.chains import ChainResult, simulate_chain
from echelon.simulation.closed_loop import LoopResult, closed_loop
from echelon.simulation.completion import CompletionResult, complete
from echelon.simulation.faults import Faults, random_faults
from echelon.simulation.rounds import Rounds, RoundSampler
from echelon.simulation.simulate import simulate
from echelon.simulation.spans import complete_by_span
from echelon.simulation.stream import CONFIDENCE, Interval, StreamResult, simulate_law, simulate_stream
from echelon.simulation.timeline import Timeline, timeline
from echelon.simulation.virtual import NeverEnds, VirtualCluster
from echelon.simulation.virtual_result import VirtualResult

__all__ = [
    "CONFIDENCE",
    "ChainResult",
    "CompletionResult",
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
    "complete",
    "complete_by_span",
    "random_faults",
    "simulate",
    "simulate_chain",
    "simulate_law",
    "simulate_stream",
    "timeline",
]
