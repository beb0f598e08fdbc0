"""Exceptions of tasks on their way from a worker to the master, as bytes."""

import pytest

from echelon.cause import caught
from echelon.clusters import frames
from echelon.errors import RemoteError


class Fussy(Exception):
    """One that pickles, and can't be made again."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Exits(Exception):
    """One whose own code leaves when it is pickled."""

    def __reduce__(self):
        raise SystemExit(3)


def sent(error):
    """Return an error as the master sees it."""
    round, cause = frames.unpack_raised(frames.pack_raised(5, caught(error, at=(1, 2), parts=(7, 8))))
    assert (round, cause.slot, cause.row, cause.parts) == (5, 1, 2, (7, 8))
    return cause


def test_an_exception_arrives_as_what_it_is():
    error = OSError(28, "no space", "file")
    error.add_note("of the user")
    cause = sent(error)
    assert type(cause.error) is OSError
    assert (cause.error.errno, cause.error.filename, cause.error.__notes__) == (28, "file", ["of the user"])


def test_a_class_that_only_one_program_knows_arrives():
    class Own(ValueError):
        pass

    assert type(sent(Own("mine")).error) is Own


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Fussy("a", "b"), "Fussy: a and b"),
        (Exits("a"), "Exits: a"),
        (ValueError("x" * frames.FRAME), "ValueError: xxx"),
    ],
    ids=["can't be made", "leaves", "too large"],
)
def test_an_exception_that_cant_travel_is_told_by_name_and_text(error, said):
    cause = sent(error)
    assert isinstance(cause.error, RemoteError)
    assert said in str(cause.error)
    assert said in cause.what


def test_the_frame_of_an_exception_has_a_bounded_size():
    error = ValueError("\x00é" * 10**6)
    error.add_note("ü" * 10**6)
    frame = frames.pack_raised(1, caught(error, parts=range(10**5)))
    assert len(frame) < frames.FRAME / 2
    assert "[...]" in frames.unpack_raised(frame)[1].traceback
