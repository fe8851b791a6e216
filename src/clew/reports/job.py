"""Write reports on the lake of a data directory in one Spark session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from clew.errors import ClewError
from clew.home import DataDir
from clew.lake.delta import Lake
from clew.lake.format import require_lake
from clew.lake.tables import DERIVED_TABLE_NAMES, SOURCE_TABLE_NAMES
from clew.pipeline.saying import ProgressCallback, no_progress
from clew.pipeline.session import get_session
from clew.reports.lake_reports import REPORTS, WrittenReport, write_index_page, write_report
from clew.reports.lake_tables import LakeTables


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
    session = get_session(home, spark, master=master, conf=conf)
    tables = LakeTables(session, Lake(home.lake), (*SOURCE_TABLE_NAMES, *DERIVED_TABLE_NAMES))
    reports = []
    for name in names:
        on_progress(f"Writing report: {REPORTS[name].title}")
        reports.append(write_report(name, tables, folder))
    write_index_page(reports, folder)
    return reports
