"""The page as one HTML text: style, scripts and, for a report, the data are in it; nothing comes from elsewhere.

>>> text = html({"state": None, "rounds": []}, title="a </title> of mine")
>>> "<title>a &lt;/title&gt; of mine</title>" in text
True
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

# the scripts in the order in which they build on one another
ASSETS = (
    "format.js", "rounds.js", "canvas.js", "lanes.js", "lanes_told.js", "lanes_moved.js", "overview.js", "charts.js",
    "cards.js", "tables.js", "round_now.js", "what_if.js", "page.js",
)  # fmt: skip


def html(data: Mapping[str, Any] | None, *, title: str) -> str:
    """Return the page: live, to be served beside `events`, or with `data`, to be opened from a file.

    `data` holds `state` and `rounds` as the server would send them; None is the live page. Values that JSON has no
    words for (infinite ones) are refused by ValueError. Names of workers, jobs and errors may hold any text: the page
    shows it, and no more.
    """
    style, script = _asset("page.css"), _script()
    parts = {
        "title": escape(title.encode("utf-8", "replace").decode()),
        "policy": _policy(style, script, live=data is None),
        "style": style,
        "script": script,
        "data": _embedded(data),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def _policy(style: str, script: str, *, live: bool) -> str:
    """Return what the browser may load: this style, these scripts and, of a live page, what its server says."""
    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        f"connect-src {connect}; img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _embedded(data: Mapping[str, Any] | None) -> str:
    """Return data as JSON that no HTML parser takes for anything else."""
    text = json.dumps(
        data, allow_nan=False, separators=(",", ":")
    )  # all but ASCII is escaped, so are U+2028 and U+2029
    return text.replace("<", "\\u003c")


@cache
def _script() -> str:
    return "\n".join(_asset(name) for name in ASSETS)


@cache
def _asset(name: str) -> str:
    return (files("echelon.page") / "assets" / name).read_text(encoding="utf-8").replace("\r\n", "\n")
