"""Parsed and exploded facets; current facets, tags, owners, schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from clew.events.facets import ROW_COUNT_FACETS, ROW_COUNT_KEY
from clew.lake.facet_parsers import (
    OWNERS,
    REF_MARKER,
    ROW_COUNT,
    SCHEMA,
    SCHEMA_ID,
    TAGS,
    FacetExploder,
    FacetParser,
    explode_rows,
    parse_columns,
)


def parse_facets(facets: DataFrame, parsers: Mapping[str, FacetParser]) -> DataFrame:
    """Replace facet columns by their parsed columns."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (parse_columns(part, parsers) for batch in batches for part in _split_at_large_facets(batch, parsers))

    columns = [column for parser in parsers.values() for column in parser.columns]
    return facets.mapInArrow(read, _schema(facets, set(parsers), columns))


def explode_facet(facets: DataFrame, column: str, exploder: FacetExploder) -> DataFrame:
    """Replace a facet column by one row per item of the facet."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (
            explode_rows(part, column, exploder)
            for batch in batches
            for part in _split_at_large_facets(batch, [column])
        )

    return facets.mapInArrow(read, _schema(facets, {column}, list(exploder.columns)))


def _split_at_large_facets(batch: pa.RecordBatch, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Split a batch after each row with a large facet, so that only one is in memory at a time."""
    are_refs = [pc.match_substring(batch.column(column), REF_MARKER).fill_null(False) for column in columns]  # noqa: FBT003
    cuts = [index + 1 for index in pc.indices_nonzero(reduce(pc.or_, are_refs)).to_pylist()]
    for start, end in pairwise(sorted({0, *cuts, batch.num_rows})):
        yield batch.slice(start, end - start)


def _schema(rows: DataFrame, dropped: set[str], added: list[tuple[str, pa.DataType]]) -> StructType:
    retained = [field for field in rows.schema.fields if field.name not in dropped]
    return StructType([*retained, *from_arrow_schema(pa.schema(added)).fields])


def derive_current_run_facets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run and facet name."""
    return _last_facets(tables["run_facets"].where(F.col("run_uuid").isNotNull()), "run_uuid")


def derive_current_job_facets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job and facet name."""
    return _last_facets(tables["job_facets"], "job_namespace", "job_name")


def derive_current_dataset_facets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset, version and facet name; input and output facets belong to one run."""
    # Null for DATASET facets, which belong to the dataset and not to a run.
    run_uuid = F.when(F.col("type") != "DATASET", F.col("run_uuid"))
    facets = tables["dataset_facets"].withColumn("run_uuid", run_uuid)
    return _last_facets(facets, "type", "dataset_namespace", "dataset_name", "dataset_version", "run_uuid")


def _last_facets(facets: DataFrame, *entity: str) -> DataFrame:
    # Spec: a facet replaces an earlier one of the same name as a whole, without a deep merge.
    is_inline = F.col("large_facet_bytes").isNull()
    row = F.struct(
        "seq",
        F.col("lineage_event_time").alias("event_time"),
        F.when(is_inline, F.col("facet")).alias("facet"),
        F.when(~is_inline, F.col("uuid")).alias("uuid"),
        "large_facet_bytes",
        "is_deletion",
    )
    last = F.max_by(row, F.struct("precedence", "uuid")).alias("last")
    current = facets.groupBy(*entity, "name").agg(last).select(*entity, "name", "last.*")
    return current.where(~_is_deleted()).drop("is_deletion")


def _is_deleted() -> Column:
    # Both checks: the JSON path matches "true" as well, the pattern matches nested keys as well.
    matches_text = F.col("facet").rlike(r'"_deleted"\s*:\s*true')
    is_deleted = matches_text & F.get_json_object("facet", "$._deleted").eqNullSafe("true")
    return F.coalesce("is_deletion", is_deleted, F.lit(False))  # noqa: FBT003


_IDENTITIES = {
    "RUN": ("run_facets", ("run_uuid",)),
    "JOB": ("job_facets", ("job_namespace", "job_name")),
    "DATASET": ("dataset_facets", ("dataset_namespace", "dataset_name")),
}


def derive_tags(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per tag of a run, of a job, of a dataset or of its column."""
    return explode_facet(_last_named_facet(tables, "tags", "RUN", "JOB", "DATASET"), "facet", TAGS)


def derive_owners(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per owner of a job or a dataset."""
    return explode_facet(_last_named_facet(tables, "ownership", "JOB", "DATASET"), "facet", OWNERS)


def _last_named_facet(tables: Mapping[str, DataFrame], name: str, *kinds: str) -> DataFrame:
    """Return the last facet of that name of each run, job or dataset, of any version."""
    columns = [column for kind in kinds for column in _IDENTITIES[kind][1]]
    return reduce(DataFrame.unionByName, (_last_of_kind(tables, kind, name, columns) for kind in kinds))


def _last_of_kind(tables: Mapping[str, DataFrame], kind: str, name: str, columns: Iterable[str]) -> DataFrame:
    table, key_columns = _IDENTITIES[kind]
    # Of several facets in one event the last wins: the uuid ends with the position in the event.
    last = [F.max_by(column, F.struct("precedence", "uuid")).alias(column) for column in ("facet", "seq")]
    named = tables[table].where((F.col("name") == name) & _belongs(kind)).groupBy(*key_columns)
    identity = [
        F.col(column) if column in key_columns else F.lit(None).cast("string").alias(column) for column in columns
    ]
    return named.agg(*last).select(F.lit(kind).alias("kind"), *identity, "facet", "seq")


def _belongs(kind: str) -> Column:
    return F.col("type") == "DATASET" if kind == "DATASET" else F.col(_IDENTITIES[kind][1][0]).isNotNull()


_KEY = ["run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version"]


def io_schema_and_row_count(dataset_facets: DataFrame) -> DataFrame:
    """One row per run, direction, dataset and version with the latest schema and row count."""
    name, facet = F.col("name"), F.col("facet")
    is_schema = (name == "schema") & (F.col("type") == "DATASET")
    is_count = name.isin(*ROW_COUNT_FACETS) & F.coalesce("has_row_count", facet.contains(ROW_COUNT_KEY))
    # Of several facets in one event the last wins: the uuid ends with the position in the event.
    order = {
        name: F.when(condition, F.struct("precedence", "uuid"))
        for name, condition in (("schema", is_schema), ("count", is_count))
    }
    last = (
        dataset_facets.where(F.col("run_uuid").isNotNull() & F.col("direction").isNotNull() & (is_schema | is_count))
        .groupBy(*_KEY)
        .agg(
            *(F.max_by("facet", key).alias(name) for name, key in order.items()),
            F.max_by("seq", order["schema"]).alias("schema_seq"),
            F.max_by("seq", order["count"]).alias("row_count_seq"),
        )
    )
    return parse_facets(last, {"schema": SCHEMA_ID, "count": ROW_COUNT})


def derive_schemas(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per distinct schema."""
    is_schema = (F.col("name") == "schema") & (F.col("type") == "DATASET")
    bodies = tables["dataset_facets"].where(is_schema).select("facet").distinct()
    return parse_facets(bodies, {"facet": SCHEMA}).where(F.col("schema_id").isNotNull()).distinct()
