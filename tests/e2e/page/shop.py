"""Sample data directory, filled without Spark: two runs of the demo notebook and daily jobs of a shop.

`python tests/e2e/page/shop.py FOLDER` creates one for `clew serve --home FOLDER`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec
import pyarrow as pa

from clew.capture.launch import capture_notebook
from clew.collector.file_import import import_streams
from clew.data_dir import DataDir
from clew.eventlog.segments import end_position, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.index.writer import IndexWriter
from clew.lake.lake import BatchId, Lake
from clew.lake.schemas import EVENT_TABLES

WAREHOUSE = "postgres://wh:5432"
LONG_NAME = "a_very_long_name_" * 24
NAMES = {"long": LONG_NAME[:400], "emoji": "🧵 orders 🧶", "right to left": "الإيرادات الصافية"}
DAYS = 14
_START = datetime.now(UTC).replace(microsecond=0) - timedelta(days=DAYS)
_PRODUCER = "https://example.com/shop"
_SCHEMA_URL = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"

Json = dict[str, Any]


def fill(home: DataDir, *, has_notebook: bool = True) -> None:
    """Append all events to the log and ingest it into lake and index."""
    home.create()
    if has_notebook:
        capture_twice(home)
    with LogWriter(home.log) as log:
        import_streams(home.streams, log)
        log.append(IncomingEvent(Stream.OPENLINEAGE, "shop", json.dumps(event).encode()) for event in events())
        log.append(
            [
                IncomingEvent(Stream.OPENLINEAGE, "shop", b'{"eventType": "COMPLETE"}'),
                IncomingEvent(Stream.OPENLINEAGE, "shop", b"{"),
            ]
        )
    ingest(home)


def capture_twice(home: DataDir) -> None:
    """Capture the demo notebook twice, the second time with another filter."""
    folder = home.root / "demo"
    folder.mkdir(exist_ok=True)
    source = (files("clew.demo") / "orders.py").read_text()
    changed = source.replace('orders["status"] == "paid"', 'orders["price"] > 60')
    if changed == source:
        raise AssertionError("The demo notebook no longer filters by status: replace another line here.")
    for text in (source, changed):
        (folder / "orders.py").write_text(text)
        capture_notebook(folder / "orders.py", home.streams, env={**os.environ, "CLEW_DEMO_DATA": str(folder)})


def ingest(home: DataDir) -> None:
    """Ingest the log into lake and index with the pipeline's worker, as one batch."""
    from clew.pipeline.worker_reports import WorkerReport
    from clew.pipeline.workers import EventTask, read_log_events

    lake = Lake(home.lake)
    lake.create_or_validate()
    parts = [asdict(log_range) for log_range in split_ranges(home.log, 0, end_position(home.log), 1 << 30)]
    (row,) = EventTask(str(home.lake), read_log_events)(iter([pa.RecordBatch.from_pylist(parts)]))
    (path,) = row["path"].to_pylist()
    report = msgspec.msgpack.decode(Path(path).read_bytes(), type=WorkerReport)
    for table in EVENT_TABLES:
        table_files = [file for file in report.files if file.table == table.name]
        lake.append(table.name, table.schema, table_files, BatchId("shop", 0))
    with IndexWriter(home.index) as writer:
        writer.apply("shop/0", report.changes)


def events() -> Iterator[Json]:
    """Yield the events of fourteen days: costs and revenue, a margin, and a report that fails on some days."""
    for day in range(DAYS):
        time = _START + timedelta(days=day, hours=2)
        yield from _run("dbt", "erp.allocate", time, 12 + day, [_table("erp.costs", COSTS)], [_allocated_table(day)])
        yield from _run(
            "airflow",
            "finance.load_daily",
            time + timedelta(minutes=5),
            38,
            [_table_reference("erp.allocated"), _table("shop.revenue", REVENUE)],
            [_margin_table(day)],
            job={"sql": {"query": SQL}, "ownership": {"owners": [{"name": "team:finance", "type": "MAINTAINER"}]}},
        )
        yield from _run(
            "airflow",
            "bi.refresh",
            time + timedelta(minutes=9),
            20,
            [_table_reference("finance.margin")],
            [
                _table(
                    "bi.dashboard",
                    {"margin_pct": "numeric"},
                    {"margin_pct": [("finance.margin", "margin_pct", "IDENTITY")]},
                )
            ],
            error=None if day % 6 != 5 else "relation bi.dashboard is locked",
        )
    time = _START + timedelta(days=DAYS - 1, hours=1)
    for number in range(11):
        name = f"report.consumer_{number:02}"
        yield from _run(
            "airflow",
            name,
            time,
            3,
            [_table_reference("finance.margin")],
            [_table(f"report.out_{number:02}", {"x": "int"})],
        )
    for name in NAMES.values():
        yield from _run(
            "odd",
            name,
            time,
            1,
            [_table(name, {name: "text"})],
            [_table(f"{name} out", {name: "text"}, {name: [(name, name, "IDENTITY")]})],
        )
    wide = {f"column_{number:04}": "float" for number in range(3000)}
    yield from _run(
        "odd",
        "widen",
        time,
        1,
        [_table("wide.source", wide)],
        [_table("wide.target", wide, {c: [("wide.source", c, "IDENTITY")] for c in wide})],
    )


