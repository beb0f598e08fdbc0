"""The tree of errors at the top of `errors.py`, and what the error of a job carries."""

import pickle
import re

from echelon import errors
from echelon.cause import Cause, caught, failed
from echelon.errors import EchelonError, JobFailed


def test_the_tree_at_the_top_shows_every_error_below_the_one_it_is_a_kind_of():
    drawn, above = {}, {}
    for line in errors.__doc__.splitlines():
        found = re.match(r"^(\s*[│├└─ ]*)([A-Z]\w+)(\s{2,}.*)?$", line)
        if found and found[2] in vars(errors):
            depth = len(found[1])
            above = {at: name for at, name in above.items() if at < depth}
            drawn[found[2]] = above[max(above)] if above else None
            above[depth] = found[2]
    classes = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert drawn == {
        name: None if kind is EchelonError else next(base.__name__ for base in kind.__bases__)
        for name, kind in classes.items()
    }


def raised(error):
    try:
        raise error
    except type(error) as found:
        return found


def test_the_error_of_a_job_has_what_was_raised_as_its_cause_and_shows_where():
    error = failed("fit", caught(raised(KeyError("lr")), at=(0, 3), parts=(7,)), [7])
    assert str(error) == "fit: KeyError: 'lr' (on the master, row 3 of slot 0, chunk 7)"
    assert isinstance(error.__cause__, KeyError)
    assert (error.slot, error.row, error.chunks) == (0, 3, (7,))
    assert error.traceback.startswith("Traceback")
    assert error.traceback.rstrip() in error.__notes__[0]


def test_a_cause_holds_on_to_no_frames_of_what_was_raised():
    """They would keep the data of a round, and memory that its workers use again."""
    try:
        try:
            raised(KeyError("inner"))
            raise ExceptionGroup("two", [raised(ValueError("a")), raised(TypeError("b"))])
        except ExceptionGroup as group:
            raise RuntimeError("outer") from group
    except RuntimeError as error:
        cause = caught(error)
    group = cause.error.__cause__
    assert [one.__traceback__ for one in (cause.error, group, *group.exceptions)] == [None] * 4
    assert "ValueError: a" in cause.traceback


def test_the_error_of_a_job_can_be_pickled():
    error = pickle.loads(pickle.dumps(failed("fit", Cause("it failed", worker=3, place=1, slot=0, row=2), [7, 8])))
    assert isinstance(error, JobFailed)
    assert str(error) == "fit: it failed (on worker 3 at place 1, row 2 of slot 0, chunks 7, 8)"
    assert (error.worker, error.place, error.chunks) == (3, 1, (7, 8))


def test_a_long_text_and_many_chunks_are_cut():
    error = failed("fit", caught(raised(ValueError("x" * 10**6))), range(1000))
    assert len(str(error)) < 3000
    assert str(error).endswith("10, 11, ...)")
