"""Tests in a browser that markup and links in events have no effect, on the page and in exported HTML.

Each view is opened with hostile names. Nothing may run, and the policy of the page may not block what it needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from bench.browser import serve_app
from click.testing import CliRunner
from msgspec import structs
from playwright.sync_api import Browser, Page, expect
from tests.unit.pipeline.conftest import LocalRanges

from clew.cli.main import cli
from clew.cli.serving import build_read_app
from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.eventlog.segments import end_position, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.ingest import BatchIngestor
from clew.query.pages.run_page_model import RunPage

pytestmark = pytest.mark.browser

HOSTILE = '"><img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>'
LINKS = (
    "javascript:window.hacked=1",
    "data:text/html,<script>window.hacked=1</script>",
    "JaVaScRiPt:alert(1)",
    "//x.y",
)
RUN = "00000000-0000-4000-8000-000000000001"


def hostile_event() -> dict[str, Any]:
    """Return an event with markup in all names, and links that run code in all facets with addresses."""
    link = LINKS[0]
    location = {"type": "git", "url": link, "repoUrl": LINKS[1], "path": HOSTILE, "version": HOSTILE, "branch": link}
    transformations = [{"type": HOSTILE, "subtype": HOSTILE, "description": HOSTILE}]
    source = {"namespace": HOSTILE, "name": HOSTILE, "field": HOSTILE, "transformations": transformations}
    facets = {
        "schema": {"fields": [{"name": HOSTILE, "type": HOSTILE, "description": link}]},
        "dataSource": {"name": HOSTILE, "uri": LINKS[2]},
        "documentation": {"description": f"[x]({link}) {HOSTILE}", "contentType": "text/html", "url": link},
        "ownership": {"owners": [{"name": link, "type": HOSTILE}]},
        "storage": {"storageLayer": link, "fileFormat": HOSTILE},
        "symlinks": {"identifiers": [{"namespace": link, "name": HOSTILE, "type": link}]},
        "links": {str(number): text for number, text in enumerate(LINKS)},
        "columnLineage": {"fields": {HOSTILE: {"inputFields": [source]}}},
        "tags": {"tags": [{"key": link, "value": HOSTILE, "source": link}]},
    }
    io = {"namespace": HOSTILE, "name": HOSTILE, "facets": facets}
    run_facets = {
        "errorMessage": {"message": HOSTILE, "stackTrace": link},
        "externalQuery": {"externalQueryId": link, "source": link},
        "logs": {"url": link, "logUrl": LINKS[1]},
        "parent": {"run": {"runId": link}, "job": {"namespace": link, "name": HOSTILE}},
    }
    return {
        "eventTime": "2026-01-01T10:00:00Z",
        "eventType": "FAIL",
        "producer": link,
        "run": {"runId": RUN, "facets": run_facets},
        "job": {
            "namespace": HOSTILE,
            "name": HOSTILE,
            "facets": {
                "sourceCodeLocation": location,
                "documentation": {"description": link, "url": link},
                "ownership": {"owners": [{"name": link}]},
                "sql": {"query": f"select '{HOSTILE}'"},
                "sourceCode": {"language": HOSTILE, "sourceCode": HOSTILE},
            },
        },
        "inputs": [{**io, "name": link}],
        "outputs": [io],
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    home = DataDir(tmp_path_factory.mktemp("markup") / "home").create()
    Lake(home.lake).create_or_validate()
    body = json.dumps(hostile_event()).encode()
    with LogWriter(home.log) as log:
        log.append([IncomingEvent(guess_stream(body), "test", body)])
    ranges: Any = LocalRanges.from_ranges(split_ranges(home.log, 0, end_position(home.log), 1 << 30))
    with IndexWriter(home.index) as index, BatchIngestor(Lake(home.lake), index, "app") as ingestor:
        ingestor(ranges, 0)
    return home


@pytest.fixture(scope="module")
def url(home: DataDir) -> Iterator[str]:
    with serve_app(build_read_app(home)) as address:
        yield address


def check_page(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main iframe, main object, main script").count() == 0
    for link in page.locator("a[href]").all():
        href = link.get_attribute("href") or ""
        assert href.startswith(("#", "http://", "https://")), href


ENTITY = urlencode({"namespace": HOSTILE, "name": HOSTILE}, quote_via=quote)
NODE = quote("/".join(("dataset", quote(HOSTILE, safe=""), quote(HOSTILE, safe=""))), safe="")


@pytest.mark.parametrize(
    "view",
    [
        "datasets",
        f"dataset?{ENTITY}",
        "jobs",
        f"job?{ENTITY}",
        "runs",
        f"job-run/{RUN}",
        f"lineage?node={NODE}",
        "events",
    ],
)
def test_markup_on_the_page_has_no_effect(view: str, url: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{url}#/{view}")
    expect(page.locator("main")).to_contain_text("onerror=")
    check_page(page)
    for summary in page.locator("main summary").all():
        summary.click()
    check_page(page)


@pytest.mark.parametrize("export_format", ["html", "svg"])
def test_markup_in_an_export_has_no_effect(export_format: str, home: DataDir, tmp_path: Path, browser: Browser) -> None:
    path = tmp_path / f"lineage.{export_format}"
    arguments = ["export", f"run:{RUN}", "--out", str(path), "--home", str(home.root)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    page = browser.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.goto(path.as_uri())
    assert page.evaluate("window.hacked") is None
    assert page.locator("script, img, a").count() == 0
    # The style of the page is applied: its policy allows it.
    assert page.evaluate("getComputedStyle(document.querySelector('rect')).strokeWidth") in ("1.5px", "3px")
    page.close()
    assert errors == []


def test_an_exported_run_with_markup_runs_only_its_own_script(
    sample: dict[str, Any], export_page: Callable[[RunPage], str], open_page: Callable[..., Page]
) -> None:
    page_model: RunPage = sample["orders_page"]()
    header = structs.replace(page_model.header, notebook=f"{HOSTILE}.py")
    page = open_page(export_page(structs.replace(page_model, header=header)))
    check_page(page)
    policy = page.locator("meta[http-equiv]").get_attribute("content") or ""
    assert "unsafe" not in policy
    assert page.evaluate("getComputedStyle(document.querySelector('header')).position") == "sticky"