COSTS = {"day": "date", "item": "text", "cost": "numeric"}
ALLOCATED = {"day": "date", "cost": "numeric"}
REVENUE = {"day": "date", "revenue": "numeric", "orders": "int"}
MARGIN = {"day": "date", "revenue": "numeric", "cost": "numeric", "margin_pct": "numeric"}
SQL = """-- the margin of each day
insert into finance.margin
select r.day, r.revenue, coalesce(c.cost, 0) as cost, 1 - c.cost / r.revenue as margin_pct
from shop.revenue r join erp.allocated c on c.day = r.day
where r.revenue > 0"""

_Sources = dict[str, list[tuple[str, str, str]]]


def _allocated_table(day: int) -> Json:
    sources = {
        "day": [("erp.costs", "day", "IDENTITY")],
        "cost": [("erp.costs", "cost", "AGGREGATION"), ("erp.costs", "item", "GROUP_BY")],
    }
    return _table("erp.allocated", ALLOCATED, sources, rows=200 + day)


def _margin_table(day: int) -> Json:
    sources = {
        "day": [("shop.revenue", "day", "IDENTITY")],
        "revenue": [("shop.revenue", "revenue", "IDENTITY")],
        "cost": [("erp.allocated", "cost", "TRANSFORMATION")],
        "margin_pct": [
            ("erp.allocated", "cost", "TRANSFORMATION"),
            ("shop.revenue", "revenue", "TRANSFORMATION"),
            ("shop.revenue", "day", "JOIN"),
        ],
    }
    # One more column from the tenth day on, so that versions and runs differ.
    columns = MARGIN | ({"orders": "int"} if day > 9 else {})
    rows = 1000 + 37 * day - 200 * (day == 8)
    table = _table("finance.margin", columns, sources, rows=rows)
    metrics = {
        "rowCount": rows,
        "columnMetrics": {"margin_pct": {"nullCount": 3 + day, "min": 0.02, "max": 0.71}},
    }
    assertions = [
        {"assertion": "not_null", "column": "day", "success": True},
        {"assertion": "positive", "column": "cost", "success": day % 5 != 4},
    ]
    table["facets"] |= {
        "documentation": {"description": "What is left of each day's revenue."},
        "tags": {
            "tags": [
                {"key": "tier", "value": "gold", "source": "manual"},
                {"key": "pii", "value": "false", "field": "day"},
            ]
        },
        "ownership": {"owners": [{"name": "team:finance", "type": "OWNER"}]},
        "dataQualityAssertions": {"assertions": assertions},
        "dataQualityMetrics": metrics,
        "shop_freshness": {"minutes": 12, "checks": [{"name": "late", "passed": True}]},
    }
    table["outputFacets"]["dataQualityMetrics"] = metrics
    return table


def _table(name: str, columns: dict[str, str], sources: _Sources | None = None, rows: int | None = None) -> Json:
    facets: Json = {
        "schema": {"fields": [{"name": column, "type": column_type} for column, column_type in columns.items()]}
    }
    if sources:
        fields = {
            column: {"inputFields": [_source(*source) for source in column_sources]}
            for column, column_sources in sources.items()
        }
        facets["columnLineage"] = {"fields": fields}
    output = {} if rows is None else {"outputStatistics": {"rowCount": rows, "size": rows * 120}}
    return {"namespace": WAREHOUSE, "name": name, "facets": facets, "outputFacets": output}


def _table_reference(name: str) -> Json:
    return {"namespace": WAREHOUSE, "name": name, "facets": {}}


def _source(name: str, column: str, subtype: str) -> Json:
    kind = "DIRECT" if subtype in {"IDENTITY", "TRANSFORMATION", "AGGREGATION"} else "INDIRECT"
    return {
        "namespace": WAREHOUSE,
        "name": name,
        "field": column,
        "transformations": [{"type": kind, "subtype": subtype}],
    }


def _run(
    namespace: str,
    name: str,
    start: datetime,
    seconds: int,
    inputs: list[Json],
    outputs: list[Json],
    *,
    error: str | None = None,
    job: Json | None = None,
) -> Iterator[Json]:
    run = str(uuid5(NAMESPACE_URL, f"{namespace} {name} {start.isoformat()}"))
    facets = {"errorMessage": {"message": error, "programmingLanguage": "PYTHON", "stackTrace": TRACE}} if error else {}
    for event_type, event_time in (
        ("START", start),
        ("FAIL" if error else "COMPLETE", start + timedelta(seconds=seconds)),
    ):
        yield {
            "eventType": event_type,
            "eventTime": event_time.isoformat(),
            "run": {"runId": run, "facets": facets if event_type == "FAIL" else {}},
            "job": {"namespace": namespace, "name": name, "facets": job or {}},
            "inputs": [{key: value for key, value in dataset.items() if key != "outputFacets"} for dataset in inputs],
            "outputs": outputs if event_type != "START" else [],
            "producer": _PRODUCER,
            "schemaURL": _SCHEMA_URL,
        }


TRACE = """Traceback (most recent call last):
  File "refresh.py", line 12, in refresh
    lock(table)
OperationalError: locked"""

if __name__ == "__main__":
    fill(DataDir(Path(sys.argv[1]).absolute()))
