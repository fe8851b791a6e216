"""Tests of the run page document: states, edges, explanation and truncation."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec import structs
from tests.support.paths import ROOT

from clew.errors import UsageError
from clew.query.model import CellExecution, DatasetName, Field, LineageStep, NotebookRun
from clew.query.notebooks.session import display_name
from clew.query.pages import run_page as module
from clew.query.pages.run_page import build_run_page
from clew.query.pages.run_page_model import PageEdge, Port, RunPage

SAMPLE = runpy.run_path(str(ROOT / "tests" / "e2e" / "page" / "orders_run.py"))
GOLDEN = ROOT / "web" / "test" / "orders-page.json"
RunBuilder: Any = SAMPLE["RunBuilder"]
EdgeSpec: Any = SAMPLE["EdgeSpec"]


@pytest.fixture(scope="module")
def page() -> RunPage:
    sample_page: RunPage = SAMPLE["orders_page"]()
    return sample_page


def _port_name(page: RunPage, port: Port) -> str:
    state = page.states[port.state]
    return f"{state.label}{'' if state.version is None else '@' + state.version}.{port.column}"


def _edges_to(page: RunPage, name: str) -> set[str]:
    return {_port_name(page, edge.source) for edge in page.edges if _port_name(page, edge.target) == name}


def test_header(page: RunPage) -> None:
    header = page.header
    assert (header.notebook, header.state, header.cell_count, header.failed_count) == ("orders.py", "FAILED", 12, 1)
    assert (header.started_at, header.peak_memory_mb) == (datetime(2026, 11, 15, 14, 2, 11, tzinfo=UTC), 438.95)


@pytest.mark.parametrize(
    ("column", "sources"),
    [
        ("paid@2.revenue", {"paid@1.price", "paid@1.qty"}),
        ("paid@2.price", {"paid@1.price"}),
        ("paid@1.price", {"joined@1.price"}),
        ("paid@1.None", {"joined@1.status"}),
        ("net@2.net_revenue", {"net@1.revenue", "net@1.amount"}),
        ("net@3.segment", {"net@2.None"}),
        ("orders@1.qty", {"orders.csv.qty"}),
        ("daily_revenue.parquet.net_revenue", {"daily@1.net_revenue"}),
    ],
)
def test_edges_connect_exact_versions(page: RunPage, column: str, sources: set[str]) -> None:
    assert _edges_to(page, column) == sources


def test_each_version_of_a_variable_is_a_state(page: RunPage) -> None:
    states = [(state.version, state.producer) for state in page.states if state.label == "net"]
    assert [version for version, _ in states] == ["1", "2", "3"]
    assert len({producer for _, producer in states}) == 3


def test_lanes_link_files_and_cells(page: RunPage) -> None:
    titles = {f"cell:{i}": cell.title for i, cell in enumerate(page.cells)}
    titles |= {f"state:{i}": state.label for i, state in enumerate(page.states)}
    assert {(titles[link.source], titles[link.target]) for link in page.lanes.links} == {
        ("orders.csv", "load_orders"),
        ("customers.csv", "load_customers"),
        ("returns.csv", "load_returns"),
        ("load_orders", "join_customers"),
        ("load_customers", "join_customers"),
        ("join_customers", "keep_paid"),
        ("load_returns", "sum_refunds"),
        ("keep_paid", "net_of_refunds"),
        ("sum_refunds", "net_of_refunds"),
        ("net_of_refunds", "net"),
        ("net", "by_day"),
        ("by_day", "save"),
        ("save", "daily_revenue.parquet"),
    }


def test_explanation_sentence(page: RunPage) -> None:
    assert page.explanation is not None
    assert [
        (part.kind, part.text, part.cell, part.line) for part in page.explanation.sentence if part.kind != "code"
    ] == [
        ("target", "daily_revenue.parquet · net_revenue", None, None),
        ("source", "orders.csv · price, qty", None, None),
        ("source", "returns.csv · amount", None, None),
        ("indirect", "filtered by orders.csv · status", None, None),
        ("indirect", "grouped by customers.csv · country, orders.csv · day, returns.csv · order_id", None, None),
        (
            "indirect",
            "joined on customers.csv · customer_id, orders.csv · customer_id, order_id, returns.csv · order_id",
            None,
            None,
        ),
        ("summary", "12 steps, all exact", None, None),
    ]
    codes = [(part.text, part.cell, part.line) for part in page.explanation.sentence if part.kind == "code"]
    assert codes[1:] == [
        ('net["revenue"] - net["amount"].fillna(0)', 7, 3),
        ('returns.groupby("order_id", as_index=False)["amount"].sum()', 6, 1),
        ("1 more", None, None),
    ]


def test_each_step_of_the_tree_has_its_line_of_code(page: RunPage) -> None:
    assert page.explanation is not None
    step, steps = page.explanation.tree, []
    while step.upstream:
        step = step.upstream[0]
        steps.append((step.label, step.version, step.column, None if step.cell is None else step.cell + 1, step.line))
    assert steps == [
        ("daily", "1", "net_revenue", 12, 1),
        ("net", "3", "net_revenue", 11, 1),
        ("net", "2", "net_revenue", 10, 1),
        ("net", "1", "amount", 8, 3),
        ("refunds", "1", "amount", 8, 2),
        ("returns", "1", "amount", 7, 1),
        ("returns.csv", None, "amount", 4, 1),
    ]


def test_explanation_counts_inferred_edges() -> None:
    run: NotebookRun = SAMPLE["orders_run"]()
    state = next(op.outputs[0] for op in run.operations if op.outputs[0].version == "3")
    page = build_run_page(run, upstream=SAMPLE["trace_upstream"](run, state, "segment"))
    assert page.explanation is not None
    assert page.explanation.sentence[-1].text.endswith("1 inferred")
    assert page.explanation.tree.upstream[0].flag == "opaque"


def test_error_has_its_line(page: RunPage) -> None:
    cell = next(cell for cell in page.cells if cell.state == "failed")
    assert cell.error is not None
    assert (cell.error.type, cell.error.message, cell.error.line) == ("KeyError", "'cost'", 2)
    assert 2 in cell.shown_lines


def test_time_shares_add_up_to_one(page: RunPage) -> None:
    assert sum(cell.share for cell in page.cells) == pytest.approx(1, abs=0.001)
    assert [cell.offset for cell in page.cells] == sorted(cell.offset for cell in page.cells)


def test_a_cell_run_again_reads_the_latest_version() -> None:
    builder = RunBuilder()
    file = builder.file("a.csv", 3, "x:int64")
    for _ in range(2):
        builder.cell("load", 'a = pd.read_csv("a.csv")')
        frame = builder.step("read_csv", "io", [file], builder.frame("a", 1, 3, "x:int64"), [EdgeSpec("x", "x")])
        builder.cell("double", "b = a * 2")
        builder.step("mul", "transformation", [frame], builder.frame("b", 1, 3, "x:int64"), [EdgeSpec("x", "x")])
    page = build_run_page(builder.run([file], []))
    assert [op.inputs for op in page.operations] == [(0,), (1,), (0,), (3,)]
    assert [link.source for link in page.lanes.links] == ["state:0", "cell:0", "state:0", "cell:2"]


def test_orders_operations_by_cell_execution() -> None:
    run: NotebookRun = SAMPLE["orders_run"]()
    page = build_run_page(structs.replace(run, operations=run.operations[::-1]))
    in_order = build_run_page(run)
    assert [op.cell for op in page.operations] == [op.cell for op in in_order.operations]
    assert page.lanes.links[:6] == in_order.lanes.links[:6]


def test_focus_of_a_run_without_writes_is_its_last_frame() -> None:
    run: NotebookRun = SAMPLE["orders_run"]()
    page = build_run_page(structs.replace(run, writes=(), operations=run.operations[:3], edges=run.edges[:18]))
    assert page.focus is not None
    assert _port_name(page, page.focus) == "returns@1.reason"


def test_an_overwritten_file_is_two_states() -> None:
    builder = RunBuilder()
    file = builder.file("a.csv", 3, "x:int64")
    builder.cell("load", 'a = pd.read_csv("a.csv")')
    frame = builder.step("read_csv", "io", [file], builder.frame("a", 1, 3, "x:int64"), [EdgeSpec("x", "x")])
    builder.cell("save", 'a.to_csv("a.csv")')
    builder.step("to_csv", "io", [frame], file, [EdgeSpec("x", "x")])
    page = build_run_page(builder.run([file], [file]))
    assert (page.lanes.reads.items, page.lanes.writes.items) == ((0,), (2,))
    assert page.edges[-1] == PageEdge(Port(1, "x"), Port(2, "x"), "DIRECT", "IDENTITY", None, 1)


def test_a_column_named_only_by_an_edge_is_a_port() -> None:
    builder = RunBuilder()
    file = builder.file("a.csv", None, "")
    builder.cell("load", 'a = pd.read_csv("a.csv")')
    builder.step("read_csv", "io", [file], builder.frame("a", 1, None, ""), [EdgeSpec("x", "x")])
    page = build_run_page(builder.run([file], []))
    assert [state.columns for state in page.states] == [(Field("x"),), (Field("x"),)]


def test_default_focus_is_the_last_traced_column_written() -> None:
    page = build_run_page(SAMPLE["orders_run"]())
    assert page.explanation is None
    assert page.focus is not None
    assert _port_name(page, page.focus) == "daily_revenue.parquet.orders"


def _column_of_net(version: str | None, column: str) -> LineageStep:
    return LineageStep(DatasetName("marimo", "orders/net"), version, column, None, None, None, ())


@pytest.mark.parametrize(("version", "expected"), [(None, "net@3.price"), ("1", "net@1.price")])
def test_focus_without_a_version_is_the_latest_version(version: str | None, expected: str) -> None:
    page = build_run_page(SAMPLE["orders_run"](), upstream=_column_of_net(version, "price"))
    assert page.focus is not None
    assert _port_name(page, page.focus) == expected


def test_rejects_an_unknown_focus() -> None:
    with pytest.raises(UsageError, match=r"No column 'net · nothing' in this run of orders\.py"):
        build_run_page(SAMPLE["orders_run"](), upstream=_column_of_net(None, "nothing"))


def test_page_of_an_empty_run() -> None:
    page = build_run_page(NotebookRun("6ac33987", None, "empty.py", "RUNNING", None, None, (), (), (), (), ()))
    assert (page.focus, page.header.duration_ms, page.header.peak_memory_mb, page.lanes.height) == (None, None, None, 0)


def test_counts_truncated_items(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in {"MAX_CARDS": 2, "MAX_CELLS": 5, "MAX_EDGES": 10}.items():
        monkeypatch.setattr(module, name, limit)
    page = build_run_page(SAMPLE["orders_run"]())
    assert (len(page.lanes.reads.items), page.lanes.reads.total) == (2, 3)
    assert (page.lanes.cells.items, page.lanes.cells.total) == ((7, 8, 9, 10, 11), 12)
    assert (len(page.edges), page.edge_total) == (10, len(SAMPLE["orders_run"]().edges))


def test_limits_the_cells_of_a_long_run() -> None:
    builder = RunBuilder()
    for _ in range(1000):
        builder.cell(None, "x = 1")
    page = build_run_page(builder.run([], []))
    assert (len(page.lanes.cells.items), page.lanes.cells.total) == (module.MAX_CELLS, 1000)


@pytest.mark.parametrize("name", ["x" * 400, "🧵 naïve", "مرحبا", "</script>", "a\u2028b", ""])
def test_any_name_round_trips(name: str) -> None:
    builder = RunBuilder(notebook=f"{name}.py")
    file = builder.file("a.csv", 1, "")
    builder.cell(name, "pass")
    builder.step("read_csv", "io", [file], builder.frame(name, 1, 1, ""), [EdgeSpec(name, name)])
    page = build_run_page(builder.run([file], []))
    assert msgspec.json.decode(msgspec.json.encode(page), type=RunPage) == page


@pytest.mark.parametrize(
    ("name", "frames", "expected"),
    [("load", [], "load"), ("_", ["a"], "a"), (None, ["a", "b"], "a, b"), (None, [], "c1")],
)
def test_cell_title(name: str | None, frames: list[str], expected: str) -> None:
    cell = CellExecution("00000001", "c1", name, 1, "", "completed", None, None, None, None, None)
    assert module._title(cell, frames) == expected


@pytest.mark.parametrize(
    ("namespace", "name", "label"),
    [
        ("marimo", "orders/paid", "paid"),
        ("marimo", "orders/keep_paid/dataframe_getitem", "keep_paid: getitem"),
        ("marimo", "orders/load/pandas_merge.2", "load: merge.2"),
        ("marimo", "lonely", "lonely"),
        ("file", "/data/shop/orders.csv", "orders.csv"),
        ("s3://lake", "crm/customers", "customers"),
        ("postgres://wh:5432", "finance.public.margin", "finance.public.margin"),
        ("file", "/", "/"),
    ],
)
def test_dataset_display_name(namespace: str, name: str, label: str) -> None:
    assert display_name(DatasetName(namespace, name)) == label


def test_is_deterministic(page: RunPage) -> None:
    assert SAMPLE["orders_page"]() == page


def test_sample_page_of_the_frontend_is_current(page: RunPage) -> None:
    assert msgspec.json.decode(GOLDEN.read_bytes()) == msgspec.json.decode(msgspec.json.encode(page)), (
        "renew it: python tests/e2e/page/orders_run.py > web/test/orders-page.json"
    )
