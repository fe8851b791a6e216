"""The nine reports on a lake, and their pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.reports import cells, datasets
from clew.reports.lake_tables import Tables
from clew.reports.pages import document, paragraph, table
from clew.reports.plots import bars

_MOST_ROWS = 500
_MOST_BARS = 15


class Report(NamedTuple):
    """A question, the rows that answer it, and the plot: the sum of `measure`, or the number of rows, by `label`."""

    title: str
    question: str
    rows: Callable[[Tables], DataFrame]
    label: tuple[str, ...]
    measure: str | None
    unit: str


class Made(Struct, frozen=True):
    """A report that was made."""

    name: str
    title: str
    rows: int
    path: str


REPORTS: Final[Mapping[str, Report]] = {
    "performance": Report(
        "Performance", "Which cells cost most time?", cells.performance, ("notebook", "cell"), "total_ms", "ms"
    ),
    "debugging": Report(
        "Debugging",
        "Which cells failed, never ended or were slow?",
        cells.debugging,
        ("notebook", "cell"),
        None,
        "times",
    ),
    "audit": Report("Audit trail", "Who did what when, and with which data?", cells.audit, ("who",), None, "events"),
    "resources": Report(
        "Resource use",
        "How much memory did sessions take?",
        cells.resources,
        ("notebook", "session_id"),
        "peak_memory_mb",
        "MB",
    ),
    "governance": Report(
        "Governance", "What does each final dataset come from?", datasets.governance, ("dataset",), None, "sources"
    ),
    "schemas": Report(
        "Schema discovery",
        "Which columns are there, and since when?",
        datasets.schema_discovery,
        ("dataset",),
        None,
        "columns",
    ),
    "impact": Report(
        "Impact analysis",
        "What would a change of a source column reach?",
        datasets.impact,
        ("column",),
        None,
        "columns",
    ),
    "quality": Report(
        "Data quality",
        "How do the metrics of columns change?",
        datasets.quality,
        ("dataset", "column"),
        "null_share",
        "nulls",
    ),
    "documentation": Report(
        "Pipeline documentation",
        "What is there, and what does it do?",
        datasets.documentation,
        ("job",),
        "runs",
        "runs",
    ),
}


def write_report(name: str, tables: Tables, folder: Path) -> Made:
    """Make a report and write its page."""
    report = REPORTS[name]
    rows = report.rows(tables).cache()
    try:
        total, shown = rows.count(), rows.limit(_MOST_ROWS).collect()
        plotted = _plotted(rows, report).collect()
    finally:
        rows.unpersist()
    told = f"{report.question} {total:,} rows" + (f", the first {len(shown):,} shown." if total > len(shown) else ".")
    plot = bars([(row["label"], float(row["value"] or 0)) for row in plotted], report.unit)
    path = folder / f"{name}.html"
    path.write_text(document(report.title, paragraph(told), plot, table(rows.columns, shown)), encoding="utf-8")
    return Made(name, report.title, total, str(path))


def write_contents(made: list[Made], folder: Path) -> Path:
    """A page that leads to all others."""
    items = "".join(f'<li><a href="{Path(one.path).name}">{one.title}</a>: {one.rows:,} rows</li>\n' for one in made)
    path = folder / "index.html"
    path.write_text(document("Reports", f"<ul>\n{items}</ul>"), encoding="utf-8")
    return path


def _plotted(rows: DataFrame, report: Report) -> DataFrame:
    value = F.count("*") if report.measure is None else F.sum(report.measure)
    label = F.concat_ws(" ", *report.label)
    return (
        rows.groupBy(label.alias("label"))
        .agg(value.cast("double").alias("value"))
        .orderBy(F.desc_nulls_last("value"), "label")
        .limit(_MOST_BARS)
    )
