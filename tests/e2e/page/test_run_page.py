"""A person's paths through the page of a run, in a real browser."""

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
Open = Callable[..., Page]


def column(page: Page, label: str, name: str) -> Any:
    return page.locator(f'[data-column][title="{name}"][aria-label$=", column of {label}"]').first


def test_the_answer_stands_before_the_picture(open_page: Open, orders: str) -> None:
    page = open_page(orders)
    answer = page.get_by_role("region", name="Explanation")
    expect(answer).to_contain_text("daily_revenue.parquet · net_revenue")
    expect(answer).to_contain_text("orders.csv · price, qty")
    expect(answer).to_contain_text("12 steps, all exact")
    expect(page).to_have_title("orders.py · clew")
    expect(page.get_by_test_id("run-header")).to_contain_text("1 cell failed")


def test_pointing_at_a_column_lights_its_path_and_its_lines_of_code(open_page: Open, orders: str) -> None:
    page = open_page(orders)
    column(page, "customers.csv", "country").hover()
    expect(column(page, "daily_revenue.parquet", "country")).to_have_attribute("data-highlight", "direct")
    expect(column(page, "daily_revenue.parquet", "net_revenue")).to_have_attribute("data-highlight", "indirect")
    expect(column(page, "orders.csv", "price")).not_to_have_attribute("data-highlight", "direct")
    lit = page.get_by_test_id("cell").locator("p[data-highlight=direct]")
    expect(lit.first).to_contain_text('customers = pd.read_csv("customers.csv")')
    expect(lit.nth(1).locator("mark")).to_have_text('orders.merge(customers, on="customer_id", how="left")')
    assert page.get_by_test_id("edges").locator("g[data-kind=direct]").count() > 3
    assert page.get_by_test_id("edges").locator("g[data-kind=indirect]").count() > 0
    expect(page.get_by_role("region", name="Explanation")).to_contain_text("written to daily_revenue.parquet · country")


# Where every card stands in the document, once two frames agree: a page still laying itself out says nothing.
SETTLED_CARDS = """() => new Promise((done) => {
    let last = "";
    const look = () => {
        const cards = [...document.querySelectorAll("article")].map((card) => card.getBoundingClientRect());
        const now = JSON.stringify(cards.map((c) => [c.x + scrollX, c.y + scrollY, c.width, c.height].map(Math.round)));
        if (now === last) done(now);
        else { last = now; requestAnimationFrame(() => requestAnimationFrame(look)); }
    };
    document.fonts.ready.then(look);
})"""


def test_nothing_moves_under_the_pointer(open_page: Open, orders: str) -> None:
    page = open_page(orders)
    before = page.evaluate(SETTLED_CARDS)
    for name in ("day", "orders", "net_revenue"):
        column(page, "daily_revenue.parquet", name).hover()
        assert page.evaluate(SETTLED_CARDS) == before


def test_a_column_that_is_pressed_stays_and_is_a_url(open_page: Open, orders: str) -> None:
    page = open_page(orders)
    column(page, "daily_revenue.parquet", "orders").click()
    page.mouse.move(0, 0)
    expect(page.get_by_role("region", name="Explanation")).to_contain_text("daily_revenue.parquet · orders")
    again = open_page(page.url)
    expect(column(again, "daily_revenue.parquet", "orders")).to_have_attribute("aria-pressed", "true")


def test_the_error_stands_at_its_cell_in_its_own_words(open_page: Open, orders: str) -> None:
    page = open_page(orders)
    failed = page.locator("[data-testid=cell][data-state=failed]")
    expect(failed).to_contain_text("KeyError: 'cost'")
    expect(failed.locator("[data-error]")).to_contain_text('margin = 1 - net["cost"]')
    failed.get_by_role("button", name="margin").click()
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("Traceback (most recent call last)")
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary", name="Details")).to_have_count(0)


def test_a_guess_is_marked(open_page: Open, orders: str) -> None:
    page = open_page(f"{orders}#/run?dataset=orders/net&version=3&column=segment")
    expect(page.get_by_test_id("edges").locator("[data-inferred]").first).to_be_attached()
    expect(page.get_by_test_id("cell").locator("p[data-highlight]", has_text="segment_of")).to_contain_text(
        "segment (inferred)"
    )
    expect(page.get_by_role("region", name="Explanation")).to_contain_text("1 inferred")


def test_the_answer_as_text_has_the_same_hops(open_page: Open, orders: str) -> None:
    page = open_page(orders)
    page.get_by_role("button", name="as text").click()
    twin = page.get_by_role("region", name="Explanation as text")
    for words in (
        "daily v1 · net_revenue",
        "cell 11, line 1",
        'net["revenue"] - net["amount"].fillna(0)',
        "orders.csv · qty",
    ):
        expect(twin).to_contain_text(words)
    assert "text=1" in page.url


