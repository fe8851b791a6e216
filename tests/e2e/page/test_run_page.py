"""Tests of the run page in a real browser."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from clew.api.static_files import STATIC
from clew.query.pages.run_page import build_run_page
from clew.query.pages.run_page_model import RunPage

pytestmark = pytest.mark.browser
OpenPage = Callable[..., Page]


def find_column(page: Page, label: str, name: str) -> Any:
    return page.locator(f'[data-column][title="{name}"][aria-label$=", column of {label}"]').first


def test_explanation_and_header(open_page: OpenPage, orders_url: str) -> None:
    page = open_page(orders_url)
    explanation = page.get_by_role("region", name="Explanation")
    expect(explanation).to_contain_text("daily_revenue.parquet · net_revenue")
    expect(explanation).to_contain_text("orders.csv · price, qty")
    expect(explanation).to_contain_text("12 steps, all exact")
    expect(page).to_have_title("orders.py · clew")
    expect(page.get_by_test_id("run-header")).to_contain_text("1 cell failed")


def test_hover_highlights_the_path_and_the_code(open_page: OpenPage, orders_url: str) -> None:
    page = open_page(orders_url)
    find_column(page, "customers.csv", "country").hover()
    expect(find_column(page, "daily_revenue.parquet", "country")).to_have_attribute("data-highlight", "direct")
    expect(find_column(page, "daily_revenue.parquet", "net_revenue")).to_have_attribute("data-highlight", "indirect")
    expect(find_column(page, "orders.csv", "price")).not_to_have_attribute("data-highlight", "direct")
    highlighted = page.get_by_test_id("cell").locator("p[data-highlight=direct]")
    expect(highlighted.first).to_contain_text('customers = pd.read_csv("customers.csv")')
    expect(highlighted.nth(1).locator("mark")).to_have_text('orders.merge(customers, on="customer_id", how="left")')
    assert page.get_by_test_id("edges").locator("g[data-kind=direct]").count() > 3
    assert page.get_by_test_id("edges").locator("g[data-kind=indirect]").count() > 0
    expect(page.get_by_role("region", name="Explanation")).to_contain_text("written to daily_revenue.parquet · country")


# Positions of all cards, once two frames agree: before that the layout is not complete.
CARD_POSITIONS = """() => new Promise((done) => {
    let last = "";
    const look = () => {
        const cards = [...document.querySelectorAll("article")].map((card) => card.getBoundingClientRect());
        const now = JSON.stringify(cards.map((c) => [c.x + scrollX, c.y + scrollY, c.width, c.height].map(Math.round)));
        if (now === last) done(now);
        else { last = now; requestAnimationFrame(() => requestAnimationFrame(look)); }
    };
    document.fonts.ready.then(look);
})"""


def test_hover_does_not_move_cards(open_page: OpenPage, orders_url: str) -> None:
    page = open_page(orders_url)
    before = page.evaluate(CARD_POSITIONS)
    for name in ("day", "orders", "net_revenue"):
        find_column(page, "daily_revenue.parquet", name).hover()
        assert page.evaluate(CARD_POSITIONS) == before


def test_selected_column_is_in_the_url(open_page: OpenPage, orders_url: str) -> None:
    page = open_page(orders_url)
    find_column(page, "daily_revenue.parquet", "orders").click()
    page.mouse.move(0, 0)
    expect(page.get_by_role("region", name="Explanation")).to_contain_text("daily_revenue.parquet · orders")
    reopened = open_page(page.url)
    expect(find_column(reopened, "daily_revenue.parquet", "orders")).to_have_attribute("aria-pressed", "true")


def test_failed_cell_shows_its_error(open_page: OpenPage, orders_url: str) -> None:
    page = open_page(orders_url)
    failed = page.locator("[data-testid=cell][data-state=failed]")
    expect(failed).to_contain_text("KeyError: 'cost'")
    expect(failed.locator("[data-error]")).to_contain_text('margin = 1 - net["cost"]')
    failed.get_by_role("button", name="margin").click()
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("Traceback (most recent call last)")
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary", name="Details")).to_have_count(0)


def test_inferred_edges_are_marked(open_page: OpenPage, orders_url: str) -> None:
    page = open_page(f"{orders_url}#/run?dataset=orders/net&version=3&column=segment")
    expect(page.get_by_test_id("edges").locator("[data-inferred]").first).to_be_attached()
    expect(page.get_by_test_id("cell").locator("p[data-highlight]", has_text="segment_of")).to_contain_text(
        "segment (inferred)"
    )
    expect(page.get_by_role("region", name="Explanation")).to_contain_text("1 inferred")


def test_explanation_as_text_has_the_same_steps(open_page: OpenPage, orders_url: str) -> None:
    page = open_page(orders_url)
    page.get_by_role("button", name="as text").click()
    explanation_text = page.get_by_role("region", name="Explanation as text")
    for text in (
        "daily v1 · net_revenue",
        "cell 11, line 1",
        'net["revenue"] - net["amount"].fillna(0)',
        "orders.csv · qty",
    ):
        expect(explanation_text).to_contain_text(text)
    assert "text=1" in page.url


def test_keyboard_navigation(open_page: OpenPage, orders_url: str) -> None:
    page = open_page(orders_url)
    find_column(page, "daily_revenue.parquet", "country").focus()
    page.keyboard.press("ArrowDown")
    expect(find_column(page, "daily_revenue.parquet", "net_revenue")).to_be_focused()
    page.keyboard.press("ArrowUp")
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    expect(find_column(page, "customers.csv", "country")).to_be_focused()
    page.keyboard.press("Enter")
    expect(find_column(page, "customers.csv", "country")).to_have_attribute("aria-pressed", "true")


def test_graph_shows_the_run_with_its_path_highlighted(open_page: OpenPage, orders_url: str) -> None:
    page = open_page(orders_url)
    page.get_by_role("link", name="Graph").click()
    expect(page.locator(".react-flow__node")).to_have_count(23)
    expect(page.get_by_text("all 23 nodes")).to_be_visible()
    assert page.locator(".react-flow__edge g[data-kind=direct]").count() > 10
    page.get_by_role("button", name="One hop of daily_revenue.parquet").click()
    expect(page.locator(".react-flow__node")).to_have_count(3)
    expect(page.get_by_text("3 of 23 nodes")).to_be_visible()
    expect(page.get_by_role("button", name="+ 1 upstream")).to_be_visible()


def test_graph_fits_all_nodes_into_the_viewport(open_page: OpenPage, orders_url: str) -> None:
    page = open_page(f"{orders_url}#/graph")
    expect(page.locator(".react-flow__node").last).to_be_in_viewport()
    canvas = page.get_by_test_id("canvas").bounding_box()
    boxes = [node.bounding_box() for node in page.locator(".react-flow__node").all()]
    assert canvas is not None
    for box in boxes:
        assert box is not None
        assert canvas["x"] <= box["x"]
        assert box["x"] + box["width"] <= canvas["x"] + canvas["width"]


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_theme_follows_the_system_until_switched(
    open_page: OpenPage, orders_url: str, scheme: str, is_dark: bool
) -> None:
    page = open_page(orders_url, color_scheme=scheme)
    is_dark_script = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]) < 128"
    assert page.evaluate(is_dark_script) is is_dark
    page.get_by_role("button", name="theme").click()
    assert page.evaluate(is_dark_script) is not is_dark


NAMES = ["x" * 400, "🧵" * 60, "عمود الإيرادات الصافية " * 12, "</script><b>bold</b>", "a\u2028b"]


@pytest.mark.parametrize("name", NAMES, ids=["long", "emoji", "right to left", "markup", "line separator"])
def test_names_do_not_break_the_layout(
    open_page: OpenPage, export_page: Callable[[RunPage], str], sample: dict[str, Any], name: str
) -> None:
    builder = sample["RunBuilder"](notebook=f"{name}.py")
    file = builder.file(f"{name}.csv".replace("/", "∕"), 5, "")  # noqa: RUF001 - a slash would be a folder
    builder.cell(name, f"a = '{name}'")
    frame = builder.frame(name.replace("/", "∕"), 1, 5, "")  # noqa: RUF001
    builder.step("read_csv", "io", [file], frame, [sample["EdgeSpec"](name, name)])
    page = open_page(export_page(build_run_page(builder.run([file], []))))
    first = page.locator("[data-column]").first
    first.hover()
    expect(first).to_have_attribute("title", name)
    overflow_script = (
        "[...document.querySelectorAll('body, header, article')].some((e) => e.scrollWidth > e.clientWidth + 1)"
    )
    assert page.evaluate(overflow_script) is False


def test_3000_columns_are_truncated_and_searchable(
    open_page: OpenPage, export_page: Callable[[RunPage], str], sample: dict[str, Any]
) -> None:
    builder = sample["RunBuilder"]()
    columns = " ".join(f"c{i}:int64" for i in range(3000))
    file = builder.file("wide.csv", 5, columns)
    builder.cell("load", 'wide = pd.read_csv("wide.csv")')
    builder.step("read_csv", "io", [file], builder.frame("wide", 1, 5, columns), sample["identity_edges"](file.fields))
    page = open_page(export_page(build_run_page(builder.run([file], []))))
    page.get_by_role("button", name="8 of 3000 columns").click()
    details = page.get_by_role("complementary", name="Details")
    expect(details).to_contain_text("200 of 3000")
    details.get_by_role("searchbox").fill("c2999")
    expect(details.locator("[data-column]")).to_have_count(1)


def test_empty_run_shows_messages(
    open_page: OpenPage, export_page: Callable[[RunPage], str], sample: dict[str, Any]
) -> None:
    url = export_page(build_run_page(sample["RunBuilder"]().run([], [])))
    page = open_page(url)
    for text in ("No cells were executed.", "Nothing was read.", "Nothing was written."):
        expect(page.get_by_text(text)).to_be_visible()
    expect(open_page(f"{url}#/graph").get_by_text("No datasets in this run.")).to_be_visible()


def test_web_build_is_small_and_has_no_source_maps() -> None:
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < 250_000
    assert sorted(path.suffix for path in files) == [".css", ".html", ".js"]
    assert not any(b"sourceMappingURL" in path.read_bytes() for path in files)
