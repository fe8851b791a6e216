"""The page in a real browser: its size, its first paint, a graph of 1,000 nodes, and panning it.

python -m bench.measure_page
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from bench.browser import browser, fill_shop, served
from bench.figures import Report
from bench.rounds import asked_for, scratch
from playwright.sync_api import Browser, Page

from clew.api.static_files import STATIC
from clew.data_dir import DataDir
from clew.events.streams import Stream, decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.lists import PageQueries as Index
from clew.index.writer import IndexWriter
from clew.query.layout import Size, compute_layered_layout
from clew.query.pages import graph
from clew.query.pages.graph import GraphNodeRef
from clew.query.pages.lists import EntityName

_ROUNDS = 5
_NODES = 1000
_CENTRE = GraphNodeRef("dataset", EntityName("wh", "table_1"))
# When what the page is about can be seen, in milliseconds since the navigation began.
_SEEN = """(selector) => new Promise((done) => {
    const look = () => document.querySelector(selector)
        ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look);
    look();
})"""
# From the moment that the graph has arrived.
_DRAWN = """() => new Promise((done) => {
    const look = () => {
        const came = performance.getEntriesByType("resource").find((one) => one.name.includes("/pages/graph"));
        const isDrawn = document.querySelector(".react-flow__node") && document.querySelector("[data-testid=edges]");
        if (came?.responseEnd && isDrawn) requestAnimationFrame(() => done(performance.now() - came.responseEnd));
        else requestAnimationFrame(look);
    };
    look();
})"""
_VIEWPORT = "document.querySelector('.react-flow__viewport').style.transform"
_WATCH = """() => {
    window.longest = 0;
    new PerformanceObserver((list) => {
        for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration);
    }).observe({ type: "longtask" });
}"""


def main() -> None:
    """Print the figures."""
    report = Report("page", asked_for(__doc__))
    report.at_most("all that is loaded, gzip", _gzipped() / 1000, 250, " KB")
    with scratch() as folder, browser() as opened:
        home = DataDir(folder / "shop")
        fill_shop(home)
        with served(home) as url:
            seen = min(_seen(opened, url) for _ in range(_ROUNDS))
        report.at_most("first meaningful paint of the home page", seen / 1000, 1.5, " s")
        large = DataDir(folder / "large").create()
        _index(large)
        report.at_most(f"{_NODES:,} nodes laid out", _laid_out(large), 50, " ms")
        with served(large) as url:
            drawn, longest = zip(*(_graph(opened, url) for _ in range(_ROUNDS)), strict=True)
            report.at_most(f"CPU of the page until {_NODES:,} nodes are drawn", _drawing_cpu(opened, url), 1, " s")
        report.say(f"{_NODES:,} nodes first drawn {min(drawn) / 1000:.2f} s after they came, by the clock")
        report.at_most("longest task while panning", min(longest), 200, " ms")


def _gzipped() -> int:
    return sum(len(gzip.compress(path.read_bytes())) for path in STATIC.rglob("*") if path.is_file())


def _seen(opened: Browser, url: str) -> float:
    page = opened.new_page()
    page.goto(url, wait_until="commit")
    seen: float = page.evaluate(_SEEN, "[aria-label=Explanation]")
    page.close()
    return seen


def _graph(opened: Browser, url: str) -> tuple[float, float]:
    page = opened.new_page(viewport={"width": 1400, "height": 900})
    page.goto(_place(url), wait_until="commit")
    drawn: float = page.evaluate(_DRAWN)
    longest = _panned(page)
    page.close()
    return drawn, longest


def _drawing_cpu(opened: Browser, url: str) -> float:
    """Seconds that the page's thread worked, from nothing: on a shared machine the clock says less."""
    page = opened.new_page(viewport={"width": 1400, "height": 900})
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(_place(url), wait_until="commit")
    page.evaluate(_DRAWN)
    metrics = tools.send("Performance.getMetrics")["metrics"]
    page.close()
    worked: float = next(one["value"] for one in metrics if one["name"] == "TaskDuration")
    return worked


def _place(url: str) -> str:
    return f"{url}#/lineage?{urlencode({'node': _CENTRE.id, 'depth': 20})}"


def _panned(page: Page) -> float:
    page.wait_for_load_state("networkidle")
    page.evaluate(_WATCH)
    before = page.evaluate(_VIEWPORT)
    page.mouse.move(400, 600)
    page.mouse.down()
    for step in range(60):
        page.mouse.move(400 + 6 * step, 600 - 4 * step)
    page.mouse.up()
    if page.evaluate(_VIEWPORT) == before:
        raise AssertionError("The graph did not move.")
    longest: float = page.evaluate("() => new Promise((done) => setTimeout(() => done(window.longest), 100))")
    return longest


def _laid_out(home: DataDir) -> float:
    """CPU of the layout alone, in milliseconds."""
    with Index(home.index) as index:
        found = graph.build_lineage_graph(index, graph.GraphRequest(_CENTRE, depth=graph.MAX_DEPTH))
    if len(found.nodes) != _NODES:
        raise AssertionError(f"The graph has {len(found.nodes)} nodes.")
    sizes = {node.id: Size(node.box.width, node.box.height) for node in found.nodes}
    links = [(link.source, link.target) for link in found.links]
    return min(_cpu(sizes, links) for _ in range(_ROUNDS))


def _cpu(sizes: dict[str, Size], links: list[tuple[str, str]]) -> float:
    began = time.process_time()
    compute_layered_layout(sizes, links, graph.SPACING)
    return 1000 * (time.process_time() - began)


def _index(home: DataDir) -> None:
    observer = ChangeExtractor()
    for seq, event in enumerate(_events()):
        observer.add(decode_event(Stream.OPENLINEAGE, json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexWriter(home.index) as sink:
        sink.apply("page/0", observer.changes())


def _events() -> Iterator[dict[str, Any]]:
    """A tree: each table is read by two jobs that write one each, with a little column lineage."""
    for number in range(2, 600):
        source, target = f"table_{number // 2}", f"table_{number}"
        field = {"namespace": "wh", "name": source, "field": "value"}
        facets = {
            "schema": {"fields": [{"name": name, "type": "int"} for name in ("id", "value", "day")]},
            "columnLineage": {"fields": {"value": {"inputFields": [field]}}},
        }
        yield {
            "eventType": "COMPLETE",
            "eventTime": "2026-01-01T00:00:00Z",
            "run": {"runId": f"00000000-0000-0000-0000-{number:012}"},
            "job": {"namespace": "jobs", "name": f"job_{number}"},
            "inputs": [{"namespace": "wh", "name": source}],
            "outputs": [{"namespace": "wh", "name": target, "facets": facets}],
            "producer": "https://example.com/bench",
            "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        }


if __name__ == "__main__":
    main()
