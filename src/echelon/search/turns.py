"""What chains of gradients take where several models are trained in turn, beside strategies for one job at a time.

As a chain begins a gradient in each round, its mean round is the time of a gradient, as an iteration is elsewhere. The
rounds are those of the profile's laws, as workers in virtual time draw them; recorded ones are the same for all.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from echelon.delays import Delay, common_cycle
from echelon.errors import ArgumentError
from echelon.job_delay import by_formula
from echelon.profile import Profile
from echelon.schemes import GRADIENT_CHAINS, GradientChain
from echelon.search.handling import Sizes
from echelon.search.outcome import Outcome, sampled
from echelon.search.strategy import Strategy
from echelon.simulation import simulate_gradients

FRACTIONS = (16, 8, 4)  # of the workers that may straggle at once, one in so many
BURSTS = ((1, 2), (2, 3))  # rounds that one may straggle for, B, and the window W
RUNS = 3
WORK, ROUNDS = 20_000, (30, 300)  # workers times rounds of a run, and how many rounds these may be


def turns(
    profile: Profile, laws: Sequence[Delay], sizes: Sizes, models: int, base: float, seed: int
) -> tuple[list[Outcome], tuple[tuple[str, str], ...]]:
    """Return what to expect of each chain that so many models keep busy, and of which it can't be said, and why.

    base: what an iteration of the baseline takes.
    """
    costs, found, refused = profile.costs, list[Outcome](), list[tuple[str, str]]()
    parts, workers = float(profile.workload.critical), len(laws)
    charged = costs.message > 0 or (sizes.message > 0 and (costs.bandwidth, costs.combining) != (float("inf"), 0.0))
    cycle = common_cycle(laws)
    rounds = cycle or max(ROUNDS[0], min(ROUNDS[1], WORK // workers))
    for name, scheme in _schemes(workers, models):
        if charged or sizes.state > 0:
            refused.append((name, "what messages and states take is not simulated for chains of gradients"))
        elif scheme.share * parts < 1 and any(law.per_call for law in laws):
            refused.append((name, "its tasks are less than a part, and calls cost something: let parts be smaller"))
        else:
            seen = simulate_gradients(
                scheme, laws, gradients=rounds, cost=parts, links=profile.speeds.link, seeds=RUNS, seed=seed
            )
            moments = sampled(seen.durations[:, :rounds] + costs.round)
            strategy = Strategy(name, "coded", partial(_itself, scheme), job="TurnJob")
            gain, delay = 1 - moments.mean / base, by_formula(profile, moments).mean
            found.append(Outcome(strategy, moments.mean, moments.error, delay, gain))
    return found, tuple(refused)


def _schemes(workers: int, models: int) -> Iterator[tuple[str, GradientChain]]:
    """Yield all that so many models keep busy, with their names."""
    for at_once in dict.fromkeys(-(-workers // fraction) for fraction in FRACTIONS):
        for kind, make in GRADIENT_CHAINS.items():
            for length, window in BURSTS:
                try:
                    scheme = make(workers, workers_at_once=at_once, length=length, window=window)
                except ArgumentError:  # too few workers for it
                    continue
                if scheme.delay < models:
                    told = kind.upper().replace("_", "-")
                    yield f"{told}, {at_once} at once, B = {length}, W = {window}", scheme


def _itself(scheme: GradientChain) -> GradientChain:
    return scheme
