"""A person's paths through the whole page, over one home with a little of everything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, expect
from tests.support.paths import ROOT

from clew.data_dir import DataDir
from clew.index.writer import IndexWriter

pytestmark = pytest.mark.browser
Open = Callable[..., Page]

WAREHOUSE = "postgres://wh:5432"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"


def dataset(name: str, view: str = "dataset") -> str:
    return f"#/{view}?{urlencode({'namespace': WAREHOUSE, 'name': name})}"


def node(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{quote(namespace, safe='')}/{quote(name, safe='')}"


def lineage(name: str, **values: str) -> str:
    return f"#/lineage?{urlencode({'node': node('dataset', WAREHOUSE, name), **values})}"


def job(namespace: str, name: str) -> str:
    return f"#/job?{urlencode({'namespace': namespace, 'name': name})}"


def search_margin(page: Page) -> None:
    """Look for a column by keyboard, until it is found."""
    page.keyboard.press("/")
    page.keyboard.type("margin_pct")
    expect(page.get_by_role("option", name="margin_pct finance.margin")).to_be_visible()


def test_a_column_is_searched_from_anywhere_and_leads_to_its_path(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}#/health")
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


def test_what_has_the_text_only_inside_is_found_too(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}#/jobs")
    page.get_by_role("combobox", name="Search").fill("coalesce")
    expect(page.get_by_role("option", name="finance.load_daily")).to_contain_text("coalesce(")
    page.get_by_role("combobox", name="Search").fill("no such thing")
    expect(page.get_by_text("No results")).to_be_visible()


def test_a_column_of_the_demo_is_followed_through_the_notebook_to_its_code(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}#/datasets")
    page.get_by_role("link", name="daily_revenue.parquet").click()
    page.get_by_role("link", name="net_revenue", exact=True).click()
    panel = page.get_by_role("complementary", name="Column lineage")
    expect(panel).to_contain_text("orders.csv · price")
    expect(panel).to_contain_text('paid["price"] * paid["qty"]')
    expect(page.get_by_role("button", name="refund, column of returns.csv")).to_have_attribute(
        "data-highlight", "direct"
    )


def test_the_page_of_a_dataset_shows_origins_versions_and_figures(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}{dataset('finance.margin')}")
    row = page.get_by_role("row", name="margin_pct numeric").first
    expect(row).to_contain_text("erp.allocated · cost")
    expect(page.get_by_role("link", name="finance.load_daily")).to_be_visible()
    expect(page.get_by_role("figure", name="rows over time").locator("circle")).to_have_count(14)
    expect(page.get_by_text("new schema")).to_have_count(1)
    facets = page.get_by_role("region", name="Facets")
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


def test_a_failing_run_shows_its_error(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}#/runs")
    finished = page.get_by_role("row", name="completed")
    expect(finished).not_to_have_count(0)
    page.get_by_role("combobox", name="State").select_option("FAILED")
    # Until the answer is there, the page shows what it has shown.
    expect(finished).to_have_count(0)
    page.get_by_role("link", name="bi.refresh").first.click()
    expect(page.get_by_test_id("error")).to_contain_text("relation bi.dashboard is locked")
    expect(page.get_by_test_id("error").locator("pre")).to_contain_text('File "refresh.py", line 12')


def compare(page: Page, one: int, other: int) -> None:
    """Choose two of the runs of a job."""
    bars = page.get_by_role("group", name="Runs, oldest first").get_by_role("button")
    expect(bars).to_have_count(14)
    bars.nth(one).click()
    expect(page.get_by_text("Select another run to compare")).to_be_visible()
    bars.nth(other).click()
    expect(page.get_by_role("heading", name="finance.load_daily")).to_be_visible()


def test_two_runs_that_are_chosen_are_compared(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}{job('airflow', 'finance.load_daily')}")
    compare(page, 8, 11)
    changes = page.get_by_test_id("changes")
    expect(changes.filter(has_text="1.1 k → 1.4 k rows")).to_have_count(1)
    expect(changes.filter(has_text="+ orders")).to_have_count(1)
    expect(open_page(page.url).get_by_test_id("changes").first).to_be_visible()


def test_a_notebook_says_what_changed_since_the_run_before(open_page: Open, shop: str) -> None:
    page = open_page(shop)
    page.get_by_test_id("changes-since").get_by_role("link").filter(has_text="paid: ").click()
    code = page.get_by_test_id("code-diff")
    expect(code.locator("[data-sign='-']")).to_contain_text('orders[orders["status"] == "paid"]')
    expect(code.locator("[data-sign='+']")).to_contain_text('orders[orders["price"] > 60]')


def test_cells_and_operations_stand_on_a_time_bar_with_memory(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}#/time")
    rows = page.get_by_role("region", name="Timeline of cells and operations").get_by_role("listitem")
    expect(rows).to_have_count(13)
    failed = rows.filter(has_text="KeyError")
    expect(failed.get_by_test_id("memory").first).to_contain_text("MB")
    failed.get_by_role("button").click()
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("line 2, in <module>")


POSITIONS = """() => Object.fromEntries([...document.querySelectorAll(".react-flow__node")].map((n) =>
    [n.dataset.id, n.style.transform]))"""


def test_a_chip_opens_in_place_and_moves_nothing(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}{lineage('finance.margin')}")
    expect(page.locator(".react-flow__node")).to_have_count(20)
    before = page.evaluate(POSITIONS)
    page.get_by_role("button", name="+ 4 downstream of finance.margin").click()
    expect(page.get_by_role("status")).to_contain_text("28 nodes")
    after = page.evaluate(POSITIONS)
    assert before.items() <= after.items()
    expect(page.get_by_role("button", name="downstream of finance.margin")).to_have_count(0)
    expect(open_page(page.url).get_by_role("status")).to_contain_text("28 nodes")


def test_the_path_between_two_the_time_and_the_namespaces(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}{lineage('erp.costs', depth='20')}")
    page.get_by_role("combobox", name="Find path to").select_option(label="bi.dashboard (dataset)")
    expect(page.get_by_role("status")).to_have_text(re.compile("^7 nodes"))
    page.get_by_role("button", name="Clear path").click()
    page.get_by_role("button", name="Group by namespace").click()
    expect(page.get_by_test_id("namespace-group")).to_have_count(3)
    slider = page.get_by_role("slider", name="As of")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.get_by_text("later events are excluded")).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("3 nodes")


def test_the_graph_as_text_says_the_same(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}{lineage('finance.margin', column='margin_pct', text='1')}")
    twin = page.get_by_role("region", name="Graph as text")
    expect(twin).to_contain_text("← erp.allocated · cost  [transformation by finance.load_daily]")
    expect(twin).to_contain_text("4 more downstream")


def test_the_keyboard_is_enough(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}#/datasets")
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


def test_events_are_listed_filtered_and_shown_as_they_came(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}#/events")
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


def test_health_says_how_far_it_is_and_what_was_rejected(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}#/health")
    expect(page.get_by_role("link", name="2 events rejected")).to_be_visible()
    expect(page.get_by_text("index updated")).to_be_visible()


WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"


@pytest.mark.parametrize("kind", ["long", "emoji", "right to left"])
def test_no_name_breaks_a_page(open_page: Open, shop: str, shop_names: dict[str, str], kind: str) -> None:
    name = shop_names[kind]
    page = open_page(f"{shop}{dataset(name)}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    assert page.evaluate(WIDE) is False
    page.get_by_role("link", name="Show lineage").click()
    expect(page.locator(".react-flow__node")).to_have_count(3)
    assert page.evaluate(WIDE) is False
    page.goto(f"{shop}{job('odd', name)}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    assert page.evaluate(WIDE) is False


def test_three_thousand_columns_stay_a_page(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}{dataset('wide.target')}")
    expect(page.get_by_text("200 of 3000").first).to_be_visible()
    page.get_by_role("searchbox", name="Find a column").fill("column_2999")
    page.get_by_role("link", name="column_2999", exact=True).click()
    expect(page.get_by_role("button", name="column_2999, column of wide.source")).to_have_attribute(
        "data-highlight", "direct"
    )


def test_a_server_that_is_gone_is_said_on_every_page(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}#/health", is_whole=False)
    page.route("**/api/**", lambda route: route.abort())
    for view in ("datasets", "jobs", "events"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=view, exact=False).click()
        expect(page.get_by_role("alert")).to_contain_text("The server is not responding.")


def test_an_empty_index_says_what_to_do(
    open_page: Open, serving_home: Callable[[DataDir], AbstractContextManager[str]], tmp_path: Path
) -> None:
    home = DataDir(tmp_path).create()
    with IndexWriter(home.index):
        pass
    with serving_home(home) as address:
        page = open_page(address, is_whole=False)
        expect(page.get_by_text("No data yet.")).to_be_visible()
        page.goto(f"{address}#/jobs")
        expect(page.get_by_text("No jobs yet")).to_be_visible()


def test_without_a_notebook_the_first_screen_is_the_search(
    open_page: Open, serving_home: Callable[[DataDir], AbstractContextManager[str]], tmp_path: Path, fill_shop: Any
) -> None:
    home = DataDir(tmp_path)
    fill_shop(home, has_notebook=False)
    with serving_home(home) as address:
        page = open_page(address, is_whole=False)
        expect(page.get_by_role("combobox", name="Search everything")).to_be_visible()
        expect(page.get_by_role("heading", name="Recent runs")).to_be_visible()


def test_a_url_typed_by_hand_leads_to_its_page(open_page: Open, shop: str) -> None:
    page = open_page(f"{shop}datasets/{quote(WAREHOUSE, safe='')}/finance.margin")
    expect(page.get_by_role("heading", level=1)).to_contain_text("finance.margin")
    page = open_page(f"{shop}jobs?text=finance")
    expect(page.get_by_role("searchbox", name="Filter jobs")).to_have_value("finance")


def test_an_unknown_page_and_an_unknown_name_are_said(open_page: Open, shop: str) -> None:
    expect(open_page(f"{shop}#/nonsense").get_by_role("alert")).to_contain_text("Page not found.")
    page = open_page(f"{shop}{dataset('finance.margins')}", is_whole=False)
    expect(page.get_by_role("alert")).to_contain_text("Did you mean finance.margin?")


PAGES = {
    "home": "",
    "graph of the run": "#/graph",
    "time": "#/time",
    "run as text": "#/run?text=1",
    "lineage": lineage("finance.margin", column="margin_pct", text="1"),
    "lineage, nothing chosen": "#/lineage",
    "dataset": dataset("finance.margin"),
    "datasets": "#/datasets",
    "job": job("airflow", "finance.load_daily"),
    "jobs": "#/jobs",
    "runs": "#/runs",
    "failed run": "#/runs?state=FAILED",
    "events": "#/events?stream=rejected",
    "health": "#/health",
}
# What has no fixed address: where to begin, and what to do there.
WAYS: dict[str, tuple[str, Callable[[Page], None]]] = {
    "run": ("#/runs?state=FAILED", lambda page: page.get_by_role("link", name="bi.refresh").first.click()),
    "difference": (job("airflow", "finance.load_daily"), lambda page: compare(page, 8, 11)),
    "search": ("", search_margin),
}
SERIOUS = """async () => (await axe.run({ resultTypes: ["violations"] })).violations
    .filter((fault) => fault.impact === "serious" || fault.impact === "critical")
    .map((fault) => [fault.id, fault.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))])"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault_of_accessibility(open_page: Open, shop: str, scheme: str) -> None:
    page = open_page(shop, color_scheme=scheme)
    # Not as a script of the page: its policy lets none in.
    page.add_init_script(path=AXE)
    faults: dict[str, Any] = {}
    for name in (*PAGES, *WAYS):
        place, go_on = WAYS.get(name) or (PAGES[name], None)
        page.goto(f"{shop}{place}")
        page.wait_for_selector("main > :not([aria-busy]) >> nth=0")
        if go_on is not None:
            go_on(page)
        page.wait_for_load_state("networkidle")
        if found := page.evaluate(SERIOUS):
            faults[name] = found
    assert not faults, json.dumps(faults, indent=1)
