"""Datasets, dataset versions and canonical names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from clew.events.column_lineage import DATASET, JOB
from clew.events.facets import DROP, LIFECYCLE_FACET, SYMLINKS_FACET, Name, resolve_aliases
from clew.lake.facet_parsers import DESCRIPTION, IDENTIFIERS, LIFECYCLE, LIFECYCLE_STATE, SCHEMA_ID
from clew.pipeline.derive.facets import explode_facet, parse_facets
from clew.pipeline.derive.io import reported_io

_KEY = ["namespace", "name"]
_CHANGE = ["lifecycle_state", "renamed_from_namespace", "renamed_from_name"]


def derive_datasets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset name as reported, with its canonical name, description and lifecycle."""
    references = parse_facets(_aggregate_references(tables), {"documentation": DESCRIPTION})
    renames = tables["renames"].select(*_KEY, "renamed_at", F.col("last_seq").alias("renamed_seq"))
    datasets = references.join(F.broadcast(tables["dataset_aliases"]), _KEY, how="left").join(
        F.broadcast(renames), _KEY, how="left"
    )
    return datasets.withColumns(
        {
            "canonical_namespace": F.coalesce("canonical_namespace", "namespace"),
            "canonical_name": F.coalesce("canonical_name", "name"),
            "is_deleted": _is_deleted(),
        }
    ).drop("renamed_at", "renamed_seq")


