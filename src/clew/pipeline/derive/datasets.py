"""Datasets, dataset versions and canonical names."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from clew.events.facets import DROP, Name, resolve_aliases
from clew.pipeline.derive.scope import DATASET, DECLARED, RUN, RefreshScope, times

_NAME = ("namespace", "name")
_DATASET = ("dataset_namespace", "dataset_name")
_ALIASES = pa.schema([(name, pa.string()) for name in (*_NAME, "canonical_namespace", "canonical_name")])
_MERGE_COLUMNS = ("current_version_seq", "description_order_time", "description_seq")


def derive_datasets(scope: RefreshScope) -> DataFrame:
    """One row per dataset name as reported, with its canonical name, description and lifecycle."""
    datasets = scope.rows("state_datasets", DATASET, *_NAME).drop(*_MERGE_COLUMNS)
    renames = scope.rows("state_renames", DATASET, *_NAME).select(
        *_NAME, "renamed_at", F.col("last_seq").alias("renamed_seq")
    )
    aliases = F.broadcast(scope.aliases)
    joined = datasets.join(renames, list(_NAME), how="left").join(aliases, list(_NAME), how="left")
    rows = joined.withColumns(
        {
            "canonical_namespace": F.coalesce("canonical_namespace", "namespace"),
            "canonical_name": F.coalesce("canonical_name", "name"),
            "current_version": F.nullif("current_version", F.lit("")),
            "is_deleted": _is_deleted(),
        }
    ).drop("renamed_at", "renamed_seq")
    return times(rows, "first_event_at", "last_event_at", "written_at", "lifecycle_at")


def _is_deleted() -> Column:
    """Return whether a dataset was dropped or renamed, and neither written nor changed since."""
    written, changed = _order_key("written_at", "written_seq"), _order_key("lifecycle_at", "lifecycle_seq")
    renamed = _order_key("renamed_at", "renamed_seq")
    # The event that drops a dataset may list it as output.
    is_dropped = (F.col("lifecycle_state") == DROP) & (written.isNull() | (changed >= written))
    is_renamed = (written.isNull() | (renamed > written)) & (changed.isNull() | (renamed > changed))
    is_deleted = is_dropped | (renamed.isNotNull() & is_renamed)
    return F.coalesce(is_deleted, F.lit(False))  # noqa: FBT003


def _order_key(at: str, seq: str) -> Column:
    return F.when(F.col(at).isNotNull(), F.struct(F.col(at).alias("at"), F.col(seq).alias("seq")))


def derive_written_versions(scope: RefreshScope) -> DataFrame:
    """One row per completed write of a dataset."""
    # Outputs of a run with and without a version are one write: early events may lack the version.
    of_dataset = Window.partitionBy("run_uuid", *_DATASET)
    outputs = scope.rows("run_io", RUN, "run_uuid").where(F.col("direction") == "OUTPUT")
    has_version = F.max(F.col("dataset_version").isNotNull()).over(of_dataset)
    completed = scope.rows("runs", RUN, "run_uuid").where(F.col("state") == "COMPLETED")
    return (
        outputs.withColumn("has_version", has_version)
        .where(~F.col("has_version") | F.col("dataset_version").isNotNull())
        .drop("job_namespace", "job_name")
        .join(completed.select("run_uuid", "job_namespace", "job_name", "ended_at"), "run_uuid", how="inner")
        .select(
            *_DATASET,
            F.col("dataset_version").alias("version"),
            "run_uuid",
            "job_namespace",
            "job_name",
            F.col("ended_at").alias("created_at"),
            "schema_id",
            F.lit(None).cast("string").alias("lifecycle_state"),
            "row_count",
            "last_seq",
        )
    )


def derive_declared_versions(scope: RefreshScope) -> DataFrame:
    """One row per dataset, schema and lifecycle state that DatasetEvents declare."""
    declared = times(scope.rows("state_dataset_declarations", DECLARED, *_DATASET), "created_at")
    nothing = F.lit(None).cast("string")
    return declared.select(
        *_DATASET,
        "version",
        *(nothing.alias(column) for column in ("run_uuid", "job_namespace", "job_name")),
        "created_at",
        F.nullif("schema_id", F.lit("")).alias("schema_id"),
        F.nullif("lifecycle_state", F.lit("")).alias("lifecycle_state"),
        F.lit(None).cast("long").alias("row_count"),
        "last_seq",
    )


def derive_dataset_aliases(scope: RefreshScope) -> DataFrame:
    """One row per name of a dataset with several names, with its canonical name."""
    # One partition: connected components need all names.
    symlinks = scope.all_rows("state_symlinks").select(*_NAME, "identifiers").coalesce(1)
    return symlinks.mapInArrow(_resolve_aliases, from_arrow_schema(_ALIASES))


def _resolve_aliases(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    canonical_names = resolve_aliases(pair for batch in batches for pair in _pairs(batch))
    rows = [(*name, *canonical) for name, canonical in canonical_names.items()]
    columns = list(zip(*rows, strict=True)) or [()] * len(_ALIASES)
    yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=_ALIASES)


def _pairs(batch: pa.RecordBatch) -> Iterator[tuple[Name, Name]]:
    for row in batch.to_pylist():
        for namespace, name in json.loads(row["identifiers"]):
            yield (row["namespace"], row["name"]), (namespace, name)


def with_canonical_names(rows: DataFrame, aliases: DataFrame, *prefixes: str) -> DataFrame:
    """Replace names by canonical names in the columns `<prefix>_namespace` and `<prefix>_name`."""
    for prefix in prefixes:
        namespace, name = f"{prefix}_namespace", f"{prefix}_name"
        renamed = aliases.withColumnsRenamed({"namespace": namespace, "name": name})
        # Few datasets have several names: broadcast.
        rows = (
            rows.join(F.broadcast(renamed), [namespace, name], how="left")
            .withColumns(
                {namespace: F.coalesce("canonical_namespace", namespace), name: F.coalesce("canonical_name", name)}
            )
            .drop("canonical_namespace", "canonical_name")
        )
    return rows
