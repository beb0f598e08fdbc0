"""A training in a file: weights, optimiser, place in the data, and what it found; whole or not there at all."""

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from echelon.errors import ArgumentError
from echelon.files import remove_parts, whole
from echelon.torch.trained import Trained, Validated

_FORMAT = 1
_INSTEAD = "name another file, or remove it"


class Checkpoint:
    """The file of a training. kept: what has a `state_dict`, by name. every: steps from one writing to the next."""

    def __init__(self, path: str | PathLike[str], kept: Mapping[str, Any], every: int) -> None:
        if not isinstance(path, str | PathLike):
            raise ArgumentError(f"checkpoint: {path!r} is not allowed; must be the path of a file")
        self._path, self._kept, self._every = Path(path), kept, every
        if not self._path.parent.is_dir():
            raise ArgumentError(f"checkpoint: {self._path} is not allowed; there is no folder {self._path.parent}")

    def resume(self) -> Trained:
        """Take over what the file says, if it is there; return what the training found until then.

        Parts of files that a killed program was writing are removed.
        """
        remove_parts(self._path)
        if not self._path.exists():
            return Trained()
        try:
            held = torch.load(self._path, map_location="cpu", weights_only=True)
        except Exception as error:  # a file that is cut off, or no such file, can fail in any way
            why = (str(error) or type(error).__name__).splitlines()[0]
            raise ArgumentError(f"checkpoint: {self._path} can't be read ({why}); {_INSTEAD}") from error
        if not isinstance(held, dict) or held.get("format") != _FORMAT or held["states"].keys() != self._kept.keys():
            raise ArgumentError(f"checkpoint: {self._path} is not of such a training; {_INSTEAD}")
        for name, one in self._kept.items():
            try:
                one.load_state_dict(held["states"][name])
            except (RuntimeError, ValueError, KeyError, TypeError) as error:
                raise ArgumentError(f"checkpoint: {self._path} is of another training: {name}: {error}") from error
        validated = [Validated(*one) for one in held["validated"]]
        return Trained(held["losses"].tolist(), validated, held["ended"], held["best"])

    def may_write(self, found: Trained) -> None:
        """Write the file if its turn has come."""
        if len(found.losses) % self._every == 0:
            self.write(found)

    def write(self, found: Trained) -> None:
        """Write the file; what was there before is replaced when all is on the disk."""
        held = {
            "format": _FORMAT, "states": {name: one.state_dict() for name, one in self._kept.items()},
            "losses": torch.tensor(found.losses, dtype=torch.float64), "validated": list(map(tuple, found.validated)),
            "ended": found.ended, "best": found.best,
        }  # fmt: skip
        with whole(self._path) as beside, beside.open("wb") as file:
            torch.save(held, file)
            file.flush()
            os.fsync(file.fileno())
