"""Plans under laws, vectorised over rounds, jobs and seeds: single rounds, streams of jobs, chains of products."""

from echelon.simulation.chains import ChainResult, simulate_chain
from echelon.simulation.completion import CompletionResult, complete
from echelon.simulation.rounds import Rounds, RoundSampler
from echelon.simulation.simulate import simulate
from echelon.simulation.spans import complete_by_span
from echelon.simulation.stream import CONFIDENCE, Interval, StreamResult, simulate_law, simulate_stream

__all__ = [
    "CONFIDENCE", "ChainResult", "CompletionResult", "Interval", "RoundSampler", "Rounds", "StreamResult",
    "complete", "complete_by_span", "simulate", "simulate_chain", "simulate_law", "simulate_stream",
]  # fmt: skip
