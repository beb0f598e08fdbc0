"""What the documentation says of profiles is what the code reads."""

import re
from inspect import Parameter, signature

import pytest

from echelon import profile_toml
from echelon.delays import DELAYS, task_laws
from echelon.profile_toml import _JOB_KEYS, _WORKER_KEYS
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "profile.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def keys(text: str) -> set[str]:
    return {key for row in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)}


def test_every_key_is_listed_and_no_other():
    assert keys(section("`[job]`")) == set(_JOB_KEYS)
    assert keys(section("`[[worker]]`")) == set(_WORKER_KEYS)


def test_every_law_is_listed_with_its_parameters():
    text = section("Laws")
    assert keys(text) == set(DELAYS)
    for name, family in DELAYS.items():
        row = re.search(rf"^\| `{name}` \|.*$", text, re.MULTILINE).group()
        for parameter, kind in signature(family.fit).parameters.items():
            inherited = name == "fritchman" or (name == "gilbert_elliott" and parameter == "states")
            if kind.kind is Parameter.KEYWORD_ONLY and not inherited:
                assert f"`{parameter} = " in row


def test_the_pool_on_the_page_can_be_read():
    profile = profile_toml.parse(re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL).group(1))
    assert [law.mean for law in task_laws(profile)] == pytest.approx(profile.speeds.mean.tolist())
