"""Tests of the nine reports, each on a few rows of its tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.lake.lake import Lake
from clew.reports.run import REPORTS, write_report, write_reports
from clew.reports.tables import (
    audit_report,
    debugging_report,
    documentation_report,
    governance_report,
    impact_report,
    performance_report,
    quality_report,
    resources_report,
    schema_report,
)

Tables = dict[str, DataFrame]

_CELLS = """session_id string, execution_id string, notebook string, cell_id string, cell_name string, state string,
started_at timestamp, duration_ms double, start_memory_mb double, end_memory_mb double, error_type string,
error_message string"""
_RUNTIME = """event_time timestamp, session_id string, notebook string, cell_name string, cell_id string,
event_type string, seq long"""
_EVENTS = """event_time timestamp, session_id string, job_namespace string, job_name string, kind string,
event_type string, inputs array<struct<namespace: string, name: string>>,
outputs array<struct<namespace: string, name: string>>, seq long"""
_DATASET_EDGES = "dataset_namespace string, dataset_name string, source_namespace string, source_name string"
_COLUMN_EDGES = f"{_DATASET_EDGES}, column string, source_column string, type string"
_FACETS = """dataset_namespace string, dataset_name string, name string, facet string, lineage_event_time timestamp,
seq long"""
_IO = "run_uuid string, dataset_namespace string, dataset_name string, schema_id string, last_seq long"
_RUNS = """run_uuid string, job_namespace string, job_name string, state string, first_event_at timestamp,
last_event_at timestamp"""
_JOBS = "namespace string, name string, job_type string, description string"
_JOB_EDGES = "job_namespace string, job_name string, direction string, dataset_name string"


def make_time(minute: int) -> datetime:
    return datetime(2026, 1, 1, 10, minute, tzinfo=UTC)


def make_cell(number: int, name: str, duration: float | None, state: str = "completed", *error: str) -> tuple[Any, ...]:
    error_columns = error or (None, None)
    return (
        "s1",
        f"e{number}",
        "book.py",
        name,
        name,
        state,
        make_time(number),
        duration,
        100.0 + number,
        101.0 + number,
        *error_columns,
    )


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    def create_table(schema: str, *rows: tuple[Any, ...]) -> DataFrame:
        return spark.createDataFrame(list(rows), schema).coalesce(1)

    metrics = [{"rowCount": 100, "columnMetrics": {"price": {"nullCount": nulls, "max": 9.5}}} for nulls in (0, 25)]
    fields = (
        json.dumps([{"name": "id", "type": "int"}]),
        json.dumps([{"name": "id", "type": "long"}, {"name": "price"}]),
    )
    return {
        "cell_executions": create_table(
            _CELLS,
            make_cell(1, "load", 20.0),
            make_cell(2, "load", 22.0),
            make_cell(3, "load", 90.0),
            make_cell(4, "fit", 5.0, "failed", "KeyError", "'x'"),
            make_cell(5, "late", None, "lost"),
        ),
        "runtime_events": create_table(
            _RUNTIME, (make_time(1), "s1", "book.py", "load", "A", "cell_execution_start", 1)
        ),
        "lineage_events": create_table(
            _EVENTS, (make_time(2), "s1", "n", "job", "RUN", "COMPLETE", [("f", "/a")], [("f", "/b"), ("f", "/c")], 2)
        ),
        "dataset_edges": create_table(
            f"{_DATASET_EDGES}, job_namespace string, job_name string",
            *((*edge, "n", "job") for edge in (("f", "b", "f", "a"), ("f", "c", "f", "b"), ("f", "d", "f", "c"))),
            ("f", "b", "f", "b2", "n", "job"),
        ),
        "column_edges": create_table(
            _COLUMN_EDGES,
            ("f", "b", "f", "a", "total", "price", "DIRECT"),
            ("f", "c", "f", "b", "sum", "total", "DIRECT"),
            ("f", "c", "f", "a", "sum", "day", "INDIRECT"),
            ("f", "a", "f", "c", "price", "sum", "DIRECT"),
            ("f", "b", "f", "z", "rate", "rate", "DIRECT"),
        ),
        "dataset_facets": create_table(
            _FACETS,
            ("f", "a", "dataQualityMetrics", json.dumps(metrics[0]), make_time(1), 1),
            ("f", "a", "dataQualityMetrics", json.dumps(metrics[1]), make_time(2), 2),
            ("f", "a", "schema", "{}", make_time(2), 2),
        ),
        "run_io": create_table(_IO, ("r1", "f", "a", "s1", 1), ("r2", "f", "a", "s2", 2), ("r2", "f", "b", None, 2)),
        "schemas": create_table("schema_id string, fields string", ("s1", fields[0]), ("s2", fields[1])),
        "runs": create_table(
            _RUNS,
            ("r1", "n", "job", "FAILED", make_time(1), make_time(2)),
            ("r2", "n", "job", "COMPLETED", make_time(3), make_time(4)),
        ),
        "jobs": create_table(_JOBS, ("n", "job", "BATCH", "Adds up."), ("n", "other", None, None)),
        "job_edges": create_table(
            _JOB_EDGES, ("n", "job", "INPUT", "a"), ("n", "job", "OUTPUT", "b"), ("n", "job", "INPUT", "z")
        ),
    }


CASES: dict[str, tuple[Callable[[Tables], DataFrame], tuple[str, ...], list[tuple[Any, ...]]]] = {
    "performance": (
        performance_report,
        ("cell", "executions", "median_ms", "max_ms", "total_ms"),
        [("load", 3, 22.0, 90.0, 132.0), ("fit", 1, 5.0, 5.0, 5.0)],
    ),
    "debugging": (
        debugging_report,
        ("cell", "issue", "duration_ms", "median_ms", "error"),
        [
            ("late", "lost", None, None, ""),
            ("fit", "failed", 5.0, 5.0, "KeyError: 'x'"),
            ("load", "slow", 90.0, 22.0, ""),
        ],
    ),
    "audit": (
        audit_report,
        ("actor", "action", "read", "wrote"),
        [("book.py load", "cell start", "", ""), ("n job", "run complete", "/a", "/b, /c")],
    ),
    "resources": (
        resources_report,
        ("session_id", "cells", "cell_seconds", "peak_memory_mb", "memory_increase_mb"),
        [("s1", 5, 0.137, 106.0, 5.0)],
    ),
    "governance": (
        governance_report,
        ("dataset", "source", "distance"),
        [("f:d", "f:c", 1), ("f:d", "f:b", 2), ("f:d", "f:a", 3), ("f:d", "f:b2", 3)],
    ),
    "schemas": (
        schema_report,
        ("dataset", "column", "type", "type_count", "first_seen", "is_current"),
        [("f:a", "id", "long", 2, make_time(1), True), ("f:a", "price", None, 0, make_time(3), True)],
    ),
    "impact": (impact_report, ("column", "affected", "distance"), [("f:z.rate", "f:b.rate", 1)]),
    "quality": (
        quality_report,
        ("dataset", "column", "rows", "null_share", "max", "null_share_change", "row_change"),
        [("f:a", "price", 100, 0.0, 9.5, None, None), ("f:a", "price", 100, 0.25, 9.5, 0.25, 0)],
    ),
    "documentation": (
        documentation_report,
        ("job", "type", "description", "reads", "writes", "runs", "failed", "last_state"),
        [
            ("n job", "BATCH", "Adds up.", "a, z", "b", 2, 1, "COMPLETED"),
            ("n other", None, None, None, None, None, None, None),
        ],
    ),
}


@pytest.mark.parametrize(("report", "columns", "expected"), CASES.values(), ids=CASES)
def test_report_rows(
    report: Callable[[Tables], DataFrame], columns: tuple[str, ...], expected: list[tuple[Any, ...]], tables: Tables
) -> None:
    rows = report(tables).select(*columns).collect()
    assert [tuple(_with_utc(value) for value in row) for row in rows] == expected


def _with_utc(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def test_every_report_is_tested() -> None:
    assert list(CASES) == list(REPORTS)


def test_writes_a_report_with_its_plot(tables: Tables, tmp_path: Path) -> None:
    report = write_report("governance", tables, tmp_path)
    page = Path(report.path).read_text()
    assert (report.name, report.rows) == ("governance", 4)
    assert "<svg " in page
    assert "4 sources</text>" in page
    assert "<td>f:b2</td><td>3</td>" in page


def test_reports_missing_derived_tables(tmp_path: Path, spark: SparkSession) -> None:
    home = DataDir(tmp_path)
    Lake(home.lake).create_or_validate()
    with pytest.raises(ClewError, match="has no table cell_executions yet"):
        write_reports(home, tmp_path / "out", spark=spark)
