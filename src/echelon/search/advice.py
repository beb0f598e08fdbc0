"""Which strategy wins on this cluster, by how much, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.can import PLAIN
from echelon.delays import Delay, per_worker, task_laws
from echelon.endings import WAITING
from echelon.errors import ArgumentError
from echelon.html import table
from echelon.job_delay import Moments, by_formula, job_delay, needs_streams
from echelon.profile import Profile
from echelon.reprs import short_repr
from echelon.search.chain_advice import chains
from echelon.search.halving import Stage, halve
from echelon.search.handling import Sizes, handling
from echelon.search.outcome import Outcome, sampled
from echelon.search.overlapping import MATTERS, overlapping
from echelon.search.rehearsal import Rehearsal
from echelon.search.strategies import BASELINE, STRATEGIES
from echelon.search.strategy import Strategy
from echelon.search.turns import turns
from echelon.simulation.rounds import can
from echelon.theory import exact, exact_law

STAGES = (Stage(rounds=400, go_on=14), Stage(rounds=2000, go_on=6), Stage(rounds=12_000))
STREAMED = 2  # of which streams are simulated, where rounds have memory
FEW = 3  # of strategies that differ little among themselves, this many are compared with the others
COORDINATES = 1000  # of a gradient of unknown size

WORKS = (*STRATEGIES, "product")


@dataclass(frozen=True, slots=True)
class Advice:
    """Strategies by their expected delay, best first, and a sentence that says why.

    refused: strategies that could not be tried under these costs, and why; they run in virtual time.
    """

    work: str
    ranked: tuple[Outcome, ...]
    why: str
    refused: tuple[tuple[str, str], ...] = ()

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        rows = [
            [one.name, one.iteration, one.error, f"{one.gain:.1%}", one.delay, one.method, one.delay_method]
            for one in self.ranked
        ]
        names = ["strategy", "iteration (s)", "± (s)", "saved", "delay (s)", "iteration is", "delay is"]
        return table(self.why, names, rows)

    @property
    def best(self) -> Outcome:
        """The strategy to take."""
        return self.ranked[0]

    def best_for(self, job: str) -> Outcome:
        """Return the first that a kind of job can run, such as "SumJob": only a `BlockJob` runs block coordinates."""
        return next(one for one in self.ranked if one.strategy.job in (None, job))

    @property
    def coding_pays(self) -> bool:
        """Whether a coded strategy beats all simpler ones, by a hundredth at least."""
        return self.best.strategy.family == "coded"


def advise(
    profile: Profile,
    *,
    work: str = "gradient",
    bytes_per_message: float = 0.0,
    bytes_of_state: float = 0.0,
    bytes_per_part: float = 0.0,
    delay_rounds: int = 3,
    waiting: str = "due",
    models: int = 1,
    laws: Delay | Sequence[Delay] | None = None,
    seed: int = 1,
) -> Advice:
    """Return what to expect of every strategy on the profile's workers, at true cost, best first.

    work: "gradient", a sum over `critical` parts, of which a coded row combines several; or "linear", a matrix in
        `critical` blocks times a vector, where coded rows cost no more than others; or "product", one after another of
        a chain of matrix products, each of which takes one worker `critical` parts' time.
    bytes_per_message: how large a result is (of products: a whole one, of which messages are blocks). It takes that
        over the profile's bandwidth to send one, times its `combining` to add one to another: a worker does so for each
        part that a row combines, the master for each message that it decodes from. Where the profile has a `port`,
        messages wait for one another there; where its `plane` is "responders", those of a gradient from 256 kB on stay
        with their workers and are added up there (`echelon.ports`).
    bytes_of_state: what every worker is sent at the beginning of a round, over the bandwidth, and through the port.
    bytes_per_part: how large the data of a part is. From it follows how long it takes until the data is in place, a
        figure of its own (`Outcome.loading`): it is paid once. Products have none: their data comes with each.
    delay_rounds: of products: how many rounds one may take after its first.
    waiting: of products: when rounds end, a name of `endings.WAITING`: with the product that is due, or with the
        fastest worker, which is the paper's rule and was never quicker.
    models: of gradients: how many are trained in turn. From two on, chains of gradients (`schemes.GRADIENT_CHAINS`) are
        tried, too, which only a `TurnJob` runs: an iteration is then one of any model.
    laws: in place of those that the profile names.

    All strategies are tried on the same draws, the better ones and the best of every family on more of them
    (`echelon.search.halving`); those of the last stage that have an exact law are predicted by it. Where the best is
    better than a simpler one by less than a hundredth, the simpler one is first. Where jobs wait and workers would be
    idle, strategies are also tried with jobs that overlap.

    >>> from echelon.profile import Arrivals, Workload, Worker
    >>> job = Workload(critical=12, redundancy=1.0, iterations=5, arrivals=Arrivals.poisson(0.01))
    >>> steady = Profile(job, [Worker("a", mean=1.0, std=0.0), Worker("b", mean=2.0, std=0.0)])
    >>> advice = advise(steady)
    >>> advice.best.name, advice.coding_pays
    ('uncoded, by speed', False)
    """
    if not isinstance(profile, Profile):
        raise ArgumentError(f"profile: {type(profile).__name__} is not allowed; must be a Profile")
    checks.one_of("work", work, WORKS)
    sizes = Sizes(
        message=checks.number("bytes_per_message", bytes_per_message, least=0),
        state=checks.number("bytes_of_state", bytes_of_state, least=0),
        part=checks.number("bytes_per_part", bytes_per_part, least=0),
    )
    checks.whole("delay_rounds", delay_rounds, least=0, most=20)
    checks.one_of("waiting", waiting, WAITING)
    if checks.whole("models", models, least=1) > 1 and work != "gradient":
        raise ArgumentError(f"models: {models} is not allowed for {work}; must be 1")
    checks.whole("seed", seed, least=0)
    chosen = per_worker(task_laws(profile) if laws is None else laws, len(profile.workers))
    if any(np.isinf(law.std) and np.isinf(law.mean) for law in chosen):
        raise ArgumentError("laws: a worker whose tasks have no finite mean can't be advised on")
    refused: tuple[tuple[str, str], ...] = ()
    if work == "product":
        outcomes = chains(profile, chosen, sizes, delay_rounds, waiting, seed)
        best = _simplest([(one.strategy, one.iteration, i) for i, one in enumerate(outcomes)])
        ranked = [outcomes.pop(best), *outcomes]
    else:
        ranked, refused = _ranked(profile, work, sizes, chosen, seed)
        others = overlapping(profile, chosen, ranked, seed)
        if models > 1:
            base = next(one for one in ranked if one.name == BASELINE).iteration
            turned, not_tried = turns(profile, chosen, sizes, models, base, seed)
            others, refused = [*others, *turned], (*refused, *not_tried)
        ranked = _merged(ranked, others)
    return Advice(work, tuple(ranked), _why(ranked), refused)


def _ranked(
    profile: Profile, work: str, sizes: Sizes, laws: Sequence[Delay], seed: int
) -> tuple[list[Outcome], tuple[tuple[str, str], ...]]:
    """Return all strategies, best first, and those that can't be tried; hopeless ones are left behind early."""
    coordinates = round(sizes.message / 8) or COORDINATES
    known = list(STRATEGIES[work](profile, laws, coordinates))
    every = [handling(strategy, profile.workload.critical) for strategy in known]
    rehearsed = [one.rehearsed(profile.costs, sizes, added=work == "gradient") for one in every]
    answers = [can(one.plan, laws, one.rules) for one in rehearsed]
    refused = tuple((one.name, answer.why_not) for one, answer in zip(known, answers, strict=True) if not answer)
    strategies, handled, tried = (
        list(compress(known, answers)), list(compress(every, answers)), list(compress(rehearsed, answers)),
    )  # fmt: skip
    base = next(i for i, strategy in enumerate(strategies) if strategy.name == BASELINE)
    latest: list[FloatArray] = []  # of the baseline, on the draws of the last stage

    def score(some: Sequence[int], stage: Stage, seed: int) -> list[tuple[FloatArray, FloatArray]]:
        """Return the times of rounds, and those of the baseline on the same draws."""
        rehearsal = Rehearsal(laws, profile.speeds.link, rounds=stage.rounds, seed=seed)
        *times, plain = rehearsal.times([tried[i] for i in (*some, base)])
        latest[:] = [plain]
        return [(seen, plain) for seen in times]

    def kind(i: int) -> tuple[str, str | None, str | None]:
        """Designs in chunks, and what only some jobs can run, are families of their own."""
        return strategies[i].family, strategies[i].best_of, strategies[i].job

    halved = halve(
        range(len(strategies)),
        STAGES,
        score,
        lambda _, seen: (float(seen[0].mean()),),
        seed=seed,
        kind=kind,
        crowd=lambda i: strategies[i].best_of,
        few=FEW,
    )
    going = [i for i, _ in halved.finalists]
    finalists = {*going, base}
    found = {**halved.latest, base: (latest[0], latest[0])}
    times = {i: seen for i, (seen, _) in found.items()}
    against = {i: plain for i, (_, plain) in found.items()}
    moments = {i: sampled(seen) for i, seen in times.items()}
    gains = {i: 1 - moments[i].mean / float(against[i].mean()) for i in times}
    for i in finalists:
        if not tried[i].beside and tried[i].rules == PLAIN and exact.can(tried[i].plan, laws):
            law = exact_law(tried[i].plan, laws, profile.speeds.link)
            moments[i] = Moments.of_law(law, tried[i].more)
    if moments[base].method == "exact":
        gains |= {i: 1 - of.mean / moments[base].mean for i, of in moments.items() if of.method == "exact"}
    best = _simplest([(strategies[i], moments[i].mean, i) for i in going])
    delays = {i: by_formula(profile, of) for i, of in moments.items()}
    # where no formula knows the delay, those that it takes for the best are simulated: that takes its time
    nearest = sorted(finalists, key=lambda i: (delays[i].mean, moments[i].mean))[:STREAMED]
    samplers = {i: tried[i].sampler(laws, profile.speeds.link) for i in {best, *nearest}}
    if guess := any(needs_streams(profile, sampler) for sampler in samplers.values()):
        delays = {i: replace(found, method="approximate") for i, found in delays.items()}
    delays |= {i: job_delay(profile, moments[i], sampler, seed) for i, sampler in samplers.items()}
    outcomes = {
        i: Outcome(
            strategy=strategies[i],
            iteration=of.mean,
            error=of.error,
            delay=delays[i].mean,
            gain=gains[i],
            loading=handled[i].loading(profile.costs, sizes),
            method=of.method,
            delay_method=delays[i].method,
            plane="master" if tried[i].adding is None else "responders",
        )
        for i, of in moments.items()
    }
    # beside simulated streams, what the formula says of the others is a guess: they come after
    order = sorted(outcomes, key=lambda i: (guess and i not in samplers, outcomes[i].delay, outcomes[i].iteration))
    return [outcomes[best], *(outcomes[i] for i in order if i != best)], refused


