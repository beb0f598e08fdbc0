"""Texts that name entries of registries: what they say, what signatures make of it, and what is refused."""

from collections.abc import Sequence

import pytest

from echelon.arrays import BoolArray
from echelon.errors import ArgumentError
from echelon.profile import Profile
from echelon.spec import Spec, shown_arguments

NAMES = ["pair", "other"]


def pair(
    workers: int,
    *,
    share: float = 0.5,
    orders: Sequence[int] | None = None,
    mask: BoolArray | None = None,
    fair: bool = False,
    address: str | None = None,
    profile: Profile | None = None,
):
    return workers, share, orders, mask, fair, address


def read(text):
    return Spec.read("scheme", text, NAMES)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("pair", {}),
        ("pair:share=1", {"share": "1"}),
        ("pair:orders=[1,2],share=.5", {"orders": "[1,2]", "share": ".5"}),
        ("pair: share = 1 , fair=true", None),
        ("pair:address=host:6379", {"address": "host:6379"}),
        ("pair:mask=[[1,0],[0,1]]", {"mask": "[[1,0],[0,1]]"}),
    ],
)
def test_a_text_is_a_name_and_arguments(text, arguments):
    if arguments is None:
        with pytest.raises(ArgumentError, match="'share = 1' is not allowed; must be KEY=VALUE"):
            read(text)
    else:
        assert read(text) == Spec("scheme", "pair", arguments)


def test_values_are_read_as_the_signature_has_them():
    spec = read("pair:share=2,orders=[2,4],mask=((1,0),(0,1)),fair=True,address=7")
    assert spec.call(pair, workers=3, other=1) == (3, 2, [2, 4], ((1, 0), (0, 1)), True, "7")
    assert read("pair:workers=5,orders=none").call(pair, workers=3) == (5, 0.5, None, None, False, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("twin", "scheme: 'twin' is not allowed; must be one of pair, other"),
        ("pair:", "scheme: '' is not allowed; must be KEY=VALUE"),
        ("pair:share", "scheme: 'share' is not allowed; must be KEY=VALUE"),
        ("pair:share=1,share=2", "scheme: share is given twice"),
        (
            "pair:shar=1",
            "scheme: 'shar' is not allowed; pair takes workers, share, orders, mask, fair, address, profile",
        ),
        ("pair:workers=2.5", "scheme: workers=2.5 is not allowed; must be a whole number"),
        ("pair:workers=true", "scheme: workers=true is not allowed; must be a whole number"),
        ("pair:workers=1,share=half", "scheme: share=half is not allowed; must be a number"),
        ("pair:workers=1,fair=yes", "scheme: fair=yes is not allowed; must be true or false"),
        ("pair:workers=1,orders=3", r"scheme: orders=3 is not allowed; must be a list such as \[1,2\], or none"),
        ("pair:workers=1,profile=x.toml", "scheme: profile is not allowed; it can't be written as a text"),
        ("pair:share=1", "scheme: pair needs workers; it takes workers, share=0.5, orders=none, mask=none, fair=false"),
    ],
)
def test_what_is_refused_says_what_is_allowed(text, said):
    with pytest.raises(ArgumentError, match=said):
        read(text).call(pair)


def test_arguments_are_shown_with_defaults_as_they_are_written():
    assert shown_arguments(pair, without=["profile", "mask"]) == (
        "workers, share=0.5, orders=none, fair=false, address=none"
    )
