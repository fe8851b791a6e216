"""Column lineage from explicit lineage and columnLineage facets."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.events.statements import COLUMN_LINEAGE
from clew.index.keys import KEY_SEPARATOR
from clew.pipeline.derive.nodes import with_canonical_names

_OUTPUT = ("OUTPUT", "dataset_namespace", "dataset_name")
_SOURCE_IO = ("INPUT", "source_namespace", "source_name")


def derive_column_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per edge of the effective assertions, with canonical dataset names.

    One row per source for wide column lineage: the writing task expands the others.
    """
    assertions = (
        tables["lineage_assertions"].where(F.col("is_effective")).drop("asserted_by", "is_effective", "has_edges")
    )
    # Explicit lineage has no version of its target; it is that of the run's output.
    version = F.when(F.col("origin") == COLUMN_LINEAGE, F.col("dataset_version")).otherwise(_version(*_OUTPUT))
    edges = (
        assertions.join(tables["edge_sets"], "edge_set_id", how="inner")
        .join(_versions(tables["run_io"]), "run_uuid", how="left")
        .withColumns({"dataset_version": version, "source_version": _version(*_SOURCE_IO)})
        .drop("versions")
    )
    return with_canonical_names(edges, tables["dataset_aliases"], "dataset", "source")


def _versions(run_io: DataFrame) -> DataFrame:
    """Map of the dataset versions that each run read and wrote."""
    versioned = run_io.where(F.col("dataset_version").isNotNull())
    key = F.concat_ws(KEY_SEPARATOR, "direction", "dataset_namespace", "dataset_name").alias("key")
    last = versioned.groupBy("run_uuid", key).agg(F.max("dataset_version").alias("version"))
    entries = F.collect_list(F.struct("key", "version"))
    return last.groupBy("run_uuid").agg(F.map_from_entries(entries).alias("versions"))


def _version(direction: str, namespace: str, name: str) -> Column:
    return F.col("versions")[F.concat_ws(KEY_SEPARATOR, F.lit(direction), F.col(namespace), F.col(name))]
