"""Tests of the run page as one HTML file: escaping of names and code, and self-containedness."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from clew.api.static_files import escape_json, render_run_page
from clew.errors import ClewError
from clew.query.pages.run_page import build_run_page
from clew.query.pages.run_page_model import RunPage

HOSTILE_TEXTS = [
    "</script><script>alert(1)</script>",
    "<!-- <script",
    "a\u2028b\u2029c",
    "&lt;",
    '"\\',
    "🧵",
    "م",
    "x" * 400,
]


class ElementCollector(HTMLParser):
    """Parser that collects the start tags of a page and the text of its elements."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.tags: list[str] = []
        self.texts: dict[str, str] = {}
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = dict(attrs).get("id") or tag

    def handle_data(self, data: str) -> None:
        self.texts[self._inside] = self.texts.get(self._inside, "") + data


def _page_with_text(sample: dict[str, Any], text: str) -> RunPage:
    run = sample["orders_run"]()
    cells = tuple(structs.replace(cell, source=text, name=text) for cell in run.cells)
    return build_run_page(structs.replace(run, notebook=text, cells=cells))


@pytest.mark.usefixtures("web_build")
@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_escapes_hostile_names(sample: dict[str, Any], text: str) -> None:
    page = _page_with_text(sample, text)
    parser = ElementCollector()
    parser.feed(render_run_page(page))
    assert parser.tags == [
        "html",
        "head",
        "meta",
        "meta",
        "meta",
        "meta",
        "title",
        "style",
        "body",
        "div",
        "script",
        "script",
    ]
    assert msgspec.json.decode(parser.texts["clew-data"], type=RunPage) == page


@pytest.mark.usefixtures("web_build")
def test_the_file_is_self_contained(sample: dict[str, Any]) -> None:
    html = render_run_page(sample["orders_page"]())
    assert 'document.title = "<\\/script><\\!--";' in html
    assert "body { color: red }" in html
    assert not any(word in html for word in ("http://", "https://", 'src="', "<link"))


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_escaped_json_decodes_to_the_same_value(text: str) -> None:
    json = escape_json(msgspec.json.encode(text).decode())
    assert msgspec.json.decode(json) == text
    assert not set("<>&\u2028\u2029") & set(json)


@pytest.mark.parametrize("missing", ["index.html", "assets/index-1a.js", "assets/style-2b.css"])
def test_a_missing_web_build_is_an_error_with_a_hint(web_build: Path, sample: dict[str, Any], missing: str) -> None:
    (web_build / missing).unlink()
    with pytest.raises(ClewError, match=missing) as error:
        render_run_page(sample["orders_page"]())
    assert "make web" in str(error.value)


@pytest.mark.usefixtures("web_build")
def test_the_policy_allows_only_the_script_of_the_page(sample: dict[str, Any]) -> None:
    html = render_run_page(build_run_page(sample["orders_run"]()))
    policy = html.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    script = html.partition('<script type="module">')[2].partition("</script>")[0]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
