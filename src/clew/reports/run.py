"""Registry of the lake reports; write them as HTML pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.lake.lake import Lake
from clew.lake.manifest import require_lake
from clew.lake.schemas import DERIVED_TABLE_NAMES, SOURCE_TABLE_NAMES
from clew.pipeline.spark.dataframes import LakeTables, Tables
from clew.pipeline.spark.session import get_session
from clew.progress import ProgressCallback, no_progress
from clew.reports.html import render_bar_chart, render_page, render_paragraph, render_table
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

_MAX_ROWS = 500
_MAX_BARS = 15


class ReportDefinition(NamedTuple):
    """A report: its rows, and a plot of the sum of `measure` (or the row count) by `label`."""

    title: str
    question: str
    rows: Callable[[Tables], DataFrame]
    label: tuple[str, ...]
    measure: str | None
    unit: str


class WrittenReport(Struct, frozen=True):
    """A report page on disk."""

    name: str
    title: str
    rows: int
    path: str


REPORTS: Final[Mapping[str, ReportDefinition]] = {
    "performance": ReportDefinition(
        "Performance",
        "Which cells take the most time?",
        performance_report,
        ("notebook", "cell"),
        "total_ms",
        "ms",
    ),
    "debugging": ReportDefinition(
        "Debugging",
        "Which cells failed, never ended or were slow?",
        debugging_report,
        ("notebook", "cell"),
        None,
        "times",
    ),
    "audit": ReportDefinition(
        "Audit trail", "Who did what when, and with which data?", audit_report, ("actor",), None, "events"
    ),
    "resources": ReportDefinition(
        "Resource use",
        "How much memory did sessions use?",
        resources_report,
        ("notebook", "session_id"),
        "peak_memory_mb",
        "MB",
    ),
    "governance": ReportDefinition(
        "Governance",
        "What does each final dataset come from?",
        governance_report,
        ("dataset",),
        None,
        "sources",
    ),
    "schemas": ReportDefinition(
        "Schema discovery",
        "Which columns exist, and since when?",
        schema_report,
        ("dataset",),
        None,
        "columns",
    ),
    "impact": ReportDefinition(
        "Impact analysis",
        "What is affected by changing a source column?",
        impact_report,
        ("column",),
        None,
        "columns",
    ),
    "quality": ReportDefinition(
        "Data quality",
        "How do column metrics change?",
        quality_report,
        ("dataset", "column"),
        "null_share",
        "nulls",
    ),
    "documentation": ReportDefinition(
        "Pipeline documentation",
        "Which jobs exist, and what do they read and write?",
        documentation_report,
        ("job",),
        "runs",
        "runs",
    ),
}


def write_report(name: str, tables: Tables, folder: Path) -> WrittenReport:
    """Compute a report and write its page."""
    report = REPORTS[name]
    rows = report.rows(tables).cache()
    try:
        total, shown = rows.count(), rows.limit(_MAX_ROWS).collect()
        plot_rows = _aggregate_for_plot(rows, report).collect()
    finally:
        rows.unpersist()
    summary = f"{report.question} {total:,} rows" + (
        f", the first {len(shown):,} shown." if total > len(shown) else "."
    )
    plot = render_bar_chart([(row["label"], float(row["value"] or 0)) for row in plot_rows], report.unit)
    path = folder / f"{name}.html"
    path.write_text(
        render_page(report.title, render_paragraph(summary), plot, render_table(rows.columns, shown)), encoding="utf-8"
    )
    return WrittenReport(name, report.title, total, str(path))


def write_index_page(reports: list[WrittenReport], folder: Path) -> Path:
    """Write the page with links to all reports."""
    items = "".join(
        f'<li><a href="{Path(report.path).name}">{report.title}</a>: {report.rows:,} rows</li>\n' for report in reports
    )
    path = folder / "index.html"
    path.write_text(render_page("Reports", f"<ul>\n{items}</ul>"), encoding="utf-8")
    return path


def _aggregate_for_plot(rows: DataFrame, report: ReportDefinition) -> DataFrame:
    value = F.count("*") if report.measure is None else F.sum(report.measure)
    label = F.concat_ws(" ", *report.label)
    return (
        rows.groupBy(label.alias("label"))
        .agg(value.cast("double").alias("value"))
        .orderBy(F.desc_nulls_last("value"), "label")
        .limit(_MAX_BARS)
    )


def write_reports(
    home: DataDir,
    folder: Path,
    names: Sequence[str] = tuple(REPORTS),
    *,
    on_progress: ProgressCallback = no_progress,
    spark: SparkSession | None = None,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> list[WrittenReport]:
    """Write the report pages and an index page into a folder."""
    require_lake(home.lake)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClewError(
            f"{folder} cannot be created: {error.strerror}.", hint="Pass another folder with --out."
        ) from error
    on_progress("Starting Spark")
    session = get_session(home, spark, master=master, conf=conf, on_progress=on_progress)
    tables = LakeTables(session, Lake(home.lake), (*SOURCE_TABLE_NAMES, *DERIVED_TABLE_NAMES))
    reports = []
    for name in names:
        on_progress(f"Writing report: {REPORTS[name].title}")
        reports.append(write_report(name, tables, folder))
    write_index_page(reports, folder)
    return reports
