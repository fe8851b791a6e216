"""A run of a notebook about orders, written out by hand: what a capture of it would have recorded.

Loaded by path (`runpy.run_path`), since test folders are no packages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from clew.query.model import (
    CellError,
    CellExecution,
    CellState,
    ColumnLineageEdge,
    DatasetName,
    DatasetState,
    EdgeType,
    Field,
    LineageStep,
    NotebookOperation,
    NotebookRun,
    State,
)
from clew.query.pages.run_page import build_run_page
from clew.query.pages.run_page_model import RunPage

START = datetime(2026, 11, 15, 14, 2, 11, tzinfo=UTC)
ORDERS = (
    "order_id:int64 day:date customer_id:int64 status:string price:float64 qty:int64 "
    "discount:float64 channel:string coupon:string note:string"
)
CUSTOMERS = "customer_id:int64 name:string country:string since:date"
RETURNS = "return_id:int64 order_id:int64 amount:float64 reason:string"


class Influence(NamedTuple):
    """An edge to be: `column` of the output from `source_column` of the input at `place`."""

    column: str | None
    source_column: str | None
    type: EdgeType = "DIRECT"
    subtype: str = "IDENTITY"
    flag: Any = None
    place: int = 0


def fields(text: str) -> tuple[Field, ...]:
    """Columns from `name:type name:type`."""
    return tuple(Field(*column.split(":")) for column in text.split())


def same(columns: Iterable[Field], place: int = 0) -> list[Influence]:
    """Columns that pass through unchanged."""
    return [Influence(field.name, field.name, place=place) for field in columns]


class Book:
    """A notebook that is being run: cells and operations are added in order."""

    def __init__(self, notebook: str = "orders.py") -> None:
        self.notebook = notebook
        self.stem = notebook.removesuffix(".py")
        self.cells: list[CellExecution] = []
        self.operations: list[NotebookOperation] = []
        self.edges: list[ColumnLineageEdge] = []
        self._clock = START

    def file(self, name: str, rows: int | None, columns: str) -> DatasetState:
        """A file as it was read or written."""
        return DatasetState(DatasetName("file", f"/data/shop/{name}"), None, fields(columns), rows)

    def frame(self, variable: str, version: int, rows: int | None, columns: str | tuple[Field, ...]) -> DatasetState:
        """A state of a variable."""
        described = fields(columns) if isinstance(columns, str) else columns
        return DatasetState(DatasetName("marimo", f"{self.stem}/{variable}"), str(version), described, rows)

    def cell(
        self,
        name: str | None,
        source: str,
        ms: float = 10,
        *,
        state: CellState = "completed",
        error: CellError | None = None,
    ) -> CellExecution:
        """Run a cell."""
        number = len(self.cells) + 1
        memory = 180 + 21.5 * number
        cell = CellExecution(
            f"{number:08x}",
            f"c{number:03}",
            name,
            number,
            source,
            state,
            self._clock,
            ms,
            memory,
            memory + ms / 20,
            error,
        )
        self.cells.append(cell)
        self._clock += timedelta(milliseconds=ms + 4)
        return cell

    def step(
        self,
        method: str,
        kind: str,
        inputs: Iterable[DatasetState],
        output: DatasetState,
        influences: Iterable[Influence] = (),
        line: int = 1,
    ) -> DatasetState:
        """Run an operation in the last cell."""
        cell, given = self.cells[-1], tuple(inputs)
        code = cell.source.splitlines()[line - 1].partition(" = ")[2] or cell.source.splitlines()[line - 1]
        run_uuid = f"0190a000-0000-7000-8000-{len(self.operations):012}"
        job_name = f"{self.stem}/{cell.name or cell.cell_id}/{method}"
        self.operations.append(
            NotebookOperation(
                run_uuid, job_name, cell.execution_id, cell.cell_id, method, kind, code, line,
                cell.started_at, (cell.duration_ms or 0) / 2, "COMPLETED", given, (output,),
            )
        )  # fmt: skip
        self.edges += [_edge(influence, given, output, run_uuid, job_name) for influence in influences]
        return output

    def run(self, reads: Iterable[DatasetState], writes: Iterable[DatasetState]) -> NotebookRun:
        """The run so far."""
        state: State = "FAILED" if any(cell.state == "failed" for cell in self.cells) else "COMPLETED"
        return NotebookRun(
            "6ac33987", "0190a000-0000-7000-8000-ffffffffffff", self.notebook, state, START, self._clock,
            tuple(self.cells), tuple(self.operations), tuple(reads), tuple(writes), tuple(self.edges),
        )  # fmt: skip


def _edge(
    influence: Influence, inputs: tuple[DatasetState, ...], output: DatasetState, run_uuid: str, job: str
) -> ColumnLineageEdge:
    source = inputs[influence.place]
    return ColumnLineageEdge(
        output.dataset, output.version, influence.column, source.dataset, source.version, influence.source_column,
        influence.type, influence.subtype, influence.flag, run_uuid, job,
    )  # fmt: skip


def orders_run() -> NotebookRun:
    """Twelve cells: reads, a join, a filter, sums, a function nobody can look into, an error, a parquet file."""
    book = Book()
    files = [
        book.file("orders.csv", 1_204_311, ORDERS),
        book.file("customers.csv", 80_112, CUSTOMERS),
        book.file("returns.csv", 31_407, RETURNS),
    ]
    book.cell("setup", "import marimo as mo\nimport pandas as pd", 2.1)
    frames = [_load(book, file, rows_ms) for file, rows_ms in zip(files, (412, 61, 24), strict=True)]
    joined = _joined(book, *frames[:2])
    paid = _paid(book, joined)
    net = _net(book, paid, _refunds(book, frames[2]))
    _margin(book)
    daily = _daily(book, _segments(book, net))
    book.cell("save", 'daily.to_parquet("daily_revenue.parquet")', 19)
    written = book.file("daily_revenue.parquet", 731, "day:date country:string net_revenue:float64 orders:int64")
    book.step("to_parquet", "io", [daily], written, same(daily.fields))
    return book.run(files, [written])


def _load(book: Book, file: DatasetState, ms: float) -> DatasetState:
    variable = file.dataset.name.rpartition("/")[2].removesuffix(".csv")
    book.cell(f"load_{variable}", f'{variable} = pd.read_csv("{variable}.csv")', ms)
    frame = book.frame(variable, 1, file.row_count, file.fields)
    return book.step("read_csv", "io", [file], frame, same(file.fields))


def _joined(book: Book, orders: DatasetState, customers: DatasetState) -> DatasetState:
    book.cell("join_customers", 'joined = orders.merge(customers, on="customer_id", how="left")', 640)
    own = [field for field in customers.fields if field.name != "customer_id"]
    joined = book.frame("joined", 1, orders.row_count, (*orders.fields, *own))
    keys = [Influence(None, "customer_id", "INDIRECT", "JOIN", place=place) for place in (0, 1)]
    return book.step("merge", "join", [orders, customers], joined, [*same(orders.fields), *same(own, 1), *keys])


def _paid(book: Book, joined: DatasetState) -> DatasetState:
    book.cell(
        "keep_paid", 'paid = joined[joined["status"] == "paid"]\npaid["revenue"] = paid["price"] * paid["qty"]', 88
    )
    first = book.frame("paid", 1, 903_220, joined.fields)
    book.step(
        "__getitem__",
        "selection",
        [joined],
        first,
        [*same(joined.fields), Influence(None, "status", "INDIRECT", "FILTER")],
    )
    second = book.frame("paid", 2, 903_220, (*joined.fields, Field("revenue", "float64")))
    made = [Influence("revenue", column, "DIRECT", "TRANSFORMATION") for column in ("price", "qty")]
    return book.step("__setitem__", "assignment", [first], second, [*same(joined.fields), *made], line=2)


def _refunds(book: Book, returns: DatasetState) -> DatasetState:
    book.cell("sum_refunds", 'refunds = returns.groupby("order_id", as_index=False)["amount"].sum()', 12)
    refunds = book.frame("refunds", 1, 30_988, "order_id:int64 amount:float64")
    made = [
        Influence("amount", "amount", "DIRECT", "AGGREGATION"),
        Influence("amount", "order_id", "INDIRECT", "GROUP_BY"),
    ]
    return book.step("sum", "aggregation", [returns], refunds, [Influence("order_id", "order_id"), *made])


def _net(book: Book, paid: DatasetState, refunds: DatasetState) -> DatasetState:
    book.cell(
        "net_of_refunds",
        "# A refund belongs to the day of its order.\n"
        'net = paid.merge(refunds, on="order_id", how="left")\n'
        'net["net_revenue"] = net["revenue"] - net["amount"].fillna(0)',
        205,
    )
    first = book.frame("net", 1, 903_220, (*paid.fields, Field("amount", "float64")))
    keys = [Influence(None, "order_id", "INDIRECT", "JOIN", place=place) for place in (0, 1)]
    amount = Influence("amount", "amount", place=1)
    book.step("merge", "join", [paid, refunds], first, [*same(paid.fields), amount, *keys], line=2)
    second = book.frame("net", 2, 903_220, (*first.fields, Field("net_revenue", "float64")))
    made = [Influence("net_revenue", column, "DIRECT", "TRANSFORMATION") for column in ("revenue", "amount")]
    return book.step("__setitem__", "assignment", [first], second, [*same(first.fields), *made], line=3)


def _margin(book: Book) -> None:
    words = "Traceback (most recent call last):\n  File \"orders.py\", cell 9, line 2, in <module>\nKeyError: 'cost'"
    error = CellError("KeyError", "'cost'", words)
    source = '# The ERP has no costs before 2024.\nmargin = 1 - net["cost"] / net["net_revenue"]\nmargin.describe()'
    book.cell("margin", source, 6, state="failed", error=error)


def _segments(book: Book, net: DatasetState) -> DatasetState:
    book.cell(None, 'net["segment"] = net.apply(segment_of, axis=1)', 371)
    labelled = book.frame("net", 3, 903_220, (*net.fields, Field("segment", "string")))
    guessed = Influence("segment", None, "DIRECT", "TRANSFORMATION", "opaque")
    return book.step("__setitem__", "assignment", [net], labelled, [*same(net.fields), guessed])


def _daily(book: Book, net: DatasetState) -> DatasetState:
    sums = 'net_revenue=("net_revenue", "sum"), orders=("order_id", "count")'
    source = f'daily = net.groupby(["day", "country"], as_index=False).agg({sums})'
    book.cell("by_day", source, 51)
    daily = book.frame("daily", 1, 731, "day:date country:string net_revenue:float64 orders:int64")
    keys = [Influence("day", "day"), Influence("country", "country")]
    made = [
        Influence("net_revenue", "net_revenue", "DIRECT", "AGGREGATION"),
        Influence("orders", "order_id", "DIRECT", "AGGREGATION"),
    ]
    groups = [Influence(None, column, "INDIRECT", "GROUP_BY") for column in ("day", "country")]
    return book.step("agg", "aggregation", [net], daily, [*keys, *made, *groups])


def trace(run: NotebookRun, state: DatasetState, column: str) -> LineageStep:
    """The tree of where a column comes from, by version alone: no cell of the sample runs twice."""
    return _hop(run, state.dataset, state.version, column, None, set())


def _hop(
    run: NotebookRun,
    dataset: DatasetName,
    version: str | None,
    column: str | None,
    edge: ColumnLineageEdge | None,
    seen: set[Any],
) -> LineageStep:
    operation = next((op for op in run.operations if edge and op.run_uuid == edge.run_uuid), None)
    cell = next((c for c in run.cells if operation and c.execution_id == operation.execution_id), None)
    address = (dataset, version, column)
    is_repeated = address in seen
    into = [e for e in run.edges if (e.dataset, e.version) == address[:2] and e.column in {column, None}]
    if is_repeated or (edge and edge.type == "INDIRECT"):
        return LineageStep(dataset, version, column, edge, operation, cell, (), is_repeated=is_repeated and bool(into))
    seen.add(address)
    upstream = tuple(_hop(run, e.source, e.source_version, e.source_column, e, seen) for e in into)
    return LineageStep(dataset, version, column, edge, operation, cell, upstream)


def orders_page() -> RunPage:
    """The page of the sample, asked where the net revenue comes from."""
    run = orders_run()
    return build_run_page(run, upstream=trace(run, run.writes[0], "net_revenue"))


if __name__ == "__main__":
    # python tests/e2e/page/orders_run.py > web/test/orders-page.json
    sys.stdout.buffer.write(msgspec.json.encode(orders_page()) + b"\n")
