"""The page is one text: nothing comes from elsewhere, and what users call things stays text."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from echelon.page import one_file
from echelon.page.one_file import ASSETS, html
from tests.page import states

FOLDER = Path(one_file.__file__).parent / "assets"
HOSTILE = "</script><img src=x onerror=alert(1)>"


class Read(HTMLParser):
    """Elements with their attributes, and the texts of those that are not parsed further."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append((tag, len(self.elements) - 1))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1][1]] = self.texts.get(self.open[-1][1], "") + data

    def all(self, tag):
        return [
            (attributes, self.texts.get(i, "")) for i, (name, attributes) in enumerate(self.elements) if name == tag
        ]


def data_of(text):
    (found,) = [text for attributes, text in Read(text).all("script") if attributes.get("type") == "application/json"]
    return json.loads(found)


def test_every_script_of_the_folder_is_in_the_page_once():
    assert sorted(ASSETS) == sorted(path.name for path in FOLDER.glob("*.js"))
    text = html(None, title="a stream")
    for name in ("page.css", *ASSETS):
        assert text.count((FOLDER / name).read_text(encoding="utf-8")) == 1, name
    assert "{{" not in text.replace("`{{", "")


@pytest.mark.parametrize("data", [None, states.run(rounds=20)], ids=["live", "record"])
def test_nothing_is_asked_for_from_elsewhere(data):
    read = Read(html(data, title="a stream"))
    for tag, attributes in read.elements:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/svg+xml,")), (tag, name, value)
        assert [name for name in attributes if name.startswith("on") or name == "style"] == []
    for _, style in read.all("style"):
        assert not re.search(r"url\(|@import|@font-face", style)
    assert not {"iframe", "object", "embed", "base", "form"} & {tag for tag, _ in read.elements}


@pytest.mark.parametrize(
    ("data", "connect"), [(None, "'self'"), (states.run(rounds=2), "'none'")], ids=["live", "record"]
)
def test_the_policy_allows_this_style_and_this_script_only(data, connect):
    read = Read(html(data, title="a stream"))
    (policy,) = [said["content"] for said, _ in read.all("meta") if said.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    ((_, style),) = read.all("style")
    (script,) = [text for attributes, text in read.all("script") if "type" not in attributes]

    def hashed(text):
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    assert rules == {
        "default-src": "'none'", "style-src": hashed(style), "script-src": hashed(script), "connect-src": connect,
        "img-src": "data:", "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip


def test_scripts_use_nothing_that_turns_texts_into_markup_or_code():
    for name in ASSETS:
        text = (FOLDER / name).read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|</", text
        ), name


@pytest.mark.parametrize(
    "name", [HOSTILE, "{{data}}", "{{script}}", "<!--<script>", "a\u2028b\u2029c", "\ud800 alone", "ü ∑ 𝄞", "&lt;b&gt;"]
)
def test_any_name_is_read_back_as_it_was_and_opens_no_element(name):
    plain, data = states.run(rounds=3), states.run(rounds=3)
    data["state"]["title"] = data["state"]["names"][0] = data["rounds"][0]["name"] = name
    text = html(data, title=name)
    assert data_of(text) == data
    assert [tag for tag, _ in Read(text).elements] == [tag for tag, _ in Read(html(plain, title="x")).elements]
    ((_, title),) = Read(text).all("title")
    assert title == name.encode("utf-8", "replace").decode()
    text.encode()  # can be written


def test_a_live_page_has_no_data():
    assert data_of(html(None, title="a stream")) is None


def test_numbers_that_json_has_no_words_for_are_refused():
    with pytest.raises(ValueError, match="Out of range float values"):
        html({"state": {"clock": float("nan")}, "rounds": []}, title="a stream")


def test_a_report_of_many_rounds_and_workers_is_under_two_megabytes():
    few = len(html(states.run(workers=8, rounds=400), title="a stream").encode())
    many = len(html(states.run(workers=256, rounds=120), title="a stream").encode())
    assert len(html(None, title="a stream").encode()) < 100_000
    assert max(few, many) < 2_000_000


def test_the_same_page_is_the_same_text():
    data = states.run(rounds=5)
    assert html(data, title="a stream") == html(data, title="a stream")
