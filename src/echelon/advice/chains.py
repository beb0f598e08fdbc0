"""Strategies for chains of matrix products: the best scheme of each kind, all on the same draws."""

from collections.abc import Sequence
from functools import partial

from echelon.advice.outcome import Outcome, outcome
from echelon.advice.strategies import Strategy
from echelon.chain_search import optimise_chain
from echelon.delays import Delay
from echelon.profile import Profile
from echelon.schemes import Sequential
from echelon.simulation import simulate_chain

PRODUCTS, SEEDS = 400, 40
_NAMES = {
    "uncoded": "uncoded products",
    "polynomial": "polynomial code",
    "dip": "diagonal interleaved (DIP)",
    "idip": "improved (IDIP)",
    "bursts": "improved, for bursts",
}


def chains(profile: Profile, laws: Sequence[Delay], delay_rounds: int, seed: int) -> list[Outcome]:
    """Return what to expect of each kind of scheme, best first; a product takes one worker `critical` parts."""
    loads, links = [float(profile.job.critical)], profile.speeds.link
    workers = len(profile.workers)
    found = optimise_chain(workers, laws, delay=delay_rounds, loads=loads, links=links, seed=seed)
    played = {
        kind: simulate_chain(scheme, laws, loads=loads * PRODUCTS, links=links, seeds=SEEDS, seed=seed + 1)
        for kind, (scheme, _) in found.best.items()
    }
    times = {kind: seen.times[:, None] + profile.costs.round for kind, seen in played.items()}
    outcomes = [
        outcome(
            profile,
            Strategy(_NAMES[kind], "uncoded" if kind == "uncoded" else "coded", partial(_first, found.best[kind])),
            times[kind],
            times["uncoded"],
        )
        for kind in played
    ]
    return sorted(outcomes, key=lambda one: one.iteration)


def _first(found: tuple[Sequential, float]) -> Sequential:
    return found[0]
