"""Refresh of the derived tables from the event tables."""

from __future__ import annotations

from pyspark.sql import SparkSession

from clew.lake.facet_parsers import WIDE_EDGE_TEXT
from clew.lake.lake import Lake
from clew.lake.schemas import EVENT_TABLE_NAMES
from clew.pipeline.derive import CACHED_TABLES, DERIVED_TABLES, INTERMEDIATE_TABLES, TableCatalog
from clew.pipeline.progress import ProgressCallback, ProgressReporter, no_progress
from clew.pipeline.spark.dataframes import arrow_schema, event_dataframes, write_tables
from clew.pipeline.spark.session import translate_spark_errors, tuned_for


def refresh_derived_tables(spark: SparkSession, lake: Lake, on_progress: ProgressCallback = no_progress) -> bool:
    """Overwrite all derived tables; return False if they are up to date."""
    fingerprint = lake.source_fingerprint()
    if lake.is_up_to_date(fingerprint):
        return False
    progress = ProgressReporter(on_progress, "Refreshing derived tables", "tables")
    with translate_spark_errors(), tuned_for(spark, lake), table_catalog(spark, lake) as tables:
        derived = {name: tables[name] for name in DERIVED_TABLES}
        files = write_tables(derived, lake.root, progress)
    for name, rows in derived.items():
        lake.replace(
            name,
            arrow_schema(rows.drop(WIDE_EDGE_TEXT).schema),
            [file for file in files if file.table == name],
            fingerprint,
        )
    return True


def table_catalog(spark: SparkSession, lake: Lake) -> TableCatalog:
    """Return the catalog of event and derived tables; tables are built on first use."""
    # S3 tables are read once: Spark cannot prune columns of files that Python workers read.
    cached = CACHED_TABLES if lake.storage.is_local else CACHED_TABLES | set(EVENT_TABLE_NAMES)
    return TableCatalog(event_dataframes(spark, lake), {**INTERMEDIATE_TABLES, **DERIVED_TABLES}, cached)
