"""Sample notebook run about orders, as a capture would have recorded it.

Loaded by path (`runpy.run_path`) because test folders are not packages.
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


class EdgeSpec(NamedTuple):
    """Edge to `column` of the output from `source_column` of the input at `input_index`."""

    column: str | None
    source_column: str | None
    type: EdgeType = "DIRECT"
    subtype: str = "IDENTITY"
    flag: Any = None
    input_index: int = 0


def parse_fields(text: str) -> tuple[Field, ...]:
    """Parse columns from `name:type name:type`."""
    return tuple(Field(*column.split(":")) for column in text.split())


def identity_edges(columns: Iterable[Field], input_index: int = 0) -> list[EdgeSpec]:
    """Return IDENTITY edges of unchanged columns."""
    return [EdgeSpec(field.name, field.name, input_index=input_index) for field in columns]


class RunBuilder:
    """Builder of a notebook run: cells and operations are added in order."""

    def __init__(self, notebook: str = "orders.py") -> None:
        self.notebook = notebook
        self.stem = notebook.removesuffix(".py")
        self.cells: list[CellExecution] = []
        self.operations: list[NotebookOperation] = []
        self.edges: list[ColumnLineageEdge] = []
        self._clock = START

    def file(self, name: str, rows: int | None, columns: str) -> DatasetState:
        """Return the state of a file."""
        return DatasetState(DatasetName("file", f"/data/shop/{name}"), None, parse_fields(columns), rows)

    def frame(self, variable: str, version: int, rows: int | None, columns: str | tuple[Field, ...]) -> DatasetState:
        """Return a state of a variable."""
        frame_columns = parse_fields(columns) if isinstance(columns, str) else columns
        return DatasetState(DatasetName("marimo", f"{self.stem}/{variable}"), str(version), frame_columns, rows)

    def cell(
        self,
        name: str | None,
        source: str,
        ms: float = 10,
        *,
        state: CellState = "completed",
        error: CellError | None = None,
    ) -> CellExecution:
        """Add a cell."""
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
        edge_specs: Iterable[EdgeSpec] = (),
        line: int = 1,
    ) -> DatasetState:
        """Add an operation to the last cell."""
        cell, input_states = self.cells[-1], tuple(inputs)
        code = cell.source.splitlines()[line - 1].partition(" = ")[2] or cell.source.splitlines()[line - 1]
        run_uuid = f"0190a000-0000-7000-8000-{len(self.operations):012}"
        job_name = f"{self.stem}/{cell.name or cell.cell_id}/{method}"
        self.operations.append(
            NotebookOperation(
                run_uuid, job_name, cell.execution_id, cell.cell_id, method, kind, code, line,
                cell.started_at, (cell.duration_ms or 0) / 2, "COMPLETED", input_states, (output,),
            )
        )  # fmt: skip
        self.edges += [_edge(edge_spec, input_states, output, run_uuid, job_name) for edge_spec in edge_specs]
        return output

    def run(self, reads: Iterable[DatasetState], writes: Iterable[DatasetState]) -> NotebookRun:
        """Return the run with all cells and operations added so far."""
        state: State = "FAILED" if any(cell.state == "failed" for cell in self.cells) else "COMPLETED"
        return NotebookRun(
            "6ac33987", "0190a000-0000-7000-8000-ffffffffffff", self.notebook, state, START, self._clock,
            tuple(self.cells), tuple(self.operations), tuple(reads), tuple(writes), tuple(self.edges),
        )  # fmt: skip


def _edge(
    edge_spec: EdgeSpec, inputs: tuple[DatasetState, ...], output: DatasetState, run_uuid: str, job: str
) -> ColumnLineageEdge:
    source = inputs[edge_spec.input_index]
    return ColumnLineageEdge(
        output.dataset, output.version, edge_spec.column, source.dataset, source.version, edge_spec.source_column,
        edge_spec.type, edge_spec.subtype, edge_spec.flag, run_uuid, job,
    )  # fmt: skip


def orders_run() -> NotebookRun:
    """Return a run of twelve cells: reads, a join, a filter, sums, an opaque function, an error, a Parquet file."""
    builder = RunBuilder()
    files = [
        builder.file("orders.csv", 1_204_311, ORDERS),
        builder.file("customers.csv", 80_112, CUSTOMERS),
        builder.file("returns.csv", 31_407, RETURNS),
    ]
    builder.cell("setup", "import marimo as mo\nimport pandas as pd", 2.1)
    frames = [_add_load(builder, file, duration_ms) for file, duration_ms in zip(files, (412, 61, 24), strict=True)]
    joined = _add_join(builder, *frames[:2])
    paid = _add_paid(builder, joined)
    net = _add_net(builder, paid, _add_refunds(builder, frames[2]))
    _add_margin(builder)
    daily = _add_daily(builder, _add_segments(builder, net))
    builder.cell("save", 'daily.to_parquet("daily_revenue.parquet")', 19)
    output = builder.file("daily_revenue.parquet", 731, "day:date country:string net_revenue:float64 orders:int64")
    builder.step("to_parquet", "io", [daily], output, identity_edges(daily.fields))
    return builder.run(files, [output])


def _add_load(builder: RunBuilder, file: DatasetState, ms: float) -> DatasetState:
    variable = file.dataset.name.rpartition("/")[2].removesuffix(".csv")
    builder.cell(f"load_{variable}", f'{variable} = pd.read_csv("{variable}.csv")', ms)
    frame = builder.frame(variable, 1, file.row_count, file.fields)
    return builder.step("read_csv", "io", [file], frame, identity_edges(file.fields))


def _add_join(builder: RunBuilder, orders: DatasetState, customers: DatasetState) -> DatasetState:
    builder.cell("join_customers", 'joined = orders.merge(customers, on="customer_id", how="left")', 640)
    customer_fields = [field for field in customers.fields if field.name != "customer_id"]
    joined = builder.frame("joined", 1, orders.row_count, (*orders.fields, *customer_fields))
    keys = [EdgeSpec(None, "customer_id", "INDIRECT", "JOIN", input_index=input_index) for input_index in (0, 1)]
    return builder.step(
        "merge",
        "join",
        [orders, customers],
        joined,
        [*identity_edges(orders.fields), *identity_edges(customer_fields, 1), *keys],
    )


def _add_paid(builder: RunBuilder, joined: DatasetState) -> DatasetState:
    builder.cell(
        "keep_paid", 'paid = joined[joined["status"] == "paid"]\npaid["revenue"] = paid["price"] * paid["qty"]', 88
    )
    first = builder.frame("paid", 1, 903_220, joined.fields)
    builder.step(
        "__getitem__",
        "selection",
        [joined],
        first,
        [*identity_edges(joined.fields), EdgeSpec(None, "status", "INDIRECT", "FILTER")],
    )
    second = builder.frame("paid", 2, 903_220, (*joined.fields, Field("revenue", "float64")))
    revenue_edges = [EdgeSpec("revenue", column, "DIRECT", "TRANSFORMATION") for column in ("price", "qty")]
    return builder.step(
        "__setitem__", "assignment", [first], second, [*identity_edges(joined.fields), *revenue_edges], line=2
    )


def _add_refunds(builder: RunBuilder, returns: DatasetState) -> DatasetState:
    builder.cell("sum_refunds", 'refunds = returns.groupby("order_id", as_index=False)["amount"].sum()', 12)
    refunds = builder.frame("refunds", 1, 30_988, "order_id:int64 amount:float64")
    amount_edges = [
        EdgeSpec("amount", "amount", "DIRECT", "AGGREGATION"),
        EdgeSpec("amount", "order_id", "INDIRECT", "GROUP_BY"),
    ]
    return builder.step("sum", "aggregation", [returns], refunds, [EdgeSpec("order_id", "order_id"), *amount_edges])


def _add_net(builder: RunBuilder, paid: DatasetState, refunds: DatasetState) -> DatasetState:
    builder.cell(
        "net_of_refunds",
        "# A refund belongs to the day of its order.\n"
        'net = paid.merge(refunds, on="order_id", how="left")\n'
        'net["net_revenue"] = net["revenue"] - net["amount"].fillna(0)',
        205,
    )
    first = builder.frame("net", 1, 903_220, (*paid.fields, Field("amount", "float64")))
    keys = [EdgeSpec(None, "order_id", "INDIRECT", "JOIN", input_index=input_index) for input_index in (0, 1)]
    amount = EdgeSpec("amount", "amount", input_index=1)
    builder.step("merge", "join", [paid, refunds], first, [*identity_edges(paid.fields), amount, *keys], line=2)
    second = builder.frame("net", 2, 903_220, (*first.fields, Field("net_revenue", "float64")))
    revenue_edges = [EdgeSpec("net_revenue", column, "DIRECT", "TRANSFORMATION") for column in ("revenue", "amount")]
    return builder.step(
        "__setitem__", "assignment", [first], second, [*identity_edges(first.fields), *revenue_edges], line=3
    )


def _add_margin(builder: RunBuilder) -> None:
    traceback = (
        "Traceback (most recent call last):\n  File \"orders.py\", cell 9, line 2, in <module>\nKeyError: 'cost'"
    )
    error = CellError("KeyError", "'cost'", traceback)
    source = '# The ERP has no costs before 2024.\nmargin = 1 - net["cost"] / net["net_revenue"]\nmargin.describe()'
    builder.cell("margin", source, 6, state="failed", error=error)


def _add_segments(builder: RunBuilder, net: DatasetState) -> DatasetState:
    builder.cell(None, 'net["segment"] = net.apply(segment_of, axis=1)', 371)
    labelled = builder.frame("net", 3, 903_220, (*net.fields, Field("segment", "string")))
    opaque_edge = EdgeSpec("segment", None, "DIRECT", "TRANSFORMATION", "opaque")
    return builder.step("__setitem__", "assignment", [net], labelled, [*identity_edges(net.fields), opaque_edge])


def _add_daily(builder: RunBuilder, net: DatasetState) -> DatasetState:
    sums = 'net_revenue=("net_revenue", "sum"), orders=("order_id", "count")'
    source = f'daily = net.groupby(["day", "country"], as_index=False).agg({sums})'
    builder.cell("by_day", source, 51)
    daily = builder.frame("daily", 1, 731, "day:date country:string net_revenue:float64 orders:int64")
    keys = [EdgeSpec("day", "day"), EdgeSpec("country", "country")]
    aggregates = [
        EdgeSpec("net_revenue", "net_revenue", "DIRECT", "AGGREGATION"),
        EdgeSpec("orders", "order_id", "DIRECT", "AGGREGATION"),
    ]
    groups = [EdgeSpec(None, column, "INDIRECT", "GROUP_BY") for column in ("day", "country")]
    return builder.step("agg", "aggregation", [net], daily, [*keys, *aggregates, *groups])


def trace_upstream(run: NotebookRun, state: DatasetState, column: str) -> LineageStep:
    """Return the upstream tree of a column, matched by version only: no cell of the sample runs twice."""
    return _trace_step(run, state.dataset, state.version, column, None, set())


def _trace_step(
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
    incoming = [e for e in run.edges if (e.dataset, e.version) == address[:2] and e.column in {column, None}]
    if is_repeated or (edge and edge.type == "INDIRECT"):
        return LineageStep(
            dataset, version, column, edge, operation, cell, (), is_repeated=is_repeated and bool(incoming)
        )
    seen.add(address)
    upstream = tuple(_trace_step(run, e.source, e.source_version, e.source_column, e, seen) for e in incoming)
    return LineageStep(dataset, version, column, edge, operation, cell, upstream)


def orders_page() -> RunPage:
    """Return the page of the sample with the upstream tree of the net revenue."""
    run = orders_run()
    return build_run_page(run, upstream=trace_upstream(run, run.writes[0], "net_revenue"))


if __name__ == "__main__":
    # python tests/e2e/page/orders_run.py > web/test/orders-page.json
    sys.stdout.buffer.write(msgspec.json.encode(orders_page()) + b"\n")