def test_the_keyboard_is_enough(open_page: Open, orders: str) -> None:
    page = open_page(orders)
    column(page, "daily_revenue.parquet", "country").focus()
    page.keyboard.press("ArrowDown")
    expect(column(page, "daily_revenue.parquet", "net_revenue")).to_be_focused()
    page.keyboard.press("ArrowUp")
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    expect(column(page, "customers.csv", "country")).to_be_focused()
    page.keyboard.press("Enter")
    expect(column(page, "customers.csv", "country")).to_have_attribute("aria-pressed", "true")


def test_the_graph_shows_the_run_with_its_path_lit(open_page: Open, orders: str) -> None:
    page = open_page(orders)
    page.get_by_role("link", name="Graph").click()
    expect(page.locator(".react-flow__node")).to_have_count(23)
    expect(page.get_by_text("all 23 nodes")).to_be_visible()
    assert page.locator(".react-flow__edge g[data-kind=direct]").count() > 10
    page.get_by_role("button", name="One hop of daily_revenue.parquet").click()
    expect(page.locator(".react-flow__node")).to_have_count(3)
    expect(page.get_by_text("3 of 23 nodes")).to_be_visible()
    expect(page.get_by_role("button", name="+ 1 upstream")).to_be_visible()


def test_every_node_of_the_graph_is_in_view(open_page: Open, orders: str) -> None:
    page = open_page(f"{orders}#/graph")
    expect(page.locator(".react-flow__node").last).to_be_in_viewport()
    canvas = page.get_by_test_id("canvas").bounding_box()
    boxes = [node.bounding_box() for node in page.locator(".react-flow__node").all()]
    assert canvas is not None
    for box in boxes:
        assert box is not None
        assert canvas["x"] <= box["x"]
        assert box["x"] + box["width"] <= canvas["x"] + canvas["width"]


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_light_and_dark_follow_the_system_until_switched(
    open_page: Open, orders: str, scheme: str, is_dark: bool
) -> None:
    page = open_page(orders, color_scheme=scheme)
    red = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]) < 128"
    assert page.evaluate(red) is is_dark
    page.get_by_role("button", name="theme").click()
    assert page.evaluate(red) is not is_dark


NAMES = ["x" * 400, "🧵" * 60, "عمود الإيرادات الصافية " * 12, "</script><b>bold</b>", "a\u2028b"]


@pytest.mark.parametrize("name", NAMES, ids=["long", "emoji", "right to left", "markup", "line separator"])
def test_no_name_breaks_the_page(
    open_page: Open, exported: Callable[[RunPage], str], sample: dict[str, Any], name: str
) -> None:
    book = sample["Book"](notebook=f"{name}.py")
    file = book.file(f"{name}.csv".replace("/", "∕"), 5, "")  # noqa: RUF001 - a slash would be a folder
    book.cell(name, f"a = '{name}'")
    book.step("read_csv", "io", [file], book.frame(name.replace("/", "∕"), 1, 5, ""), [sample["Influence"](name, name)])  # noqa: RUF001
    page = open_page(exported(build_run_page(book.run([file], []))))
    first = page.locator("[data-column]").first
    first.hover()
    expect(first).to_have_attribute("title", name)
    wide = "[...document.querySelectorAll('body, header, article')].some((e) => e.scrollWidth > e.clientWidth + 1)"
    assert page.evaluate(wide) is False


def test_three_thousand_columns_stay_a_page(
    open_page: Open, exported: Callable[[RunPage], str], sample: dict[str, Any]
) -> None:
    book = sample["Book"]()
    columns = " ".join(f"c{i}:int64" for i in range(3000))
    file = book.file("wide.csv", 5, columns)
    book.cell("load", 'wide = pd.read_csv("wide.csv")')
    book.step("read_csv", "io", [file], book.frame("wide", 1, 5, columns), sample["same"](file.fields))
    page = open_page(exported(build_run_page(book.run([file], []))))
    page.get_by_role("button", name="8 of 3000 columns").click()
    details = page.get_by_role("complementary", name="Details")
    expect(details).to_contain_text("200 of 3000")
    details.get_by_role("searchbox").fill("c2999")
    expect(details.locator("[data-column]")).to_have_count(1)


def test_an_empty_run_says_so(open_page: Open, exported: Callable[[RunPage], str], sample: dict[str, Any]) -> None:
    url = exported(build_run_page(sample["Book"]().run([], [])))
    page = open_page(url)
    for words in ("No cells were executed.", "Nothing was read.", "Nothing was written."):
        expect(page.get_by_text(words)).to_be_visible()
    expect(open_page(f"{url}#/graph").get_by_text("No datasets in this run.")).to_be_visible()


def test_the_build_is_small_and_carries_no_source_maps() -> None:
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < 250_000
    assert sorted(path.suffix for path in files) == [".css", ".html", ".js"]
    assert not any(b"sourceMappingURL" in path.read_bytes() for path in files)
