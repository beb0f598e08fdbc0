"""Profiles and recorded tables on disk, and files that are there whole or not at all."""

import csv
import os
import re
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOENT
from os import PathLike, strerror
from pathlib import Path
from zipfile import BadZipFile, is_zipfile

import numpy as np

from echelon import checks, profile_toml
from echelon.arrays import FloatArray
from echelon.delays import RecordedTimes
from echelon.errors import ArgumentError, ProfileError
from echelon.profile import Profile

_NAMED = 5  # keys in an error


def read_profile(path: str | PathLike[str]) -> Profile:
    """Return the profile in a TOML file; an error names the file, the key and what is allowed."""
    _checked_path(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    return profile_toml.parse(text, str(path))


def write_profile(profile: Profile, path: str | PathLike[str]) -> None:
    """Write a profile as a TOML file that `read_profile` gives back."""
    checks.instance("profile", profile, Profile)
    _checked_path(path)
    with whole(path) as beside:
        beside.write_text(profile_toml.write(profile), encoding="utf-8")


def read_times(path: str | PathLike[str], family: str | None = None) -> RecordedTimes:
    """Return the tables of rounds x workers in a file, by load; an error names the file and what is allowed.

    NPZ: one array of rounds x workers per key ``family@load``; `family` says which, if there are several.
    CSV: a line of names, then a line of seconds per round, one column per worker. A first column `load` may say at
    which load a line was recorded; lines of one load are in the order of rounds. Without it the load is 0. The first
    line must not be one of numbers: it would be a round that is lost.
    """
    _checked_path(path)
    if family is not None:
        checks.instance("family", family, str)
    try:
        if Path(path).suffix.lower() == ".npz":
            if Path(path).exists() and not is_zipfile(path):
                raise ArgumentError("not an NPZ file")
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return RecordedTimes(_of_family({key: arrays[key] for key in arrays.files}, family))
        if family is not None:
            raise ArgumentError("family: must be left out; a CSV file holds one")
        with Path(path).open(encoding="utf-8", newline="") as lines:
            return _table(list(csv.reader(lines)))
    except OSError as error:
        raise ProfileError(f"{path}: can't be read: {error.strerror or error}") from None
    except (ArgumentError, ValueError, csv.Error) as error:
        raise ProfileError(f"{path}: {error}") from None
    # zipfile's own words for a damaged head: a compression that it does not know, a file that is encrypted
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ProfileError(f"{path}: not a whole NPZ file: {error or 'it ends too early'}") from None


def write_times(times: RecordedTimes, path: str | PathLike[str], *, family: str = "recorded") -> None:
    """Write tables of rounds x workers as an NPZ or CSV file, by its suffix, that `read_times` gives back.

    family: of the keys of an NPZ file; a CSV file holds the names of the workers instead.
    """
    checks.instance("times", times, RecordedTimes)
    _checked_path(path)
    suffix = Path(path).suffix.lower()
    if suffix not in (".npz", ".csv"):
        raise ArgumentError(f"path: {path} is not allowed; must end in .npz or .csv")
    tables = list(zip(times.loads.tolist(), times.times, strict=True))
    with whole(path) as beside:
        if suffix == ".npz":
            with beside.open("wb") as packed:
                np.savez(packed, **{f"{family}@{load!r}": table for load, table in tables})
            return
        with beside.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["load", *times.names])
            for load, table in tables:
                lines.writerows([load, *row] for row in table.tolist())


def _of_family(arrays: dict[str, FloatArray], family: str | None) -> dict[float, FloatArray]:
    """Return the arrays of a family by load."""
    pairs = {key: key.rpartition("@") for key in arrays}
    families = sorted({name for name, _, _ in pairs.values() if name})
    if not families:
        said = ", ".join(sorted(arrays)[:_NAMED]) or "none"
        raise ArgumentError(f"keys: must be family@load, such as cnn@0.25; found: {checks.shown(said)}")
    if family is None and len(families) == 1:
        family = families[0]
    if family not in families:
        given = "must be given" if family is None else f"{checks.shown(family)} is not allowed"
        raise ArgumentError(f"family: {given}; must be one of {', '.join(families)} (keys family@load)")
    found: dict[float, FloatArray] = {}
    for key, (name, _, text) in pairs.items():
        if name != family:
            continue
        try:
            load = float(text)
        except ValueError:
            raise ArgumentError(f"keys: must be family@load, and the load a number; {key} is not allowed") from None
        if load in found:
            raise ArgumentError(f"keys: load {load:g} of {family} is there twice")
        if arrays[key].dtype.kind not in "fiu":
            raise ArgumentError(f"{key}: numbers of type {arrays[key].dtype} are not allowed; must be seconds")
        found[load] = arrays[key]
    return found


def _table(lines: list[list[str]]) -> RecordedTimes:
    """Return what the lines of a CSV file say."""
    if not any(lines):
        raise ArgumentError("no lines; must be one of names, and one of seconds per round")
    names, *rows = [line for line in lines if line]
    if all(map(_is_number, names)):
        raise ArgumentError("line 1: must be the names of the workers; its numbers would be a round that is lost")
    loaded = names[:1] == ["load"]
    tables: dict[float, list[list[float]]] = {}
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise ArgumentError(f"line {number}: {len(row)} values; must be {len(names)}, as in the first line")
        values = [float(value) for value in row]
        tables.setdefault(values[0] if loaded else 0.0, []).append(values[1:] if loaded else values)
    return RecordedTimes(tables, names[loaded:])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _checked_path(path: object) -> None:
    if not isinstance(path, str | PathLike):
        raise ProfileError(f"path: {checks.shown(path)} is not allowed; must be the path of a file")


def remove_parts(path: str | PathLike[str]) -> None:
    """Remove what writes of `whole` to this path left that were killed. Nobody else must be writing to it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("a.txt", ".0123456789abcdef-a.txt", ".0123456789abcdef-b.txt"):
    ...         _ = Path(folder, name).write_text("some of it")
    ...     remove_parts(f"{folder}/a.txt")
    ...     sorted(os.listdir(folder))
    ['.0123456789abcdef-b.txt', 'a.txt']
    """
    target = Path(path).resolve()
    part = re.compile(rf"\.[0-9a-f]{{16}}-{re.escape(target.name)}")
    for one in target.parent.iterdir() if target.parent.is_dir() else ():
        if part.fullmatch(one.name):
            one.unlink(missing_ok=True)


@contextmanager
def whole(path: str | PathLike[str], *, ending: str = "") -> Iterator[Path]:
    """Give a path to write to, which replaces `path` when all is written; an interrupted write leaves nothing.

    ending: what the name of the path to write to ends with, after the suffix of `path`, which may choose the format.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with whole(f"{folder}/a.txt") as beside:
    ...         _ = beside.write_text("all of it")
    ...     os.listdir(folder)
    ['a.txt']
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():  # a device, or a pipe: written to directly
        yield target
        return
    if not target.parent.is_dir():
        raise FileNotFoundError(ENOENT, strerror(ENOENT), str(path))
    # a name that nobody can guess and lay a link under
    beside = target.with_name(f".{secrets.token_hex(8)}-{target.name}{ending}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        try:
            if target.exists() and hasattr(os, "fchmod"):
                os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))  # what was private stays private
        finally:
            os.close(descriptor)
        yield beside
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