_PLAIN = ("uncoded", "pull", "copies", "coded")  # families, simplest first


def _simplest(finalists: Sequence[tuple[Strategy, float, int]]) -> int:
    """Return which is the simplest of those that are as good as the best, by the means of their iterations."""
    least = min(mean for _, mean, _ in finalists)
    near = [one for one in finalists if one[1] <= (1 + MATTERS) * least]
    return min(near, key=lambda one: (_PLAIN.index(one[0].family), one[1]))[2]


def _merged(ranked: list[Outcome], more: list[Outcome]) -> list[Outcome]:
    """Put strategies whose jobs overlap, and chains, among the others; the best stays first unless one is better."""
    best, *rest = ranked
    first = min([best, *more], key=lambda one: one.delay)
    if first.delay > (1 - MATTERS) * best.delay:
        first = best
    # of those as good as one another the best was chosen for being simple
    others = sorted(
        [*more, *rest, best], key=lambda one: (one.delay * (1 - MATTERS if one is best else 1), one.iteration)
    )  # fmt: skip
    return [first, *(one for one in others if one is not first)]


def _why(ranked: list[Outcome]) -> str:
    best, text = ranked[0], _why_alone(ranked)
    if not best.strategy.overlap:
        return text
    alone = next(one for one in ranked if one.strategy.plan is best.strategy.plan and not one.strategy.overlap)
    return (
        f"{text} Workers that would be idle begin the next job, if one waits: that lowers the mean delay from "
        f"{alone.delay:.4g} to {best.delay:.4g} s."
    )


def _why_alone(ranked: list[Outcome]) -> str:
    best = ranked[0]
    coded = [one for one in ranked if one.strategy.family == "coded" and not one.strategy.overlap]
    plain = [one for one in ranked if one.strategy.family != "coded" and not one.strategy.overlap]
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
