"""What can go wrong, by whose fault it is.

    EchelonError
    ├── ProfileError      the profile: a file or a worker that can't be meant as written (a ValueError too)
    └── NoClosedForm      the law: an exact answer was asked of a delay that has none; sample instead

A wrong argument to a function is a plain ``ValueError`` that names the argument, its value and what is
allowed (see `echelon.checks`).
"""


class EchelonError(Exception):
    """Root of the errors that echelon raises on purpose."""


class ProfileError(EchelonError, ValueError):
    """A profile that can't be meant as written; the text names the source, the key and what is allowed."""


class NoClosedForm(EchelonError):
    """The sum of task times of this law has no closed form, so nothing exact can be said of it."""
