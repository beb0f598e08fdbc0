"""Which strategy for this cluster: predicted at true cost, ranked, with a sentence why."""

from echelon.advice.advice import WORKS, Advice, advise
from echelon.advice.outcome import Outcome
from echelon.advice.strategies import STRATEGIES
from echelon.advice.strategy import Strategy

__all__ = ["STRATEGIES", "WORKS", "Advice", "Outcome", "Strategy", "advise"]
