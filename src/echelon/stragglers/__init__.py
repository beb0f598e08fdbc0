"""Models of which workers may straggle when, one per file. A new model is one file and one line in `MODELS`."""

from echelon.stragglers.arbitrary import Arbitrary
from echelon.stragglers.base import Limits, StragglerModel, keeps_to
from echelon.stragglers.bursts import Bursts
from echelon.stragglers.patterns import paces, slow_rounds, waited

MODELS: dict[str, type[StragglerModel]] = {
    "arbitrary": Arbitrary,
    "bursts": Bursts,
}

__all__ = [
    "MODELS", "Arbitrary", "Bursts", "Limits", "StragglerModel", "keeps_to", "paces", "slow_rounds", "waited",
]  # fmt: skip
