"""The one place where a seed becomes a generator: below, generators are arguments."""

from numpy.random import SFC64, Generator, SeedSequence

from echelon import checks


def generators(seed: int) -> tuple[Generator, Generator]:
    """Return independent generators for arrivals and for services, so that another split keeps the arrivals."""
    children = SeedSequence(checks.whole("seed", seed, least=0)).spawn(2)
    return Generator(SFC64(children[0])), Generator(SFC64(children[1]))


def place_generator(seed: int, place: int) -> Generator:
    """Return the generator of one worker's place, independent of all others and of `generators`."""
    sequence = SeedSequence([checks.whole("seed", seed, least=0), checks.whole("place", place, least=0)])
    return Generator(SFC64(sequence))


def round_generator(seed: int, round: int, place: int) -> Generator:
    """Return the generator of one place in one round, independent of all others and of those above."""
    key = checks.whole("round", round, least=0), checks.whole("place", place, least=0)
    return Generator(SFC64(SeedSequence(checks.whole("seed", seed, least=0), spawn_key=key)))