def derive_lifecycle_changes(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per lifecycle change in an event."""
    facets = tables["dataset_facets"].where((F.col("name") == LIFECYCLE_FACET) & (F.col("type") == "DATASET"))
    changes = facets.select(*_name(), "seq", "uuid", F.col("lineage_event_time").alias("event_time"), "facet")
    return parse_facets(changes, {"facet": LIFECYCLE}).where(F.col("lifecycle_state").isNotNull())


def derive_renames(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per renamed dataset with its new name."""
    before = {"from_namespace": F.col("renamed_from_namespace"), "from_name": F.col("renamed_from_name")}
    is_other = (F.col("from_namespace") != F.col("namespace")) | (F.col("from_name") != F.col("name"))
    last = F.max(F.struct("event_time", "seq", "uuid", "namespace", "name")).alias("last")
    renamed = tables["lifecycle_changes"].withColumns(before).where(is_other)
    return (
        renamed.groupBy("from_namespace", "from_name")
        .agg(last)
        .select(
            F.col("from_namespace").alias("namespace"),
            F.col("from_name").alias("name"),
            F.col("last.namespace").alias("to_namespace"),
            F.col("last.name").alias("to_name"),
            F.col("last.event_time").alias("renamed_at"),
            F.col("last.seq").alias("last_seq"),
        )
    )


def _aggregate_references(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Aggregate all references to one row per dataset."""
    event_order = F.struct("event_time", "seq")
    written = F.max(F.when(F.col("is_write"), event_order)).alias("written")
    version = F.max_by("dataset_version", F.when(F.col("is_write"), F.struct("seq", "dataset_version")))
    changed = F.max(F.when(F.col("lifecycle_state").isNotNull(), F.struct("event_time", "seq", "uuid", *_CHANGE)))
    described = F.max_by("documentation", F.when(F.col("documentation").isNotNull(), F.struct("precedence", "uuid")))
    datasets = (
        reduce(partial(DataFrame.unionByName, allowMissingColumns=True), _references(tables))
        .groupBy(*_KEY)
        .agg(
            F.min("event_time").alias("first_event_at"),
            F.max("event_time").alias("last_event_at"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
            version.alias("current_version"),
            written,
            changed.alias("changed"),
            described.alias("documentation"),
        )
    )
    return datasets.select(
        *_KEY,
        *("first_event_at", "last_event_at", "first_seq", "last_seq", "current_version"),
        F.col("written.event_time").alias("written_at"),
        F.col("written.seq").alias("written_seq"),
        *(f"changed.{column}" for column in _CHANGE),
        F.col("changed.event_time").alias("lifecycle_at"),
        F.col("changed.seq").alias("lifecycle_seq"),
        "documentation",
    )


def _references(tables: Mapping[str, DataFrame]) -> list[DataFrame]:
    named = [*_name(), F.col("event_time"), F.col("seq")]
    is_write = (F.col("direction") == "OUTPUT").alias("is_write")
    subjects = tables["lineage_events"].where(F.col("dataset_name").isNotNull())
    is_description = (F.col("name") == "documentation") & (F.col("type") == "DATASET")
    descriptions = tables["dataset_facets"].where(is_description)
    is_fed = (F.col("target_type") == JOB) & (F.col("type") == DATASET)
    return [
        reported_io(tables).select(*named, "dataset_version", is_write),
        subjects.select(*named),
        tables["event_assertions"].select(*named),
        tables["explicit_lineage_entries"].where(is_fed).select(*_KEY, "event_time", "seq"),
        tables["lifecycle_changes"].select(*_KEY, "event_time", "seq", "uuid", *_CHANGE),
        descriptions.select(*_name(), "seq", "precedence", "uuid", F.col("facet").alias("documentation")),
    ]


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


def _name() -> list[Column]:
    return [F.col(f"dataset_{part}").alias(part) for part in _KEY]


_DATASET = ["dataset_namespace", "dataset_name"]


def derive_dataset_versions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per completed write, and per schema and lifecycle state that DatasetEvents declare."""
    written = _written(tables["run_io"], tables["runs"])
    return written.unionByName(_declared(tables["dataset_facets"]), allowMissingColumns=True)


def _declared(dataset_facets: DataFrame) -> DataFrame:
    """One row per dataset, schema and lifecycle state that DatasetEvents declare."""
    name, has_run = F.col("name"), F.col("run_uuid").isNotNull()
    declaring = name.isin("schema", "lifecycleStateChange") & F.col("direction").isNull() & ~has_run
    declarations = (
        dataset_facets.where(declaring & (F.col("type") == "DATASET"))
        .groupBy("event_id", "seq", *_DATASET)
        .agg(
            F.max("lineage_event_time").alias("event_time"),
            F.max("dataset_version").alias("version"),
            F.max(F.when(name == "schema", F.col("facet"))).alias("schema"),
            F.max(F.when(name == "lifecycleStateChange", F.col("facet"))).alias("change"),
        )
    )
    states = parse_facets(declarations, {"schema": SCHEMA_ID, "change": LIFECYCLE_STATE})
    declared = states.where(F.col("schema_id").isNotNull() | F.col("lifecycle_state").isNotNull())
    return declared.groupBy(*_DATASET, "schema_id", "lifecycle_state").agg(
        F.max_by("version", "seq").alias("version"),
        F.min("event_time").alias("created_at"),
        F.max("seq").alias("last_seq"),
    )


def _written(run_io: DataFrame, runs: DataFrame) -> DataFrame:
    # Outputs of a run with and without a version are one write: early events may lack the version.
    of_dataset = Window.partitionBy("run_uuid", *_DATASET)
    outputs = run_io.where(F.col("direction") == "OUTPUT").withColumn(
        "has_version", F.max(F.col("dataset_version").isNotNull()).over(of_dataset)
    )
    completed = runs.where(F.col("state") == "COMPLETED").select("run_uuid", "job_namespace", "job_name", "ended_at")
    return (
        outputs.where(~F.col("has_version") | F.col("dataset_version").isNotNull())
        .drop("job_namespace", "job_name")
        .join(completed, "run_uuid", how="inner")
        .select(
            *_DATASET,
            F.col("dataset_version").alias("version"),
            "run_uuid",
            "job_namespace",
            "job_name",
            F.col("ended_at").alias("created_at"),
            "schema_id",
            "row_count",
            "last_seq",
        )
    )


_SCHEMA = pa.schema([(name, pa.string()) for name in ("namespace", "name", "canonical_namespace", "canonical_name")])


def derive_symlinks(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset with a symlinks facet and alias; a null alias if the last facet has none."""
    facets = tables["dataset_facets"].where((F.col("name") == SYMLINKS_FACET) & (F.col("type") == "DATASET"))
    last = facets.groupBy("dataset_namespace", "dataset_name").agg(
        F.max_by("facet", F.struct("precedence", "uuid")).alias("facet"),
        F.max_by("seq", "precedence").alias("last_seq"),
    )
    return explode_facet(last, "facet", IDENTIFIERS).withColumnsRenamed(
        {"dataset_namespace": "namespace", "dataset_name": "name"}
    )


def derive_dataset_aliases(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per name of a dataset with several names, with its canonical name."""
    pairs = tables["symlinks"].where(F.col("other_name").isNotNull())
    # One partition: connected components need all names.
    return pairs.drop("last_seq").coalesce(1).mapInArrow(_resolve_aliases, from_arrow_schema(_SCHEMA))


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


def _resolve_aliases(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    canonical_names = resolve_aliases(pair for batch in batches for pair in _pairs(batch))
    rows = [(*name, *canonical) for name, canonical in canonical_names.items()]
    columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
    yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=_SCHEMA)


def _pairs(batch: pa.RecordBatch) -> Iterator[tuple[Name, Name]]:
    names = [batch.column(name).to_pylist() for name in ("namespace", "name", "other_namespace", "other_name")]
    return (((row[0], row[1]), (row[2], row[3])) for row in zip(*names, strict=True))
