"""What functions return in the examples of their docstrings: subjects for tests of all entries of a registry."""

import doctest
from functools import wraps


def examples_of(function):
    """Return all that a function returned in its own examples, in their order."""
    found = []

    @wraps(function)
    def noted(*arguments, **named):
        found.append(function(*arguments, **named))
        return found[-1]

    space = {**function.__globals__, function.__name__: noted}
    for example in doctest.DocTestParser().get_examples(function.__doc__ or ""):
        exec(example.source, space)
    return found
