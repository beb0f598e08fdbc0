"""Profiles on disk, and files that are there whole or not at all."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOENT
from os import PathLike, strerror
from pathlib import Path

from echelon import checks, profile_toml
from echelon.errors import ProfileError
from echelon.profile import Profile


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


def _checked_path(path: object) -> None:
    if not isinstance(path, str | PathLike):
        raise ProfileError(f"path: {checks.shown(path)} is not allowed; must be the path of a file")


@contextmanager
def whole(path: str | PathLike[str]) -> Iterator[Path]:
    """Give a path to write to, which replaces `path` when all is written; an interrupted write leaves nothing.

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
    # with its suffix, which may choose the format; a name that nobody can guess and lay a link under
    beside = target.with_name(f".{secrets.token_hex(8)}-{target.name}")
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
