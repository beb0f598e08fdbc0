"""Which code, which split, which design, which chain, which workers; and which strategy of all, at true cost."""

from echelon.search.advice import WORKS, Advice, advise
from echelon.search.chains import ChainSearch, optimise_chain
from echelon.search.checks_cost import ChecksCost, checks_cost
from echelon.search.codes import CodeShape, Trial, algorithm1, best_code, code_grid
from echelon.search.multi_message import Design, DesignSearch, optimise_multi_message
from echelon.search.outcome import Outcome
from echelon.search.splits import RULES, split_rows
from echelon.search.strategies import STRATEGIES
from echelon.search.strategy import Strategy
from echelon.search.workers import Enlarged, add_until_stable

__all__ = [
    "RULES", "STRATEGIES", "WORKS", "Advice", "ChainSearch", "ChecksCost", "CodeShape", "Design", "DesignSearch",
    "Enlarged", "Outcome", "Strategy", "Trial", "add_until_stable", "advise", "algorithm1", "best_code", "checks_cost",
    "code_grid", "optimise_chain", "optimise_multi_message", "split_rows",
]  # fmt: skip
