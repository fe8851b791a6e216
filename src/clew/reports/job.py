"""All reports on the lake of a home, in one go of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from clew.errors import ClewError
from clew.home import Home
from clew.lake.delta import Lake
from clew.lake.format import require_lake
from clew.lake.tables import DERIVED_TABLE_NAMES, KEPT_TABLE_NAMES
from clew.pipeline.saying import Say, silently
from clew.pipeline.session import session_for
from clew.reports.lake_reports import REPORTS, Made, write_contents, write_report
from clew.reports.lake_tables import LakeTables


def write_reports(
    home: Home,
    folder: Path,
    names: Sequence[str] = tuple(REPORTS),
    *,
    say: Say = silently,
    spark: SparkSession | None = None,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> list[Made]:
    """Write the pages of reports into a folder, and one that leads to them."""
    require_lake(home.lake)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise ClewError(
            f"{folder} cannot be made: {fault.strerror}.", hint="Name another folder with --out."
        ) from fault
    say("Starting Spark")
    session = session_for(home, spark, master=master, conf=conf)
    tables = LakeTables(session, Lake(home.lake), (*KEPT_TABLE_NAMES, *DERIVED_TABLE_NAMES))
    made = []
    for name in names:
        say(f"Making the report: {REPORTS[name].title}")
        made.append(write_report(name, tables, folder))
    write_contents(made, folder)
    return made
