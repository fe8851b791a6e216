"""Lineage between columns, from explicit lineage and from columnLineage facets."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.events.statements import COLUMN_LINEAGE
from clew.index.keys import BETWEEN_PARTS
from clew.pipeline.derive.nodes import resolved

_OUTPUT = ("OUTPUT", "dataset_namespace", "dataset_name")
_SOURCE = ("INPUT", "source_namespace", "source_name")


def column_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per edge of the statements that count, datasets by the names of their nodes.

    Of a wide set, one per source: the others are opened by the worker that writes them.
    """
    stated = tables["statements"].where(F.col("counts")).drop("author", "counts", "has_edges")
    # Explicit lineage does not name the version of its target: the run's output does.
    version = F.when(F.col("origin") == COLUMN_LINEAGE, F.col("dataset_version")).otherwise(_version(*_OUTPUT))
    edges = (
        stated.join(tables["edge_sets"], "edge_set", how="inner")
        .join(_versions(tables["run_io"]), "run_uuid", how="left")
        .withColumns({"dataset_version": version, "source_version": _version(*_SOURCE)})
        .drop("versions")
    )
    return resolved(edges, tables["nodes"], "dataset", "source")


def _versions(run_io: DataFrame) -> DataFrame:
    """The versions of the datasets that each run read and wrote, as far as they are named."""
    named = run_io.where(F.col("dataset_version").isNotNull())
    key = F.concat_ws(BETWEEN_PARTS, "direction", "dataset_namespace", "dataset_name").alias("key")
    last = named.groupBy("run_uuid", key).agg(F.max("dataset_version").alias("version"))
    entries = F.collect_list(F.struct("key", "version"))
    return last.groupBy("run_uuid").agg(F.map_from_entries(entries).alias("versions"))


def _version(direction: str, namespace: str, name: str) -> Column:
    return F.col("versions")[F.concat_ws(BETWEEN_PARTS, F.lit(direction), F.col(namespace), F.col(name))]
