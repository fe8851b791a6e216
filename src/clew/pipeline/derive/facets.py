"""Current facets, tags, owners and results of data quality tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from clew.events.facets import FacetOrder, QualityAssertion
from clew.lake.facet_columns import OWNERS, TAGS, FacetExploder, explode_rows
from clew.lake.scan import files_in_ranges
from clew.lake.schemas import LARGE_FACETS
from clew.pipeline.derive.scope import TESTER, RefreshScope, Unit, times
from clew.pipeline.spark.dataframes import facet_rows, locate_large_facets

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
    rows = new if scope.units is None else new.unionByName(known_facets(scope, table, table.source, table.key))
    order = [F.col("seq"), F.coalesce("uuid", F.lit(""))]
    if scope.lake.facet_order is FacetOrder.EVENT_TIME:
        order.insert(0, F.col("event_time"))
    row = F.struct(*_VALUES, "is_deleted")
    last = rows.groupBy(*table.key).agg(F.max_by(row, F.struct(*order)).alias("last"))
    merged = last.select(*table.key, "last.*")
    return merged.withColumn("uuid", F.when(F.col("large_facet_bytes").isNotNull(), F.col("uuid")))


def known_facets(scope: RefreshScope, table: FacetTable, unit: Unit, columns: tuple[str, ...]) -> DataFrame:
    """Read the current and the deleted facets of touched entities."""
    current = scope.rows(table.current, unit, *columns).withColumn("is_deleted", F.lit(False))  # noqa: FBT003
    deleted = scope.rows(table.deleted, unit, *columns).withColumn("is_deleted", F.lit(True))  # noqa: FBT003
    return current.unionByName(deleted)


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
_ENTITIES: Final = {
    "RUN": (FACET_TABLES[0], ("run_uuid",)),
    "JOB": (FACET_TABLES[1], ("job_namespace", "job_name")),
    "DATASET": (FACET_TABLES[2], ("dataset_namespace", "dataset_name")),
}


def label_columns(label: Label) -> list[str]:
    """Return the columns that identify the entities of a label."""
    return ["kind", *(column for kind in label.kinds for column in _ENTITIES[kind][1])]


def touched_facets(label: Label, units: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the keys of touched facets of a label by kind of entity, without the version of a dataset."""
    touched = {}
    for kind in label.kinds:
        table, identity = _ENTITIES[kind]
        keys = units[table.source]
        is_label = pc.equal(keys[_NAME], label.facet)
        if kind == "DATASET":
            is_label, identity = pc.and_(is_label, pc.equal(keys["type"], kind)), ("type", *identity)
        columns = [*identity, _NAME]
        touched[kind] = keys.filter(is_label).group_by(columns).aggregate([]).select(columns)
    return touched


def label_keys(label: Label, touched: Mapping[str, pa.Table]) -> pa.Table:
    """Return the keys of the entities with touched facets, as `label_columns`."""
    tables = []
    for kind, entities in touched.items():
        kinds, nulls = (pa.array([value] * entities.num_rows, pa.string()) for value in (kind, None))
        columns = {"kind": kinds, **dict(zip(entities.column_names, entities.columns, strict=True))}
        tables.append(pa.table({name: columns.get(name, nulls) for name in label_columns(label)}))
    return pa.concat_tables(tables)


def derive_labels(scope: RefreshScope, label: Label, touched: Mapping[str, pa.Table] | None) -> DataFrame:
    """One row per item of the last facet of each touched run, job or dataset, of any version; None means all."""
    rows = reduce(
        DataFrame.unionByName,
        (_last_of_kind(scope, label, kind, None if touched is None else touched[kind]) for kind in label.kinds),
    )
    large_files = _large_facet_files(scope, touched)
    if large_files:
        refs = locate_large_facets(scope.spark, large_files)
        rows = (
            rows.join(refs, "uuid", how="left").withColumn("facet", F.coalesce("facet", "facet_ref")).drop("facet_ref")
        )
    return _explode(rows.drop("uuid"), label.exploder)


def _large_facet_files(scope: RefreshScope, touched: Mapping[str, pa.Table] | None) -> list[str]:
    """Return the files of `large_facets` that may contain touched facets."""
    if touched is None:
        return scope.lake.files(LARGE_FACETS.name)
    positions: set[int] = set()
    for kind, keys in touched.items():
        current = _ENTITIES[kind][0].current
        rows = scope.arrow_rows(current, keys, keys.column_names, ("seq", "large_facet_bytes"))
        positions.update(rows.drop_null()["seq"].to_pylist())
    return files_in_ranges(scope.lake, LARGE_FACETS.name, [(position, position) for position in positions])


def _last_of_kind(scope: RefreshScope, label: Label, kind: str, touched: pa.Table | None) -> DataFrame:
    table, identity = _ENTITIES[kind]
    unit, columns = (table.source, ()) if touched is None else (touched, tuple(touched.column_names))
    known = known_facets(scope, table, unit, columns).where(F.col(_NAME) == label.facet)
    if kind == "DATASET":
        known = known.where(F.col("type") == "DATASET")
    order = ["event_time", "seq"] if scope.lake.facet_order is FacetOrder.EVENT_TIME else ["seq"]
    row = F.struct("facet", "uuid", "seq", "is_deleted")
    last = known.groupBy(*identity).agg(F.max_by(row, F.struct(*order)).alias("last"))
    columns_of_label = [
        F.col(column) if column in identity else F.lit(None).cast("string").alias(column)
        for column in label_columns(label)[1:]
    ]
    present = last.where(~F.col("last.is_deleted"))
    return present.select(F.lit(kind).alias("kind"), *columns_of_label, "last.facet", "last.uuid", "last.seq")


def derive_quality_assertions(scope: RefreshScope) -> DataFrame:
    """One row per test of a dataset by a run, a job or a DatasetEvent; of several facets with it, the latest counts."""
    facets = times(scope.rows("state_quality_assertions", TESTER, "asserted_by"), "event_time")
    items = F.explode(F.from_json("assertions", "array<array<string>>")).alias("item")
    fields = {name: F.col("item")[position] for position, name in enumerate(QualityAssertion._fields)}
    fields["success"] = fields["success"].cast("boolean")
    entity = ("asserted_by", "dataset_namespace", "dataset_name")
    key = (*entity, *QualityAssertion._fields[:4])
    values = ("run_uuid", "job_namespace", "job_name", "dataset_version", "event_time", "seq")
    results = QualityAssertion._fields[4:]
    # The results of a run count before those of the dataset in the same event.
    order = F.struct(F.coalesce("order_time", F.lit(0)), "seq", "facet_type")
    rows = facets.select(*entity, *values, order.alias("position"), items).withColumns(fields)
    last = F.max_by(F.struct(*values, *results), "position").alias("last")
    return rows.groupBy(*key).agg(last).select(*key, "last.*").drop("occurrence")


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
