"""Which strategy wins on this cluster, by how much, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.advice.chains import chains
from echelon.advice.outcome import Outcome, outcome
from echelon.advice.rehearsal import Rehearsal
from echelon.advice.strategies import BASELINE, STRATEGIES
from echelon.arrays import FloatArray
from echelon.delays import Delay, per_worker, task_laws
from echelon.errors import ArgumentError
from echelon.plan import Plan
from echelon.profile import Profile

ROUNDS, FINAL_ROUNDS = 2000, 12_000
FINALISTS = 6
MATTERS = 0.01  # share of an iteration below which one strategy is as good as another


WORKS = (*STRATEGIES, "product")


@dataclass(frozen=True, slots=True)
class Advice:
    """Strategies by their expected delay, best first, and a sentence that says why."""

    work: str
    ranked: tuple[Outcome, ...]
    why: str

    @property
    def best(self) -> Outcome:
        """The strategy to take."""
        return self.ranked[0]

    @property
    def coding_pays(self) -> bool:
        """Whether a coded strategy beats all simpler ones, by a hundredth at least."""
        return self.best.strategy.family == "coded"


def advise(
    profile: Profile,
    *,
    work: str = "gradient",
    bytes_per_message: float = 0.0,
    delay_rounds: int = 3,
    laws: Delay | Sequence[Delay] | None = None,
    seed: int = 1,
) -> Advice:
    """Return what to expect of every strategy on the profile's workers, at true cost, best first.

    work: "gradient", a sum over `critical` parts, of which a coded row combines several; or "linear", a matrix in
        `critical` blocks times a vector, where coded rows cost no more than others; or "product", one after another of
        a chain of matrix products, each of which takes one worker `critical` parts' time.
    bytes_per_message: how large a result is; it takes that over the profile's bandwidth to send one.
    delay_rounds: of products: how many rounds one may take after its first.
    laws: in place of those that the profile names.

    All strategies are tried on the same draws; the better ones on more of them. Where the best is better than a simpler
    one by less than a hundredth, the simpler one is first.

    >>> from echelon.profile import Arrivals, Job, Worker
    >>> job = Job(critical=12, redundancy=1.0, iterations=5, arrivals=Arrivals.poisson(0.01))
    >>> steady = Profile(job, [Worker("a", mean=1.0, std=0.0), Worker("b", mean=2.0, std=0.0)])
    >>> advice = advise(steady)
    >>> advice.best.name, advice.coding_pays
    ('uncoded, by speed', False)
    """
    if not isinstance(profile, Profile):
        raise ArgumentError(f"profile: {type(profile).__name__} is not allowed; must be a Profile")
    checks.one_of("work", work, WORKS)
    checks.number("bytes_per_message", bytes_per_message, least=0)
    checks.whole("delay_rounds", delay_rounds, least=0, most=20)
    checks.whole("seed", seed, least=0)
    chosen = per_worker(task_laws(profile) if laws is None else laws, len(profile.workers))
    if any(np.isinf(law.std) and np.isinf(law.mean) for law in chosen):
        raise ArgumentError("laws: a worker whose tasks have no finite mean can't be advised on")
    if work == "product":
        ranked = _simplest_first(chains(profile, chosen, delay_rounds, seed))
        return Advice(work, tuple(ranked), _why(ranked))
    strategies = list(STRATEGIES[work](profile))
    plans: list[Plan] = [(strategy.lighter or strategy.plan)() for strategy in strategies]

    def tried(some: list[int], rounds: int, fresh: int) -> list[FloatArray]:
        rehearsal = Rehearsal(
            chosen, profile.speeds.link, costs=profile.costs, nbytes=bytes_per_message, rounds=rounds, seed=seed + fresh
        )
        return rehearsal.times([plans[i] for i in some])

    order = list(range(len(strategies)))
    base = next(i for i in order if strategies[i].name == BASELINE)
    times = dict(zip(order, tried(order, ROUNDS, 0), strict=True))
    order.sort(key=lambda i: float(times[i].mean()))
    finalists = [*order[:FINALISTS], *[base][: base not in order[:FINALISTS]]]
    final = dict(zip(finalists, tried(finalists, FINAL_ROUNDS, 1), strict=True))
    outcomes = [
        outcome(profile, strategies[i], final.get(i, times[i]), final[base] if i in final else times[base])
        for i in order
    ]
    ranked = _simplest_first(sorted(outcomes, key=lambda one: (one.delay, one.iteration)))
    return Advice(work, tuple(ranked), _why(ranked))


_PLAIN = ("uncoded", "pull", "copies", "coded")  # families, simplest first


def _simplest_first(ranked: list[Outcome]) -> list[Outcome]:
    """Put the simplest of those that are as good as the best at the top."""
    near = [one for one in ranked if one.iteration <= (1 + MATTERS) * ranked[0].iteration]
    best = min(near, key=lambda one: (_PLAIN.index(one.strategy.family), one.iteration))
    return [best, *(one for one in ranked if one is not best)]


def _why(ranked: list[Outcome]) -> str:
    best = ranked[0]
    coded = [one for one in ranked if one.strategy.family == "coded"]
    plain = [one for one in ranked if one.strategy.family != "coded"]
    if len(ranked) == 1:
        return "There is one worker: it does all the work, and nothing can be gained."
    text = f"'{best.name}' takes {best.iteration:.4g} s an iteration"
    if best.gain > MATTERS:
        text += f", {best.gain:.0%} less than equal shares"
    if best.strategy.family == "coded":
        other = min(plain, key=lambda one: one.iteration)
        saved = 1 - best.iteration / other.iteration
        return f"{text}; coding pays: it saves {saved:.0%} of what the best without takes ('{other.name}')."
    if coded:
        other = min(coded, key=lambda one: one.iteration)
        return f"{text}; coding does not pay here: the best code ('{other.name}') takes {other.iteration:.4g} s."
    return f"{text}."
