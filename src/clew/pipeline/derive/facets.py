"""Current facets, tags and owners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from clew.events.facets import FacetOrder
from clew.lake.facet_parsers import OWNERS, TAGS, FacetExploder, explode_rows
from clew.pipeline.derive.scope import RefreshScope
from clew.pipeline.spark.dataframes import facet_rows

_NAME: Final = "name"
_VALUES: Final = ("seq", "event_time", "facet", "uuid", "large_facet_bytes")


class FacetTable(NamedTuple):
    """A table of current facets: its source and the columns that identify an entity."""

    source: str
    entity: tuple[str, ...]

    @property
    def current(self) -> str:
        """Name of the table of current facets."""
        return f"current_{self.source}"

    @property
    def deleted(self) -> str:
        """Name of the table of deleted facets, which are needed to merge late events."""
        return f"state_deleted_{self.source}"

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that identify a facet."""
        return (*self.entity, _NAME)


FACET_TABLES: Final = (
    FacetTable("run_facets", ("run_uuid",)),
    FacetTable("job_facets", ("job_namespace", "job_name")),
    FacetTable("dataset_facets", ("type", "dataset_namespace", "dataset_name", "dataset_version", "run_uuid")),
)


def new_facets(scope: RefreshScope, table: FacetTable, ranges: Sequence[tuple[int, int]]) -> DataFrame:
    """Read the facets of events within ranges of positions."""
    rows = facet_rows(scope.spark, scope.lake, table.source, ranges)
    if table.source == "run_facets":
        rows = rows.where(F.col("run_uuid").isNotNull())
    if table.source == "dataset_facets":
        # Null for DATASET facets, which belong to the dataset and not to a run.
        rows = rows.withColumn("run_uuid", F.when(F.col("type") != "DATASET", F.col("run_uuid")))
    is_inline = F.col("large_facet_bytes").isNull()
    return rows.select(
        *table.key,
        "seq",
        F.col("lineage_event_time").alias("event_time"),
        F.when(is_inline, F.col("facet")).alias("facet"),
        "uuid",
        "large_facet_bytes",
        _is_deleted().alias("is_deleted"),
    )


def _is_deleted() -> Column:
    # Both checks: the JSON path matches "true" as well, the pattern matches nested keys as well.
    matches_text = F.col("facet").rlike(r'"_deleted"\s*:\s*true')
    is_deleted = matches_text & F.get_json_object("facet", "$._deleted").eqNullSafe("true")
    return F.coalesce("is_deletion", is_deleted, F.lit(False))  # noqa: FBT003


def merge_new_facets(scope: RefreshScope, table: FacetTable, new: DataFrame) -> DataFrame:
    """Merge new facets with the existing ones of the same keys: the last facet of a name replaces earlier ones."""
    rows = new.unionByName(known_facets(scope, table, table.source, table.key))
    order = [F.col("seq"), F.coalesce("uuid", F.lit(""))]
    if scope.lake.facet_order is FacetOrder.EVENT_TIME:
        order.insert(0, F.col("event_time"))
    row = F.struct(*_VALUES, "is_deleted")
    last = rows.groupBy(*table.key).agg(F.max_by(row, F.struct(*order)).alias("last"))
    merged = last.select(*table.key, "last.*")
    return merged.withColumn("uuid", F.when(F.col("large_facet_bytes").isNotNull(), F.col("uuid")))


def known_facets(scope: RefreshScope, table: FacetTable, unit: str, columns: tuple[str, ...]) -> DataFrame:
    """Read the current and the deleted facets of touched entities."""
    if scope.units is None and unit == table.source:
        return scope.spark.createDataFrame([], facet_schema(scope, table))
    current = scope.rows(table.current, unit, *columns).withColumn("is_deleted", F.lit(False))  # noqa: FBT003
    deleted = scope.rows(table.deleted, unit, *columns).withColumn("is_deleted", F.lit(True))  # noqa: FBT003
    return current.unionByName(deleted)


def facet_schema(scope: RefreshScope, table: FacetTable) -> StructType:
    """Return the schema of merged facets."""
    types = {"seq": "bigint", "event_time": "timestamp", "large_facet_bytes": "bigint", "is_deleted": "boolean"}
    columns = (*table.key, *_VALUES, "is_deleted")
    text = ", ".join(f"{column} {types.get(column, 'string')}" for column in columns)
    return scope.spark.createDataFrame([], text).schema


class Label(NamedTuple):
    """A table with one row per item of a facet."""

    table: str
    facet: str
    kinds: tuple[str, ...]
    exploder: FacetExploder


LABELS: Final = (
    Label("tags", "tags", ("RUN", "JOB", "DATASET"), TAGS),
    Label("owners", "ownership", ("JOB", "DATASET"), OWNERS),
)
ENTITIES: Final = {
    "RUN": (FACET_TABLES[0], ("run_uuid",)),
    "JOB": (FACET_TABLES[1], ("job_namespace", "job_name")),
    "DATASET": (FACET_TABLES[2], ("dataset_namespace", "dataset_name")),
}


def label_columns(label: Label) -> list[str]:
    """Return the columns that identify the entities of a label."""
    return [column for kind in label.kinds for column in ENTITIES[kind][1]]


def derive_labels(scope: RefreshScope, label: Label, refs: DataFrame | None) -> DataFrame:
    """One row per item of the last facet of each run, job or dataset, of any version."""
    rows = reduce(DataFrame.unionByName, (_last_of_kind(scope, label, kind) for kind in label.kinds))
    if refs is not None:
        rows = (
            rows.join(refs, "uuid", how="left").withColumn("facet", F.coalesce("facet", "facet_ref")).drop("facet_ref")
        )
    return _explode(rows.drop("uuid"), label.exploder)


def _last_of_kind(scope: RefreshScope, label: Label, kind: str) -> DataFrame:
    table, identity = ENTITIES[kind]
    known = known_facets(scope, table, f"{label.table}_{kind}", identity).where(F.col(_NAME) == label.facet)
    if kind == "DATASET":
        known = known.where(F.col("type") == "DATASET")
    order = ["event_time", "seq"] if scope.lake.facet_order is FacetOrder.EVENT_TIME else ["seq"]
    row = F.struct("facet", "uuid", "seq", "is_deleted")
    last = known.groupBy(*identity).agg(F.max_by(row, F.struct(*order)).alias("last"))
    columns = [
        F.col(column) if column in identity else F.lit(None).cast("string").alias(column)
        for column in label_columns(label)
    ]
    present = last.where(~F.col("last.is_deleted"))
    return present.select(F.lit(kind).alias("kind"), *columns, "last.facet", "last.uuid", "last.seq")


def _explode(facets: DataFrame, exploder: FacetExploder) -> DataFrame:
    """Replace the facet column by one row per item of the facet."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Row by row: only one large facet is in memory at a time.
        for batch in batches:
            for position in range(batch.num_rows):
                yield explode_rows(batch.slice(position, 1), "facet", exploder)

    kept = [field for field in facets.schema.fields if field.name != "facet"]
    added = from_arrow_schema(pa.schema(list(exploder.columns))).fields
    return facets.mapInArrow(read, StructType([*kept, *added]))
