"""Profiles on disk."""

from os import PathLike
from pathlib import Path

from echelon import profile_toml
from echelon.errors import ProfileError
from echelon.profile import Profile


def read_profile(path: str | PathLike[str]) -> Profile:
    """Return the profile in a TOML file; an error names the file, the key and what is allowed."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    return profile_toml.parse(text, str(path))


def write_profile(profile: Profile, path: str | PathLike[str]) -> None:
    """Write a profile as a TOML file that `read_profile` gives back."""
    Path(path).write_text(profile_toml.write(profile), encoding="utf-8")
