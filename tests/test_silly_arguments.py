"""Arguments that can't be meant are refused at the door: one line that names them, never an error from inside."""

import numpy as np
import pytest

from echelon.errors import EchelonError
from tests.silly import SILLY, calls

FEW = ("text", "nan", "object", "[]")  # where a call takes long, and much is allowed


def said(function, arguments):
    """Return what is wrong with the answer to a call; nothing where it is right, or an error at the door."""
    try:
        function(**arguments)
    except EchelonError as error:
        text = str(error)
        return text if len(text.splitlines()) != 1 or len(text) > 600 else ""
    except Exception as error:
        return f"a raw {error!r}"
    return ""


@pytest.mark.filterwarnings("ignore")
def test_silly_arguments_are_refused_in_one_line_or_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some are taken for names of files
    wrong, tried = [], 0
    for name, (function, valid) in calls().items():
        function(**valid)
        for argument in valid:
            for value in FEW if name == "advise" else SILLY:
                if argument == "progress" and value == "type":
                    continue  # it can be called: what it raises is its own
                tried += 1
                found = said(function, {**valid, argument: SILLY[value]()})
                wrong += [f"{name}({argument}={value}): {found}"] if found else []
    assert not wrong, "\n".join(wrong)
    assert tried > 8000


def test_what_is_refused_is_named_with_its_value():
    function, valid = calls()["simulate_jobs"]
    with pytest.raises(EchelonError, match=r"^plan: array\(\[nan\]\) is not allowed; must be a Plan$"):
        function(**{**valid, "plan": np.array([np.nan])})
