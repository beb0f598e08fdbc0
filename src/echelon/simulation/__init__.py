"""Plans under laws, vectorised over rounds, jobs and seeds: single rounds, streams of jobs, chains of products."""

from echelon.simulation.chains import ChainResult, simulate_chain
from echelon.simulation.gradients import simulate_gradients
from echelon.simulation.rounds import Rounds, RoundSampler
from echelon.simulation.simulated_jobs import CONFIDENCE, Interval, SimulatedJobs, simulate_jobs, simulate_law
from echelon.simulation.simulated_rounds import SimulatedRounds, simulate_rounds

__all__ = [
    "CONFIDENCE", "ChainResult", "Interval", "RoundSampler", "Rounds", "SimulatedJobs", "SimulatedRounds",
    "simulate_chain", "simulate_gradients", "simulate_jobs", "simulate_law", "simulate_rounds",
]  # fmt: skip
