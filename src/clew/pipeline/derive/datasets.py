"""Datasets, however they were named: as input, as output, on their own, or by lineage."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.events.explicit_lineage import DATASET, JOB
from clew.events.lifecycle import DROP
from clew.events.lifecycle import FACET as LIFECYCLE_CHANGE
from clew.lake.facet_columns import DESCRIPTION, LIFECYCLE
from clew.pipeline.derive.opening import opened
from clew.pipeline.derive.run_io import said_io

_KEY = ["namespace", "name"]
_CHANGE = ["lifecycle_state", "renamed_from_namespace", "renamed_from_name"]


def datasets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset, by the name that was said, with its node, its description and what became of it."""
    seen = opened(_seen(tables), {"documentation": DESCRIPTION})
    renames = tables["renames"].select(*_KEY, "renamed_at", F.col("last_seq").alias("renamed_seq"))
    known = seen.join(F.broadcast(tables["nodes"]), _KEY, how="left").join(F.broadcast(renames), _KEY, how="left")
    return known.withColumns(
        {
            "node_namespace": F.coalesce("node_namespace", "namespace"),
            "node_name": F.coalesce("node_name", "name"),
            "is_deleted": _is_deleted(),
        }
    ).drop("renamed_at", "renamed_seq")


def lifecycle_changes(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per change of a dataset that an event tells of."""
    facets = tables["dataset_facets"].where((F.col("name") == LIFECYCLE_CHANGE) & (F.col("type") == "DATASET"))
    told = facets.select(*_name(), "seq", "uuid", F.col("lineage_event_time").alias("event_time"), "facet")
    return opened(told, {"facet": LIFECYCLE}).where(F.col("lifecycle_state").isNotNull())


def renames(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset that has another name since."""
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


def _seen(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset, from all that names or describes one."""
    moment = F.struct("event_time", "seq")
    written = F.max(F.when(F.col("is_write"), moment)).alias("written")
    version = F.max_by("dataset_version", F.when(F.col("is_write"), F.struct("seq", "dataset_version")))
    changed = F.max(F.when(F.col("lifecycle_state").isNotNull(), F.struct("event_time", "seq", "uuid", *_CHANGE)))
    described = F.max_by("documentation", F.when(F.col("documentation").isNotNull(), F.struct("turn", "uuid")))
    known = (
        reduce(partial(DataFrame.unionByName, allowMissingColumns=True), _facts(tables))
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
    return known.select(
        *_KEY,
        *("first_event_at", "last_event_at", "first_seq", "last_seq", "current_version"),
        F.col("written.event_time").alias("written_at"),
        F.col("written.seq").alias("written_seq"),
        *(f"changed.{column}" for column in _CHANGE),
        F.col("changed.event_time").alias("lifecycle_at"),
        F.col("changed.seq").alias("lifecycle_seq"),
        "documentation",
    )


def _facts(tables: Mapping[str, DataFrame]) -> list[DataFrame]:
    named = [*_name(), F.col("event_time"), F.col("seq")]
    is_write = (F.col("direction") == "OUTPUT").alias("is_write")
    subjects = tables["lineage_events"].where(F.col("dataset_name").isNotNull())
    is_description = (F.col("name") == "documentation") & (F.col("type") == "DATASET")
    descriptions = tables["dataset_facets"].where(is_description)
    is_fed = (F.col("target_type") == JOB) & (F.col("type") == DATASET)
    return [
        said_io(tables).select(*named, "dataset_version", is_write),
        subjects.select(*named),
        tables["said_statements"].select(*named),
        tables["entries"].where(is_fed).select(*_KEY, "event_time", "seq"),
        tables["lifecycle_changes"].select(*_KEY, "event_time", "seq", "uuid", *_CHANGE),
        descriptions.select(*_name(), "seq", "turn", "uuid", F.col("facet").alias("documentation")),
    ]


def _is_deleted() -> Column:
    """Dropped, or known under another name, and not written or otherwise heard of as there since."""
    written, changed = _moment("written_at", "written_seq"), _moment("lifecycle_at", "lifecycle_seq")
    renamed = _moment("renamed_at", "renamed_seq")
    # The event that drops it may well name it as its output.
    is_dropped = (F.col("lifecycle_state") == DROP) & (written.isNull() | (changed >= written))
    is_renamed = (written.isNull() | (renamed > written)) & (changed.isNull() | (renamed > changed))
    is_deleted = is_dropped | (renamed.isNotNull() & is_renamed)
    return F.coalesce(is_deleted, F.lit(False))  # noqa: FBT003


def _moment(at: str, seq: str) -> Column:
    return F.when(F.col(at).isNotNull(), F.struct(F.col(at).alias("at"), F.col(seq).alias("seq")))


def _name() -> list[Column]:
    return [F.col(f"dataset_{part}").alias(part) for part in _KEY]
