"""Tests of the web UI's views in a real browser, with the sample data directory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, Route, expect
from tests.support.event_generator import Scenario
from tests.support.paths import ROOT

from clew.data_dir import DataDir
from clew.index.writer import IndexWriter

pytestmark = pytest.mark.browser
OpenPage = Callable[..., Page]

WAREHOUSE = "postgres://wh:5432"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"


def dataset_url(name: str, view: str = "dataset") -> str:
    return f"#/{view}?{urlencode({'namespace': WAREHOUSE, 'name': name})}"


def node_id(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{quote(namespace, safe='')}/{quote(name, safe='')}"


def lineage_url(name: str, **values: str) -> str:
    return f"#/lineage?{urlencode({'node': node_id('dataset', WAREHOUSE, name), **values})}"


def job_url(namespace: str, name: str) -> str:
    return f"#/job?{urlencode({'namespace': namespace, 'name': name})}"


def search_margin(page: Page) -> None:
    """Search for a column by keyboard and wait for the result."""
    page.keyboard.press("/")
    page.keyboard.type("margin_pct")
    expect(page.get_by_role("option", name="margin_pct finance.margin")).to_be_visible()


def test_search_leads_to_the_lineage_of_a_column(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}#/health")
    search_margin(page)
    while "finance.margin" not in (page.locator("[aria-selected=true]").text_content() or ""):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary", name="Column lineage")
    expect(panel).to_contain_text("finance.margin · margin_pct")
    expect(panel).to_contain_text("erp.allocated · cost transformation by finance.load_daily")
    expect(panel).to_contain_text("join, indirect")
    port = page.get_by_role("button", name="cost, column of erp.allocated")
    expect(port).to_have_attribute("data-highlight", "direct")
    assert page.get_by_test_id("edges").locator("g[data-kind=direct]").count() >= 3
    assert page.get_by_test_id("edges").locator("g[data-kind=indirect]").count() >= 1


def test_search_finds_text_matches(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}#/jobs")
    page.get_by_role("combobox", name="Search").fill("coalesce")
    expect(page.get_by_role("option", name="finance.load_daily")).to_contain_text("coalesce(")
    page.get_by_role("combobox", name="Search").fill("no such thing")
    expect(page.get_by_text("No results")).to_be_visible()


def test_search_is_repeated_while_its_index_is_refreshed(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}#/jobs")
    replies = iter([{"items": [], "totals": {}, "isComplete": False}] * 2)

    def answer(route: Route) -> None:
        reply = next(replies, None)
        if reply is None:
            route.continue_()
        else:
            route.fulfill(json=reply)

    page.route("**/api/v2/pages/search?*", answer)
    page.get_by_role("combobox", name="Search").fill("coalesce")
    expect(page.get_by_text("Searching…")).to_be_visible()
    expect(page.get_by_role("option", name="finance.load_daily")).to_contain_text("coalesce(")
    assert next(replies, None) is None


def test_column_lineage_through_a_notebook_shows_code(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}#/datasets")
    page.get_by_role("link", name="daily_revenue.parquet").click()
    page.get_by_role("link", name="net_revenue", exact=True).click()
    panel = page.get_by_role("complementary", name="Column lineage")
    expect(panel).to_contain_text("orders.csv · price")
    expect(panel).to_contain_text('paid["price"] * paid["qty"]')
    expect(page.get_by_role("button", name="refund, column of returns.csv")).to_have_attribute(
        "data-highlight", "direct"
    )


def test_dataset_page_shows_sources_versions_and_charts(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}{dataset_url('finance.margin')}")
    row = page.get_by_role("row", name="margin_pct numeric").first
    expect(row).to_contain_text("erp.allocated · cost")
    expect(page.get_by_role("link", name="finance.load_daily")).to_be_visible()
    expect(page.get_by_role("figure", name="rows over time").locator("circle")).to_have_count(14)
    expect(page.get_by_text("new schema")).to_have_count(1)
    facets = page.get_by_role("region", name="Facets", exact=True)
    expect(facets).to_contain_text("What is left of each day's revenue.")
    expect(facets.get_by_test_id("check-result").first).to_have_text("✓ passed")
    expect(
        facets.get_by_test_id("facet").filter(has_text="shop_freshness").get_by_test_id("json-branch").first
    ).to_contain_text("minutes: 12")
    facets.get_by_role("button", name="JSON of tags").click()
    expect(facets).to_contain_text("key: tier")
    facets.get_by_role("button", name="History of dataQualityAssertions").click()
    states = facets.get_by_role("list", name="History of dataQualityAssertions").locator("> li")
    expect(states).to_have_count(5)
    expect(states.nth(1)).to_contain_text("✗ failed")
    expect(page.get_by_role("region", name="Facets of the last writes")).to_be_visible()


@pytest.fixture
def tested_url(tmp_path: Path, serve_home: Callable[[DataDir], AbstractContextManager[str]]) -> Iterator[str]:
    """Serve a dataset with two failed tests of three, by a child run of another job."""
    scenario = Scenario(tmp_path)
    run_id = scenario.run("check", "orders", parent="nightly")
    tests = [
        {"assertion": "unique", "column": "id", "success": True},
        {"assertion": "not_null", "name": "price_is_set", "column": "price", "success": False, "actual": "37"},
        {"assertion": "row_count", "success": False},
    ]
    column = {"nullCount": 37, "sum": 80, "quantiles": {"0.5": 4}}
    scenario.events[-1]["inputs"][0]["inputFacets"] = {
        "dataQualityAssertions": {"assertions": tests},
        "dataQualityMetrics": {"rowCount": 57, "columnMetrics": {"price": column}},
    }
    scenario.index_events()
    with serve_home(DataDir(tmp_path)) as url:
        yield f"{url}#/job-run/{run_id}"


def test_failed_tests_stand_out(open_page: OpenPage, tested_url: str) -> None:
    page = open_page(tested_url)
    expect(page.get_by_test_id("tests-badge")).to_have_text("2 of 3 tests failed")
    results = page.get_by_test_id("test-results").get_by_test_id("check-result")
    expect(results).to_have_text(["✗ failed", "✗ failed", "✓ passed"])
    metrics = page.get_by_test_id("facet").filter(has_text="dataQualityMetrics")
    expect(metrics.get_by_role("row").last).to_contain_text("0.5:\u00a04")
    relations = page.get_by_text("Run of check, child of nightly")
    expect(relations).to_be_visible()
    # CSS must not add separators.
    parent = relations.get_by_role("link", name="nightly")
    assert parent.evaluate("link => getComputedStyle(link, '::before').content") == "none"
    page.get_by_test_id("test-results").get_by_role("link", name="orders").first.click()
    expect(page.get_by_role("heading", name="orders")).to_contain_text("2 of 3 tests failed")
    expect(page.get_by_test_id("test-results")).to_contain_text("price_is_set")
    expect(page.get_by_role("region", name="Facets of the last reads")).to_contain_text("dataQualityMetrics")


def test_failed_run_shows_its_error(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}#/runs")
    finished = page.get_by_role("row", name="completed")
    expect(finished).not_to_have_count(0)
    page.get_by_role("combobox", name="State").select_option("FAILED")
    # Until the response arrives, the page shows the previous list.
    expect(finished).to_have_count(0)
    page.get_by_role("link", name="bi.refresh").first.click()
    expect(page.get_by_test_id("error")).to_contain_text("relation bi.dashboard is locked")
    expect(page.get_by_test_id("error").locator("pre")).to_contain_text('File "refresh.py", line 12')


def select_runs(page: Page, first: int, second: int) -> None:
    """Select two runs of a job for comparison."""
    bars = page.get_by_role("group", name="Runs, oldest first").get_by_role("button")
    expect(bars).to_have_count(14)
    bars.nth(first).click()
    expect(page.get_by_text("Select another run to compare")).to_be_visible()
    bars.nth(second).click()
    expect(page.get_by_role("heading", name="finance.load_daily")).to_be_visible()


def test_compares_two_selected_runs(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}{job_url('airflow', 'finance.load_daily')}")
    select_runs(page, 8, 11)
    changes = page.get_by_test_id("changes")
    expect(changes.filter(has_text="1.1 k → 1.4 k rows")).to_have_count(1)
    expect(changes.filter(has_text="+ orders")).to_have_count(1)
    expect(open_page(page.url).get_by_test_id("changes").first).to_be_visible()


def test_notebook_page_shows_changes_since_the_previous_run(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(shop_url)
    page.get_by_test_id("changes-since").get_by_role("link").filter(has_text="paid: ").click()
    code = page.get_by_test_id("code-diff")
    expect(code.locator("[data-sign='-']")).to_contain_text('orders[orders["status"] == "paid"]')
    expect(code.locator("[data-sign='+']")).to_contain_text('orders[orders["price"] > 60]')


def test_timeline_shows_cells_with_memory(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}#/time")
    rows = page.get_by_role("region", name="Timeline of cells and operations").get_by_role("listitem")
    expect(rows).to_have_count(13)
    failed = rows.filter(has_text="KeyError")
    expect(failed.get_by_test_id("memory").first).to_contain_text("MB")
    failed.get_by_role("button").click()
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("line 2, in <module>")


POSITIONS = """() => Object.fromEntries([...document.querySelectorAll(".react-flow__node")].map((n) =>
    [n.dataset.id, n.style.transform]))"""


def test_expanding_the_graph_moves_no_nodes(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}{lineage_url('finance.margin')}")
    expect(page.locator(".react-flow__node")).to_have_count(20)
    before = page.evaluate(POSITIONS)
    page.get_by_role("button", name="+ 4 downstream of finance.margin").click()
    expect(page.get_by_role("status")).to_contain_text("28 nodes")
    after = page.evaluate(POSITIONS)
    assert before.items() <= after.items()
    expect(page.get_by_role("button", name="downstream of finance.margin")).to_have_count(0)
    expect(open_page(page.url).get_by_role("status")).to_contain_text("28 nodes")


def test_path_as_of_and_grouping_by_namespace(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}{lineage_url('erp.costs', depth='20')}")
    page.get_by_role("combobox", name="Find path to").select_option(label="bi.dashboard (dataset)")
    expect(page.get_by_role("status")).to_have_text(re.compile("^7 nodes"))
    page.get_by_role("button", name="Clear path").click()
    page.get_by_role("button", name="Group by namespace").click()
    expect(page.get_by_test_id("namespace-group")).to_have_count(3)
    slider = page.get_by_role("slider", name="As of")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.get_by_text("later events are excluded")).to_be_visible()
    # The START event at that time lists the input only.
    expect(page.get_by_role("status")).to_have_text(re.compile("^2 nodes"))


def test_graph_as_text(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}{lineage_url('finance.margin', column='margin_pct', text='1')}")
    graph_text = page.get_by_role("region", name="Graph as text")
    expect(graph_text).to_contain_text("← erp.allocated · cost  [transformation by finance.load_daily]")
    expect(graph_text).to_contain_text("4 more downstream")


def test_keyboard_navigation(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}#/datasets")
    page.keyboard.press("/")
    page.keyboard.type("erp.allocated")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="erp.allocated")).to_be_visible()
    page.get_by_role("link", name="Show lineage").press("Enter")
    page.get_by_role("link", name="erp.allocated").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("link", name="erp.allocate completed")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("link", name="erp.costs")).to_be_focused()
    page.get_by_role("button", name="cost, column of erp.allocated").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("button", name="cost, column of erp.costs")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("column=cost"))


def test_events_are_listed_filtered_and_shown_raw(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}#/events")
    expect(page.get_by_text(re.compile(r"^50 of \d+ events"))).to_be_visible()
    page.get_by_role("searchbox", name="Filter events").fill("bi.refresh")
    page.get_by_role("combobox", name="Type").select_option("FAIL")
    expect(page.get_by_text("all 2 events")).to_be_visible()
    page.get_by_role("list", name="Events").get_by_role("button").first.click()
    expect(page.get_by_test_id("event-body")).to_contain_text("relation bi.dashboard is locked")
    page.get_by_role("button", name="raw").click()
    expect(page.get_by_test_id("event-body").locator("pre")).to_contain_text('{"eventType": "FAIL"')
    page.get_by_role("button", name="Rejected").click()
    page.get_by_role("searchbox", name="Filter events").fill("")
    expect(page.get_by_role("list", name="Events").locator("> li")).to_have_count(2)
    expect(page.get_by_role("list", name="Events")).to_contain_text("eventTime is missing")


def test_health_page(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}#/health")
    expect(page.get_by_role("link", name="2 events rejected")).to_be_visible()
    expect(page.get_by_text("index updated")).to_be_visible()


OVERFLOW_SCRIPT = "document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"


@pytest.mark.parametrize("kind", ["long", "emoji", "right to left"])
def test_names_do_not_break_the_layout(
    open_page: OpenPage, shop_url: str, shop_names: dict[str, str], kind: str
) -> None:
    name = shop_names[kind]
    page = open_page(f"{shop_url}{dataset_url(name)}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    assert page.evaluate(OVERFLOW_SCRIPT) is False
    page.get_by_role("link", name="Show lineage").click()
    expect(page.locator(".react-flow__node")).to_have_count(3)
    assert page.evaluate(OVERFLOW_SCRIPT) is False
    page.goto(f"{shop_url}{job_url('odd', name)}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    assert page.evaluate(OVERFLOW_SCRIPT) is False


def test_3000_columns_are_truncated_and_searchable(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}{dataset_url('wide.target')}")
    expect(page.get_by_text("200 of 3000").first).to_be_visible()
    page.get_by_role("searchbox", name="Find a column").fill("column_2999")
    page.get_by_role("link", name="column_2999", exact=True).click()
    expect(page.get_by_role("button", name="column_2999, column of wide.source")).to_have_attribute(
        "data-highlight", "direct"
    )


def test_unreachable_server_shows_an_error_on_every_page(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}#/health", check_console=False)
    page.route("**/api/**", lambda route: route.abort())
    for view in ("datasets", "jobs", "events"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=view, exact=False).click()
        expect(page.get_by_role("alert")).to_contain_text("The server is not responding.")


def test_empty_index_shows_a_message(
    open_page: OpenPage, serve_home: Callable[[DataDir], AbstractContextManager[str]], tmp_path: Path
) -> None:
    data_dir = DataDir(tmp_path).create()
    with IndexWriter(data_dir.index):
        pass
    with serve_home(data_dir) as address:
        page = open_page(address, check_console=False)
        expect(page.get_by_text("No data yet.")).to_be_visible()
        page.goto(f"{address}#/jobs")
        expect(page.get_by_text("No jobs yet")).to_be_visible()


def test_first_screen_without_notebooks_is_the_search(
    open_page: OpenPage, serve_home: Callable[[DataDir], AbstractContextManager[str]], tmp_path: Path, fill_shop: Any
) -> None:
    data_dir = DataDir(tmp_path)
    fill_shop(data_dir, has_notebook=False)
    with serve_home(data_dir) as address:
        page = open_page(address, check_console=False)
        expect(page.get_by_role("combobox", name="Search everything")).to_be_visible()
        expect(page.get_by_role("heading", name="Recent runs")).to_be_visible()


def test_typed_url_redirects_to_its_page(open_page: OpenPage, shop_url: str) -> None:
    page = open_page(f"{shop_url}datasets/{quote(WAREHOUSE, safe='')}/finance.margin")
    expect(page.get_by_role("heading", level=1)).to_contain_text("finance.margin")
    page = open_page(f"{shop_url}jobs?text=finance")
    expect(page.get_by_role("searchbox", name="Filter jobs")).to_have_value("finance")


def test_unknown_page_and_unknown_name_show_an_error(open_page: OpenPage, shop_url: str) -> None:
    expect(open_page(f"{shop_url}#/nonsense").get_by_role("alert")).to_contain_text("Page not found.")
    page = open_page(f"{shop_url}{dataset_url('finance.margins')}", check_console=False)
    expect(page.get_by_role("alert")).to_contain_text("Did you mean finance.margin?")


PAGES = {
    "home": "",
    "graph of the run": "#/graph",
    "time": "#/time",
    "run as text": "#/run?text=1",
    "lineage": lineage_url("finance.margin", column="margin_pct", text="1"),
    "lineage without a node": "#/lineage",
    "dataset": dataset_url("finance.margin"),
    "datasets": "#/datasets",
    "job": job_url("airflow", "finance.load_daily"),
    "jobs": "#/jobs",
    "runs": "#/runs",
    "failed run": "#/runs?state=FAILED",
    "events": "#/events?stream=rejected",
    "health": "#/health",
}
# Views without a fixed URL: the start URL and the actions there.
INTERACTIVE_PAGES: dict[str, tuple[str, Callable[[Page], None]]] = {
    "run": ("#/runs?state=FAILED", lambda page: page.get_by_role("link", name="bi.refresh").first.click()),
    "diff": (job_url("airflow", "finance.load_daily"), lambda page: select_runs(page, 8, 11)),
    "search": ("", search_margin),
}
SERIOUS_VIOLATIONS = """async () => (await axe.run({ resultTypes: ["violations"] })).violations
    .filter((violation) => violation.impact === "serious" || violation.impact === "critical")
    .map((violation) => [violation.id, violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))])"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_serious_accessibility_violations(open_page: OpenPage, shop_url: str, scheme: str) -> None:
    page = open_page(shop_url, color_scheme=scheme)
    # Not as a script of the page: its content security policy blocks that.
    page.add_init_script(path=AXE)
    violations: dict[str, Any] = {}
    for name in (*PAGES, *INTERACTIVE_PAGES):
        url_fragment, interact = INTERACTIVE_PAGES.get(name) or (PAGES[name], None)
        page.goto(f"{shop_url}{url_fragment}")
        page.wait_for_selector("main > :not([aria-busy]) >> nth=0")
        if interact is not None:
            interact(page)
        page.wait_for_load_state("networkidle")
        if page_violations := page.evaluate(SERIOUS_VIOLATIONS):
            violations[name] = page_violations
    assert not violations, json.dumps(violations, indent=1)
